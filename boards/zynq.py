"""Vivado projects for Zynq boards: Verilog, a Tcl script, and `board.toml`.

The script makes a block design: the processing system, the accelerator, a SmartConnect to its registers, and
a SmartConnect from it to a memory port. Vivado is not run here, and no test of the kit runs it.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

from vdla.boards.board_file import FILE_NAME, REPORT, BoardFile, BoardTable, MemoryTable, to_toml
from vdla.boards.description import ZynqBoard
from vdla.hw.spec import target_files
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.target import ClockSource, Target
from vdla.hw.spec.writing import check_writable, write_together
from vdla.hw.verilog import emit
from vdla.hw.vivado import REGISTER_BUS_BITS, Window

TOP, SCRIPT = "vdla_axi", "build.tcl"
"""The accelerator's module, and the script that Vivado runs."""
NOT_RUN = "not run in Vivado"
COMMAND = f"vivado -mode batch -source {SCRIPT}"
_BODY = Path(__file__).with_suffix(".tcl")
_PINS = ("clock", "reset", "interrupt", "control", "control_clock", "data", "data_clock", "segment")
_NAMES = {"lut": "LUTs", "ff": "flip-flops", "dsp": "DSP blocks", "block_ram": "block RAMs of 36 Kbit"}


@dataclass(frozen=True, slots=True)
class ProcessingSystem:
    """Names and limits of a processing system in block designs, for one port to memory.

    Attributes:
        automation: settings of Vivado's automation of the block.
        properties: of the block, but for the clock.
        clock_property: that takes the clock in MHz.
        clock, reset, interrupt: pins to and from the accelerator.
        control, control_clock: the master that reaches registers, and its clock.
        data, data_clock, segment: the port to memory, its clock, and its segment of DDR, which begins at byte
            0.
        registers: first and last byte address of the master's segment.
        memory_bytes: of the segment of DDR at most.
        data_bits: width of the port: the widest, which it has after a reset.

    Source: AMD PG082 and UG585 (processing_system7), PG201 and UG1085 (zynq_ultra_ps_e).
    """

    automation: str
    properties: Mapping[str, str]
    clock_property: str
    clock: str
    reset: str
    interrupt: str
    control: str
    control_clock: str
    data: str
    data_clock: str
    segment: str
    registers: tuple[int, int]
    memory_bytes: int
    data_bits: int


def _zynq_7000(port: int) -> ProcessingSystem:
    return ProcessingSystem(
        automation='make_external "FIXED_IO, DDR" apply_board_preset "1" Master "Disable" Slave "Disable"',
        properties={
            "PCW_USE_M_AXI_GP0": "1",
            f"PCW_USE_S_AXI_HP{port}": "1",
            f"PCW_S_AXI_HP{port}_DATA_WIDTH": "64",
            "PCW_EN_CLK0_PORT": "1",
            "PCW_EN_RST0_PORT": "1",
            "PCW_USE_FABRIC_INTERRUPT": "1",
            "PCW_IRQ_F2P_INTR": "1",
        },
        clock_property="PCW_FPGA0_PERIPHERAL_FREQMHZ",
        clock="FCLK_CLK0",
        reset="FCLK_RESET0_N",
        interrupt="IRQ_F2P",
        control="M_AXI_GP0",
        control_clock="M_AXI_GP0_ACLK",
        data=f"S_AXI_HP{port}",
        data_clock=f"S_AXI_HP{port}_ACLK",
        segment=f"S_AXI_HP{port}/HP{port}_DDR_LOWOCM",
        registers=(0x4000_0000, 0x7FFF_FFFF),
        memory_bytes=1 << 30,
        data_bits=64,
    )


def _zynq_ultrascale(port: int) -> ProcessingSystem:
    number = port + 2  # the ports of this system have common numbers: HP0 is SAXIGP2
    return ProcessingSystem(
        automation='apply_board_preset "1"',
        properties={
            "PSU__USE__M_AXI_GP0": "1",
            "PSU__USE__M_AXI_GP1": "0",
            "PSU__USE__M_AXI_GP2": "0",
            f"PSU__USE__S_AXI_GP{number}": "1",
            f"PSU__SAXIGP{number}__DATA_WIDTH": "128",
            "PSU__FPGA_PL0_ENABLE": "1",
            "PSU__USE__FABRIC__RST": "1",
            "PSU__USE__IRQ0": "1",
        },
        clock_property="PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ",
        clock="pl_clk0",
        reset="pl_resetn0",
        interrupt="pl_ps_irq0",
        control="M_AXI_HPM0_FPD",
        control_clock="maxihpm0_fpd_aclk",
        data=f"S_AXI_HP{port}_FPD",
        data_clock=f"saxihp{port}_fpd_aclk",
        segment=f"SAXIGP{number}/HP{port}_DDR_LOW",
        registers=(0xA000_0000, 0xAFFF_FFFF),
        memory_bytes=1 << 31,
        data_bits=128,
    )


SYSTEMS = {"processing_system7": _zynq_7000, "zynq_ultra_ps_e": _zynq_ultrascale}


@dataclass(frozen=True, slots=True)
class ProjectReport:
    """What a project holds, and what is known of its build.

    Attributes:
        board, part, target, config_digest: what the project is for.
        digest: as in `board.toml`.
        files: SHA-256 (hex) of each file that Vivado reads, by name.
        mhz_asked: clock of the accelerator.
        vivado: NOT_RUN.
        area: LUTs, flip-flops, DSP blocks and block RAMs of the core after synthesis by Yosys.
        capacity: the same of the FPGA.
        memory_bytes_per_cycle: the most that moves between DDR and accelerator in each direction.
    """

    board: str
    part: str
    target: str
    config_digest: str
    digest: str
    files: dict[str, str]
    mhz_asked: float
    vivado: str
    area: dict[str, float]
    capacity: dict[str, float]
    memory_bytes_per_cycle: int


def write_project(
    board: ZynqBoard, target: Target, folder: Path, area: Mapping[str, float], allow_slow_clock: bool = False
) -> ProjectReport:
    """Write a Vivado project, `board.toml` and a report into a folder.

    Args:
        target: its clock is that of the accelerator, unless it is the clock of a preset: then it is the
            board's.
        area: LUTs (lut), flip-flops (ff), DSP blocks (dsp) and block RAMs (block_ram) of the core.
        allow_slow_clock: the script writes a bitstream even if its timing is not met.

    Raises:
        ConfigError: the core is too large for the FPGA, or an address is outside its port.
        OutputError: the folder cannot be written.
    """
    check_writable(*(folder / name for name in (f"{TOP}.v", SCRIPT, REPORT, FILE_NAME)))
    if target.clock_source is ClockSource.PRESET:
        target = replace(target, clock_mhz=board.clock_mhz, clock_source=ClockSource.GIVEN)
    capacity = {name: float(getattr(board.capacity, name)) for name in _NAMES}
    _check_area(board, target, area, capacity)
    system = SYSTEMS[board.zynq.system](int(board.zynq.port.removeprefix("HP")))
    _check_map(board, system)
    window = Window(board.map.memory, board.map.memory_bytes)
    sources = {
        f"{TOP}.v": emit(target.config, "axi", TOP, window),
        SCRIPT: script(board, target, system, allow_slow_clock),
    }
    report = _report(board, target, sources, area, capacity, system)
    page = json.dumps(asdict(report), indent=1) + "\n"
    files = {**sources, REPORT: page, FILE_NAME: to_toml(_board_file(board, target, report.digest))}
    write_together({folder / name: text for name, text in files.items()})
    return report


def _report(
    board: ZynqBoard,
    target: Target,
    sources: Mapping[str, str],
    area: Mapping[str, float],
    capacity: Mapping[str, float],
    system: ProcessingSystem,
) -> ProjectReport:
    """Return the report of a project with these source files, by name."""
    return ProjectReport(
        board=board.name,
        part=board.zynq.part,
        target=target.name,
        config_digest=target.config.digest,
        digest=digest_of(part for each in sources.items() for part in each),
        files={name: sha256(text.encode()).hexdigest() for name, text in sources.items()},
        mhz_asked=target.clock_mhz,
        vivado=NOT_RUN,
        area={name: area[name] for name in _NAMES},
        capacity=dict(capacity),
        memory_bytes_per_cycle=min(target.config.bus_bits, system.data_bits) // 8,
    )


def _check_area(
    board: ZynqBoard, target: Target, area: Mapping[str, float], capacity: Mapping[str, float]
) -> None:
    """Refuse a core that takes more than the FPGA has."""
    over = [
        f"{area[name]:,.10g} of {capacity[name]:,.10g} {text}"
        for name, text in _NAMES.items()
        if area[name] > capacity[name]
    ]
    if over:
        raise ConfigError(
            f"{target.name} does not fit into the {board.zynq.part} of {board.name}: it takes "
            f"{', '.join(over)}; choose a smaller configuration or another board"
        )


def _check_map(board: ZynqBoard, system: ProcessingSystem) -> None:
    """Refuse addresses that the ports of the processing system do not have."""
    registers, size, (first, last) = board.map.registers, 1 << REGISTER_BUS_BITS, system.registers
    if registers % size or not first <= registers <= last:
        raise ConfigError(
            f"board {board.name}: map.registers = {registers:#x} is not a multiple of {size:#x} in "
            f"{first:#x}..{last:#x}, the addresses of {system.control}; change the description"
        )
    end, memory = board.map.memory + board.map.memory_bytes, min(board.zynq.ddr_bytes, system.memory_bytes)
    if end > memory:
        raise ConfigError(
            f"board {board.name}: map.memory = {board.map.memory:#x} with map.memory_bytes = "
            f"{board.map.memory_bytes:#x} ends at {end:#x}, and {system.data} has DDR up to {memory:#x}; "
            "change the description"
        )


def script(board: ZynqBoard, target: Target, system: ProcessingSystem, allow_slow_clock: bool) -> str:
    """Return the Tcl script: variables of board, target and processing system, and the steps of `zynq.tcl`.

    Args:
        allow_slow_clock: as for `write_project`.
    """
    properties = {**system.properties, system.clock_property: f"{target.clock_mhz:g}"}
    variables = {
        "top": TOP,
        "part": board.zynq.part,
        "board_part": board.zynq.board_part,
        "clock_mhz": f"{target.clock_mhz:g}",
        "allow_slow_clock": str(int(allow_slow_clock)),
        "registers": f"{board.map.registers:#x}",
        "registers_bytes": f"{1 << REGISTER_BUS_BITS:#x}",
        "memory": f"{board.map.memory:#x}",
        "memory_bytes": f"{board.map.memory_bytes:#x}",
        "ps_ip": board.zynq.system,
        "ps_automation": system.automation,
        "ps_properties": " ".join(f"CONFIG.{name} {value}" for name, value in properties.items()),
        **{
            f"ps_{name}": getattr(system, name)
            for name in (
                "clock",
                "reset",
                "interrupt",
                "control",
                "control_clock",
                "data",
                "data_clock",
                "segment",
            )
        },
    }
    names = f"board {json.dumps(board.name)}, target {json.dumps(target.name)}"
    head = f"# Written by vdla build: {names}; {NOT_RUN}.\n# Run: {COMMAND}\n"
    return (
        head + "".join(f"set {name} {{{value}}}\n" for name, value in variables.items()) + _BODY.read_text()
    )


def _board_file(board: ZynqBoard, target: Target, digest: str) -> BoardFile:
    return BoardFile(
        board=BoardTable(
            name=board.name,
            clock_mhz=target.clock_mhz,
            config_digest=target.config.digest,
            digest=digest,
            target=target_files.to_toml(target),
        ),
        link=board.link,
        map=board.map,
        memory=MemoryTable(kind="PS", part=board.zynq.part),
    )
