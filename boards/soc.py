"""The system on chip of a board: LiteX without a CPU, a bridge to the host, LiteDRAM, and the accelerator.

The host is the only master on the bus. It reaches the accelerator's registers, DRAM and LiteX's control
registers. The accelerator has a separate port into the DRAM controller, with addresses from 0. Nobody but
the host initialises the DRAM: `dram_steps` returns what it has to write.

`bare_soc` also makes a system with a RISC-V core as a second master, for exported C.

`elaborate` turns a board and a configuration into the inputs of synthesis and into what the host needs.
"""

import json
import logging
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from litedram import modules as dram_modules
from litedram import phy as dram_phys
from litedram.frontend.axi import LiteDRAMAXI2Native, LiteDRAMAXIPort
from litedram.init import get_sdram_phy_init_sequence, get_sdram_phy_py_header
from litex.build.lattice.trellis import LatticeTrellisToolchain
from litex.soc.cores.clock import ECP5PLL
from litex.soc.integration.export import get_csr_json
from litex.soc.integration.soc import SoCError, SoCRegion
from litex.soc.integration.soc_core import SoCCore
from litex.soc.interconnect.axi import AXILiteInterface
from migen import ClockSignal, Instance, ResetSignal

from vdla.boards import sdram
from vdla.boards.board_file import LevellingTable
from vdla.boards.description import Board, Memory
from vdla.boards.sdram import full_rate_port
from vdla.hw.axi import axi4_lite_signature, axi4_signature
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.registers import REGISTER_SPACE_BITS
from vdla.hw.verilog import emit
from vdla.runtime.devices.rtl.design import core_sources, without_comments

MODULE = "vdla_axi"
"""The accelerator's module in its Verilog."""
REGISTERS = 0x8000_0000
"""Byte address of the accelerator's registers on the bus: where cores of LiteX do not cache."""
REGISTER_REGION_BYTES = 0x1000
MEMORY = "main_ram"
"""LiteX's name of the region of DRAM on the bus."""
CORE_MEMORY, CORE_MEMORY_BYTES = 0x1000_0000, 1 << 16
"""Byte address and size of the core's memory on the bus."""
BOOT = (
    0x1000_02B7,  # lui t0, 0x10000: CORE_MEMORY
    0x0002_A303,  # lw t1, 0(t0)
    0xFE03_0EE3,  # beqz t1, -4
    0x0003_0067,  # jr t1
    *[0x0000_006F] * 12,  # j 0
)
"""The core's ROM, RISC-V code: wait until the first word of the core's memory is the address of a program.

It fills lines of 32 bytes of the core's cache. A fetch behind the ROM would hold the bus for 1,000,000
cycles.
"""
_WITHOUT_CORE = {"cpu_type": None, "integrated_sram_size": 0, "with_timer": False}
_WITH_CORE = {
    "cpu_type": "vexriscv",
    "cpu_variant": "lite",  # RV32IM, with a cache of instructions and none of data
    "integrated_rom_size": 4 * len(BOOT),
    "integrated_rom_init": list(BOOT),
    "integrated_sram_size": CORE_MEMORY_BYTES,
    "timer_uptime": True,  # this core cannot read its counter of cycles
}
CLOCK_MARGINS = (1e-9, 1e-4, 1e-3)
"""Relative errors of a clock to try, before the errors of the board's clock generator."""
OUTPUT, INPUT = "o", "i"
CHANNELS = ("aw", "ar", "w", "b", "r")
TOP = "vdla_soc"
"""The top module of a system."""
_LIBRARIES = ("litex", "litedram", "litex-boards", "migen", "amaranth")


def board_soc(board: Board, config: AcceleratorConfig, verilog: Path, clock_mhz: float) -> Any:
    """Return the system on chip of a board, ready for `build`.

    Args:
        verilog: file with the AXI top of `config`, as module MODULE.
        clock_mhz: of the system.
    """
    platform, clocks = _parts(board)
    hertz = int(clock_mhz * 1e6)
    soc = bare_soc(platform, hertz)
    soc.crg = clocks(platform, hertz)
    for pll in (part for part in vars(soc.crg).values() if isinstance(part, ECP5PLL)):
        choose_closest_clocks(pll)
    _add_dram(soc, board.memory)
    soc.add_uartbone(uart_name=board.link.pads, baudrate=board.link.baud)
    add_accelerator(soc, config, verilog)
    return soc


def choose_closest_clocks(pll: ECP5PLL) -> None:
    """Lower the margins of a PLL's outputs as far as there are settings for them.

    LiteX takes the first settings within the margin. Its margin of 1 % lets 70 MHz be 69.44 MHz.
    """
    outputs = dict(pll.clkouts)
    for margin in CLOCK_MARGINS:
        closer = {
            number: (clock, hertz, phase, min(margin, most), *rest)
            for number, (clock, hertz, phase, most, *rest) in outputs.items()
        }
        pll.clkouts = dict(closer)
        try:
            pll.compute_config()  # adds an output if the feedback needs it
        except (ValueError, AssertionError):  # no settings, or no output left for the feedback
            pll.clkouts = outputs
            continue
        pll.clkouts = closer
        return


def bare_soc(platform: Any, hertz: int, *, core: bool = False) -> Any:
    """Return a LiteX system without DRAM and serial console; with LiteX's controller, which can reset it.

    Args:
        core: whether it has a RISC-V core with BOOT as its ROM, memory at CORE_MEMORY, and a timer.
    """
    return SoCCore(platform, hertz, with_uart=False, **(_WITH_CORE if core else _WITHOUT_CORE))


def add_accelerator(soc: Any, config: AcceleratorConfig, verilog: Path) -> None:
    """Add the accelerator: its registers to the bus at REGISTERS, its memory port to LiteDRAM, its Verilog to
    the platform.

    Addresses above the size of DRAM wrap: the driver keeps streams and tensors inside.

    Args:
        soc: with a DRAM that `add_sdram` has added under the name "sdram".
        verilog: file with the AXI top of `config`, as module MODULE.
    """
    bits = (soc.bus.regions[MEMORY].size - 1).bit_length()
    memory = LiteDRAMAXIPort(data_width=config.bus_bits, address_width=bits, id_width=1)
    port, converter = full_rate_port(soc.sdram.crossbar, config.bus_bits)
    soc.submodules += converter, LiteDRAMAXI2Native(memory, port)
    registers = AXILiteInterface(data_width=32, address_width=32)
    region = SoCRegion(origin=REGISTERS, size=REGISTER_REGION_BYTES, cached=False)
    soc.bus.add_slave("vdla", registers, region)
    soc.specials += Instance(
        MODULE,
        i_aclk=ClockSignal("sys"),
        i_aresetn=~ResetSignal("sys"),
        **_connections("m_axi", memory, dict(axi4_signature(config).members), OUTPUT),
        **_connections("s_axi", registers, dict(axi4_lite_signature().members), INPUT),
    )
    soc.platform.add_source(str(verilog))


def _connections(bus: str, interface: Any, wires: Mapping[str, Any], out: str) -> dict[str, Any]:
    """Return the connections of an instance's AXI bus to an interface of LiteX.

    A port that is wider than LiteX's signal (the accelerator's addresses) keeps its high bits open. A port
    that is narrower (the address of a register) gets the low bits.

    Args:
        wires: of the bus, seen from its master.
        out: direction of the wires that the master drives, seen from the instance.
    """
    connections: dict[str, Any] = {}
    for wire, member in wires.items():
        channel = next(name for name in CHANNELS if wire.startswith(name))
        signal = getattr(getattr(interface, channel), wire.removeprefix(channel), None)
        driven = (member.flow.name == "Out") == (out == OUTPUT)
        if signal is not None:
            narrow = signal[:REGISTER_SPACE_BITS] if out == INPUT and wire.endswith("addr") else signal
            connections[f"{OUTPUT if driven else INPUT}_{bus}_{wire}"] = narrow
    return connections


def _parts(board: Board) -> tuple[Any, Any]:
    """Return the platform of a board, and the class of its clock generator."""
    pins = import_module(f"litex_boards.platforms.{board.platform.module}")
    design = import_module(f"litex_boards.targets.{board.platform.module}")
    platform = pins.Platform(toolchain="trellis", **board.platform.arguments)
    if board.platform.extension:
        platform.add_extension(getattr(pins, board.platform.extension))
    return platform, getattr(design, board.platform.clocks)


def _add_dram(soc: Any, memory: Memory) -> None:
    """Add a board's DRAM with its PHY and LiteDRAM's controller; without a cache."""
    arguments = {
        name: dict(enumerate(value)) if isinstance(value, list) else value
        for name, value in memory.arguments.items()
    }
    pads = soc.platform.request(memory.pads)
    phy = getattr(dram_phys, memory.phy)(pads, sys_clk_freq=soc.sys_clk_freq, **arguments)
    for name, value in memory.settings.items():
        setattr(phy.settings, name, value)
    for name, level in memory.tied.items():
        if hasattr(pads, name):
            soc.comb += getattr(pads, name).eq(level)
    if hasattr(phy, "init"):  # the PHY of DDR3 stops and resets the clocks while it starts
        soc.comb += [soc.crg.stop.eq(phy.init.stop), soc.crg.reset.eq(phy.init.reset)]
    part = getattr(dram_modules, memory.part)(soc.sys_clk_freq, memory.rate)
    soc.dram_phy = phy
    soc.add_sdram("sdram", phy=phy, module=part, l2_cache_size=0)


def csr_addresses(soc: Any) -> dict[str, int]:
    """Return the byte address on the bus of each control register of a finalized system, by name."""
    listed = json.loads(get_csr_json(soc.csr_regions))["csr_registers"]
    return {name: register["addr"] for name, register in sorted(listed.items())}


def dram_steps(soc: Any, csr: Mapping[str, int]) -> tuple[tuple[int, int, int], ...]:
    """Return the steps that initialise the DRAM: address of a control register, value, microseconds to wait.

    The commands come from `litedram.init`. They go through the first phase of the DFI injector. The last
    step hands the DRAM to the controller.
    """
    names: dict[str, Any] = {}
    exec(get_sdram_phy_py_header(*_dram_settings(soc)), names)
    sequence, _ = get_sdram_phy_init_sequence(*_dram_settings(soc))
    ready = names["dfii_control_cke"] | names["dfii_control_odt"] | names["dfii_control_reset_n"]
    steps = [(csr["sdram_dfii_control"], ready, 0)]
    for _, address, bank, command, cycles in sequence:
        value = sum(names[flag.lower()] for flag in command.split("|"))
        wait = math.ceil(cycles * 1e6 / soc.sys_clk_freq)
        steps += [(csr["sdram_dfii_pi0_address"], address, 0), (csr["sdram_dfii_pi0_baddress"], bank, 0)]
        if command.startswith("DFII_CONTROL"):
            steps.append((csr["sdram_dfii_control"], value, wait))
        else:
            steps.append((csr["sdram_dfii_pi0_command"], value, 0))
            steps.append((csr["sdram_dfii_pi0_command_issue"], 1, wait))
    return (*steps, (csr["sdram_dfii_control"], names["dfii_control_sel"], 0))


def _dram_settings(soc: Any) -> tuple[Any, Any]:
    """Return the settings of the PHY and the timing of the DRAM."""
    controller = soc.sdram.controller.settings
    return controller.phy, controller.timing


@dataclass(frozen=True, slots=True)
class System:
    """A system on chip that was elaborated.

    Attributes:
        verilog: of the system and the accelerator, without comments. LiteX numbers some signals in an order
            that differs from run to run.
        constraints: pins and clocks at pins, as nextpnr's LPF.
        device: options of nextpnr-ecp5 that name the FPGA.
        csr: byte address on the bus of each control register, by name.
        init: steps that initialise the DRAM, as in `dram_steps`.
        levelling: of the PHY's reads; None if the PHY needs none.
        memory: byte address of DRAM on the bus.
        memory_bytes: of DRAM.
        memory_bytes_per_cycle: the most that the DRAM controller moves in a cycle of the system clock.
    """

    verilog: str
    constraints: str
    device: tuple[str, ...]
    csr: Mapping[str, int]
    init: tuple[tuple[int, int, int], ...]
    levelling: LevellingTable | None
    memory: int
    memory_bytes: int
    memory_bytes_per_cycle: float


def system_key(board: Board, config: AcceleratorConfig, clock_mhz: float) -> str:
    """Return a digest (hex) of everything that a system follows from: board, configuration, clock, sources of
    the kit, and versions of the libraries."""
    sources = [Path(file).read_bytes() for file in (__file__, sdram.__file__)]
    versions = (f"{name} {version(name)}" for name in _LIBRARIES)
    described = msgspec.json.encode(msgspec.structs.replace(board, first_seeds={}))
    return digest_of([described, config.digest, repr(clock_mhz), core_sources(), *sources, *versions])


def elaborate(board: Board, config: AcceleratorConfig, clock_mhz: float) -> System:
    """Return the system of a board with an accelerator.

    Raises:
        ConfigError: LiteX refuses the system, for instance because no PLL setting gives the clock.
    """
    with tempfile.TemporaryDirectory() as name, chdir(name), _quiet():
        accelerator = Path(name) / "accelerator.v"
        accelerator.write_text(emit(config, "axi", MODULE))
        try:
            soc = board_soc(board, config, accelerator, clock_mhz)
            soc.build(build_dir=name, build_name=TOP, run=False)
        except (ValueError, AssertionError, SoCError) as error:  # LiteX asserts limits of clocks and pins
            raise ConfigError(
                f"{board.name} with {config.name} at {clock_mhz:g} MHz: LiteX refuses the system: "
                f"{str(error) or 'a limit of the FPGA is exceeded'}; choose another clock with --set "
                "clock_mhz=..., or change the description of the board"
            ) from error
        system = without_comments((Path(name) / f"{TOP}.v").read_text())
        constraints = (Path(name) / f"{TOP}.lpf").read_text()
        return _described(soc, system + without_comments(accelerator.read_text()), constraints)


def _described(soc: Any, verilog: str, constraints: str) -> System:
    csr, region = csr_addresses(soc), soc.bus.regions[MEMORY]
    return System(
        verilog=verilog,
        constraints=constraints,
        device=_device_options(soc.platform.device),
        csr=csr,
        init=dram_steps(soc, csr),
        levelling=_levelling(soc.dram_phy.settings),
        memory=region.origin,
        memory_bytes=region.size,
        memory_bytes_per_cycle=soc.sdram.crossbar.controller.data_width / 8,
    )


def _device_options(device: str) -> tuple[str, ...]:
    """Return nextpnr's options for a device that is named as Lattice names it."""
    toolchain = LatticeTrellisToolchain()
    family, size, speed, package = toolchain.nextpnr_ecp5_parse_device(device)
    kind = toolchain.nextpnr_ecp5_architectures[f"{family}-{size}"]
    return (f"--{kind}", "--package", package, "--speed", speed)


def _levelling(settings: Any) -> LevellingTable | None:
    if not getattr(settings, "read_leveling", False):
        return None
    return LevellingTable(
        modules=settings.databits // 8,
        delays=settings.delays,
        bitslips=settings.bitslips,
        phases=settings.nphases,
        read_phase=int(getattr(settings.rdphase, "reset", settings.rdphase)),
        write_phase=int(getattr(settings.wrphase, "reset", settings.wrphase)),
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep LiteX's log off the terminal, and undo what LiteX does to logging and to standard error."""
    handlers, level, errors = logging.root.handlers[:], logging.root.level, sys.stderr
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)
        logging.root.handlers[:], sys.stderr = handlers, errors
        logging.root.setLevel(level)
