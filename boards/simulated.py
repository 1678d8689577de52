"""The simulated board: the system on chip of a board with a model of its DRAM, behind a TCP port.

The system is that of a build: bus, UARTBone, LiteDRAM and accelerator. Two parts differ. The serial port
takes and gives a byte a cycle, and LiteDRAM's model stands in place of PHY and DRAM. The driver does not see
a difference. A board with a core has a RISC-V core on its bus, too, for exported C.
"""

import logging
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

import vdla.hw
from vdla.boards.board_file import (
    BoardFile,
    BoardTable,
    LinkTable,
    MapTable,
    MemoryTable,
    read_board_file,
    to_toml,
)
from vdla.boards.description import Board, load_litex_board
from vdla.hw.spec import target_files
from vdla.hw.spec.cache import digest_of, digest_of_files
from vdla.hw.spec.children import end, start
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.extras import require_package
from vdla.hw.spec.sdram import controller_parameters
from vdla.hw.spec.target import Target
from vdla.runtime.devices.rtl.build import PROGRAM, build_program, toolchain_key
from vdla.runtime.devices.rtl.cache import built
from vdla.runtime.devices.rtl.design import without_comments

BOARD = "ulx3s-85f"
"""The board that is simulated."""
HERE = Path(__file__).parent
HARNESS = HERE / "simulated.cpp"
PACKAGES = ("litex", "litedram", "migen", "amaranth")
CORE = "pythondata_cpu_vexriscv"
"""The package with the Verilog of the core."""
TOP = "board"
FILE = "board.toml"
PORT = re.compile(rb"port (\d+)\n")
START_SECONDS = 60.0
QUIET_CYCLES = 20_000
"""Cycles after which the bridge drops a command that it has received in part; on an FPGA, 0.1 s."""
QUIET_MS, ANSWER_SECONDS, RUN_SECONDS = 300.0, 60.0, 7200.0
"""Limits of time of the link: the program has a hundredth of the speed of an FPGA, on a busy machine less."""


@dataclass(frozen=True)
class Simulation:
    """A simulated board that runs.

    Attributes:
        file: its board file, with the port on which it listens.
    """

    file: BoardFile
    _process: "subprocess.Popen[bytes]"

    def close(self) -> None:
        """End the program."""
        end(self._process)
        if self._process.stdout is not None:
            self._process.stdout.close()


def simulate(config: AcceleratorConfig, *, core: bool = False) -> Simulation:
    """Start a simulated board, which ends with this process at the latest. The cache keeps the program.

    Args:
        config: the accelerator.
        core: whether the system has a RISC-V core.

    Raises:
        ToolError: a package or tool is missing, or the program cannot be built.
        DeviceError: the program does not start.
    """
    for package in ("litex", "litedram", "litex_boards", *((CORE,) if core else ())):
        require_package(package, "a simulated board")
    folder = built("board", _key(config, core), lambda place: _build(place, config, core))
    process = start(
        [folder / PROGRAM, str(QUIET_CYCLES)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=folder
    )
    try:
        port = _port(process)
    except BaseException:
        end(process)
        raise
    file = read_board_file(folder)
    link = LinkTable(
        kind="uartbone",
        port=f"socket://127.0.0.1:{port}",
        baud=file.link.baud,
        quiet_ms=QUIET_MS,
        answer_seconds=ANSWER_SECONDS,
        run_seconds=RUN_SECONDS,
    )
    return Simulation(msgspec.structs.replace(file, link=link), process)


def _port(process: "subprocess.Popen[bytes]") -> int:
    """Return the port that the program prints."""
    assert process.stdout is not None, "the program's output is a pipe"
    ready, _, _ = select([process.stdout], [], [], START_SECONDS)
    line = process.stdout.readline() if ready else b""
    match = PORT.fullmatch(line)
    if match is None:
        raise DeviceError(
            f"the simulated board has not started in {START_SECONDS:g} s: it printed {line!r}; "
            "delete its build with vdla cache clear, and run again"
        )
    return int(match[1])


def _key(config: AcceleratorConfig, core: bool) -> str:
    """Return a digest of everything that the program depends on."""
    hardware = Path(vdla.hw.__file__).parent
    return digest_of(
        [
            config.digest,
            digest_of_files(hardware, "*.py"),
            digest_of_files(HERE, "*.py"),
            digest_of_files(HERE, "*.toml"),
            HARNESS.read_bytes(),
            *(version(package) for package in PACKAGES),
            version(CORE) if core else "no core",
            toolchain_key(),
        ]
    )


def _build(folder: Path, config: AcceleratorConfig, core: bool) -> None:
    """Fill `folder` with the program, the contents of its memories, and its board file."""
    with TemporaryDirectory() as place:
        with _quiet():
            soc, sources = _sources(Path(place), config, core)
        build_program(sources, TOP, HARNESS, folder)
        for contents in Path(place).glob("*.init"):
            shutil.copy(contents, folder)
    (folder / FILE).write_text(to_toml(_file(soc, config, _key(config, core))), encoding="utf-8")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep LiteX's log off the terminal, and undo what LiteX does to logging and to standard error."""
    handlers, level, errors, disabled = (
        logging.root.handlers[:],
        logging.root.level,
        sys.stderr,
        logging.root.manager.disable,
    )
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(disabled)
        logging.root.handlers[:], sys.stderr = handlers, errors
        logging.root.setLevel(level)


def _sources(folder: Path, config: AcceleratorConfig, core: bool) -> tuple[Any, list[Path]]:
    """Return the system, and the files of its Verilog."""
    from vdla.boards.soc import MODULE
    from vdla.hw.verilog import emit

    accelerator = folder / "accelerator.v"
    accelerator.write_text(without_comments(emit(config, top="axi", name=MODULE)), encoding="utf-8")
    board = load_litex_board(BOARD)
    soc = simulated_soc(board, config, accelerator, core=core)
    soc.finalize()
    output = soc.platform.get_verilog(soc.get_fragment(), name=TOP)
    with chdir(folder):  # where Migen writes the contents of memories
        output.write(f"{TOP}.v")
    return soc, [folder / f"{TOP}.v", *(Path(name) for name, *_ in soc.platform.sources)]


def simulated_soc(board: Board, config: AcceleratorConfig, verilog: Path, *, core: bool = False) -> Any:
    """Return the system on chip of a board with a serial port of bytes and a model of its DRAM.

    Args:
        verilog: file with the AXI top of `config`, as module MODULE of `vdla.boards.soc`.
        core: whether the system has a RISC-V core.
    """
    from litedram.phy.model import SDRAMPHYModel
    from litex.build.generic_platform import Pins, Subsignal
    from litex.build.io import CRG
    from litex.build.sim import SimPlatform
    from litex.soc.cores.uart import RS232PHYModel, UARTBone
    from migen import Signal

    from vdla.boards.sdram import part_at
    from vdla.boards.soc import add_accelerator, bare_soc

    stream = [
        Subsignal(f"{side}_{wire}", Pins(bits))
        for side in ("source", "sink")
        for wire, bits in (("valid", 1), ("ready", 1), ("data", 8))
    ]
    platform = SimPlatform("SIM", [("sys_clk", 0, Pins(1)), ("serial", 0, *stream)])
    soc = bare_soc(platform, int(board.clock_mhz * 1e6), core=core)
    reset = Signal()
    soc.crg = CRG(platform.request("sys_clk"), reset)
    soc.crg.rst = reset  # LiteX connects its reset command to it
    part = part_at(board.memory.part, board.clock_mhz)
    soc.dram_phy = SDRAMPHYModel(part, data_width=_dram_bits(board), clk_freq=soc.sys_clk_freq)
    soc.add_sdram("sdram", phy=soc.dram_phy, module=part, l2_cache_size=0)
    soc.serial = RS232PHYModel(platform.request("serial"))
    soc.uartbone = UARTBone(soc.serial, clk_freq=10 * QUIET_CYCLES)  # which waits for a tenth of a second
    soc.bus.add_master("uartbone", soc.uartbone.wishbone)
    add_accelerator(soc, config, verilog)
    return soc


def _dram_bits(board: Board) -> int:
    """Return the width of the DRAM's data path, which the pins of the board tell."""
    pins = import_module(f"litex_boards.platforms.{board.platform.module}")
    return len(pins.Platform(toolchain="trellis", **board.platform.arguments).request(board.memory.pads).dq)


def _file(soc: Any, config: AcceleratorConfig, key: str) -> BoardFile:
    """Return the board file of a finalized system with the digest `key`; its port is not known yet."""
    from vdla.boards.soc import MEMORY, REGISTERS, csr_addresses, dram_steps

    board = load_litex_board(BOARD)
    csr: Mapping[str, int] = csr_addresses(soc)
    region = soc.bus.regions[MEMORY]
    memory = controller_parameters(soc.sdram.controller.settings)
    target = Target(config, memory=memory, clock_mhz=board.clock_mhz)
    return BoardFile(
        board=BoardTable(
            name=f"{BOARD}, simulated",
            clock_mhz=board.clock_mhz,
            config_digest=config.digest,
            digest=key,
            target=target_files.to_toml(target),
        ),
        link=LinkTable(kind="uartbone", port="socket://127.0.0.1:0"),
        map=MapTable(registers=REGISTERS, memory=region.origin, memory_bytes=region.size),
        memory=MemoryTable(kind=board.memory.kind, part=board.memory.part, init=dram_steps(soc, csr)),
        csr=csr,
    )
