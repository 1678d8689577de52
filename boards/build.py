"""Builds: from a board and a target to a bitstream, `board.toml` and a report.

The stages are elaboration, synthesis, place and route, and packing. The cache keeps the result of each stage
by a digest of its inputs and of its tool. A build that was interrupted goes on with the first
stage that is not there. The output folder is written at the end.
"""

import gzip
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from vdla.boards.board_file import (
    BITSTREAM,
    FILE_NAME,
    REPORT,
    BoardFile,
    BoardTable,
    LinkTable,
    MapTable,
    MemoryTable,
    bitstream_digest,
    to_toml,
)
from vdla.boards.description import Board
from vdla.boards.sdram import memory_model
from vdla.boards.soc import REGISTERS, TOP, System, elaborate, system_key
from vdla.boards.tools import (
    ToolTimeoutError,
    ecppack,
    nextpnr_ecp5,
    with_marked_indices,
    with_plain_indices,
    yosys,
)
from vdla.hw.spec import target_files
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.children import Children
from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.sdram import SdramParameters
from vdla.hw.spec.target import ClockSource, Target
from vdla.hw.spec.writing import check_writable, write_bytes, write_together
from vdla.runtime.devices.rtl.cache import built

Tell = Callable[[str], None]
"""Takes a line about the progress."""

_SYNTHESIS = (
    'attrmap -tocase keep -imap keep="true" keep=1 -imap keep="false" keep=0 -remove keep=0; '
    f"synth_ecp5 -top {TOP}"
)
_ROUTING = ("--placer", "static", "--router", "router2", "--tmg-ripup", "--timing-allow-fail")
"""Measured on `small` (ULX3S, seed 1, about 70 MHz asked). With the default placer, router2 had 682 contested
wires after 28 iterations and 1,434 after 48. With `static` and `--tmg-ripup`, the route ended at 68.8 MHz.
From the same placement of a variant of `small`, it ended at 61.5 MHz without `--tmg-ripup`, by detours of
9 ns, and at 68.0 MHz with it. router1 rips up a routed wire for every third wire in a system of this size.
The timing is judged by `build`, which names the slowest path."""
HEADROOM = 1.02
"""Clocks that nextpnr is asked for, relative to the system's clocks. The delays by which router2 decides can
be too short: it ended with 69.4 MHz by its delays, and the report said 68.0 MHz."""
_FREQUENCY = re.compile(r"(?<=^FREQUENCY PORT )(\S+) (\S+) MHz", re.MULTILINE)
_SECONDS = {"synthesis": 2 * 3600, "routing": 1800, "packing": 600}
"""After which a stage is ended. Where a placement is too slow for the clock, router2 with `--tmg-ripup` may
go on for hours after the last contested wire."""
_CELLS = {"lut": "TRELLIS_COMB", "ff": "TRELLIS_FF", "dsp": "MULT18X18D", "block_ram": "DP16KD"}
_PRIMITIVE = re.compile(r"_(?:TRELLIS_FF|DP16KD|TRELLIS_DPR16X4|MULT18X18D|LUT4|CCU2C|PFUMX|L6MUX21)_.*")
SHOWN_CELLS = 4


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage that is in the cache.

    Attributes:
        folder: with its files.
        key: digest (hex) of its inputs.
        seconds: of wall time that it took when it ran.
    """

    folder: Path
    key: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """What a build reached.

    Attributes:
        board, target, config_digest: what was built.
        digest: as in `board.toml`.
        sources: digest (hex) of everything that place and route read.
        mhz, mhz_asked: of the system clock.
        met: the timing of all clocks is met.
        seed: of the placement.
        lut: LUT4-equivalents; with ff, dsp (multipliers) and block_ram (18 Kbit), the same of the device.
        memory_bytes_per_cycle, memory_megabytes_per_second: the most that moves between DRAM and accelerator.
        memory_modelled: the target in `board.toml` has the timing of this DRAM; else of the target's memory.
        slowest: the slowest path of the system clock.
        seconds: of wall time of each stage when it ran.
    """

    board: str
    target: str
    config_digest: str
    digest: str
    sources: str
    mhz: float
    mhz_asked: float
    met: bool
    seed: int
    lut: int
    ff: int
    dsp: int
    block_ram: int
    lut_of_device: int
    dsp_of_device: int
    block_ram_of_device: int
    memory_bytes_per_cycle: float
    memory_megabytes_per_second: float
    memory_modelled: bool
    slowest: str
    seconds: dict[str, float]


@dataclass(frozen=True, slots=True)
class Routed:
    """A routed system.

    Attributes:
        mhz: the system clock that it reaches: of all clocks, the clock with the least room.
        mhz_asked: constraint of that clock.
        met: every clock reaches its constraint.
        slowest: the slowest path of that clock, as text.
        used, device: LUT4-equivalents (lut), flip-flops (ff), multipliers (dsp) and block RAMs of 18 Kbit
            (block_ram) in use, and of the device.
    """

    mhz: float
    mhz_asked: float
    met: bool
    slowest: str
    used: Mapping[str, int]
    device: Mapping[str, int]


def with_headroom(constraints: str) -> str:
    """Return the constraints of a system (LPF) with clocks that are faster by HEADROOM. The outputs of a PLL
    follow its input."""
    return _FREQUENCY.sub(lambda match: f"{match[1]} {float(match[2]) * HEADROOM:.6f} MHz", constraints)


def read_routed(report: Mapping[str, Any]) -> Routed:
    """Return what the report (`--report`, JSON) of nextpnr says, which was given HEADROOM."""
    clocks = report["fmax"]
    worst = min(clocks, key=lambda name: clocks[name]["achieved"] / clocks[name]["constraint"])
    mhz, asked = float(clocks[worst]["achieved"]), float(clocks[worst]["constraint"]) / HEADROOM
    cells = report["utilization"]
    return Routed(
        mhz=mhz,
        mhz_asked=asked,
        met=mhz >= asked,
        slowest=_slowest(report, worst),
        used={name: cells[cell]["used"] for name, cell in _CELLS.items()},
        device={name: cells[cell]["available"] for name, cell in _CELLS.items()},
    )


def _slowest(report: Mapping[str, Any], clock: str) -> str:
    """Return the slowest path between registers of a clock: its ends, its delay, and what it passes."""
    paths = [
        path["path"]
        for path in report["critical_paths"]
        if path["from"].endswith(clock) and path["to"].endswith(clock) and path["path"]
    ]
    if not paths:
        return f"none between registers of {clock}"
    hops = paths[0]
    total = sum(hop["delay"] for hop in hops)
    wire = sum(hop["delay"] for hop in hops if hop["type"] == "routing")
    names = [_signal(hop["to"]["cell"]) for hop in hops]
    passed = [name for index, name in enumerate(names[:-1]) if index == 0 or name != names[index - 1]]
    middle = ", ".join(passed[:: max(1, len(passed) // SHOWN_CELLS)])
    start = _signal(hops[0]["from"]["cell"])
    return f"{start} to {names[-1]}, {total:.2f} ns ({wire:.2f} of wire), through {middle}"


class Placement(NamedTuple):
    """A routed placement."""

    seed: int
    stage: Stage
    routed: Routed


def _signal(cell: str) -> str:
    """Return the name of the signal that a cell of nextpnr computes."""
    return _PRIMITIVE.sub("", cell)


def build(
    board: Board, target: Target, folder: Path, tell: Tell, seeds: int = 1, allow_slow_clock: bool = False
) -> Report:
    """Build a bitstream; write it with `board.toml` and the report into a folder.

    Args:
        target: its clock is the system clock, unless it is the clock of a preset: then it is the board's.
        tell: is called when a stage begins or its result is in the cache.
        seeds: placements to try until the timing is met, as many at a time as there are processors. The
            board says which is the first.
        allow_slow_clock: hand over the fastest placement even if its timing is not met.

    Raises:
        ConfigError: LiteX refuses the system.
        ToolError: a tool is missing or fails; the timing is not met.
        OutputError: the folder cannot be written.
    """
    files = [folder / name for name in (BITSTREAM, REPORT, FILE_NAME)]
    check_writable(*files)
    target = _of_board(target, board)
    elaborated, system = _elaborated(board, target, tell)
    netlist = _synthesised(elaborated.key, system, tell)
    seed, stage, routed = _best_placement(system, netlist, board.seeds(target.name, seeds), tell)
    if not routed.met and not allow_slow_clock:
        raise _too_slow(routed, board, seeds)
    packed = _packed(stage, tell)
    bitstream = (packed.folder / BITSTREAM).read_bytes()
    digest = bitstream_digest(stage.key, bitstream)
    seconds = {
        "elaboration": elaborated.seconds,
        "synthesis": netlist.seconds,
        "routing": stage.seconds,
        "packing": packed.seconds,
    }
    report = _report(board, target, system, routed, seed, stage.key, digest, seconds)
    write_bytes(files[0], bitstream)
    page = json.dumps(asdict(report), indent=1) + "\n"
    write_together({files[1]: page, files[2]: to_toml(_board_file(board, target, system, digest))})
    return report


def _of_board(target: Target, board: Board) -> Target:
    """Return a target with the memory of a board, and with its clock unless another clock was chosen."""
    if target.clock_source is ClockSource.PRESET:
        target = replace(target, clock_mhz=board.clock_mhz, clock_source=ClockSource.ROUTED)
    model = memory_model(board.memory, target.clock_mhz)
    return target if model is None else replace(target, memory=model)


def _stage(name: str, number: int, key: str, tell: Tell, doing: str, work: Callable[[Path], None]) -> Stage:
    """Return a stage of the cache; do its work if it is not there.

    Args:
        work: fills the empty folder that it is given.
    """
    ran: list[float] = []

    def timed(folder: Path) -> None:
        """Do the work, and keep its wall time beside its result."""
        tell(f"[{number}/4] {doing}")
        start = time.monotonic()
        work(folder)
        ran.append(time.monotonic() - start)
        (folder / "seconds").write_text(f"{ran[0]:.1f}")

    folder = built(f"board_{name}", key, timed)
    seconds = float((folder / "seconds").read_text())
    if not ran:
        tell(f"[{number}/4] {name}: kept from an earlier build")
    return Stage(folder, key, seconds)


def _elaborated(board: Board, target: Target, tell: Tell) -> tuple[Stage, System]:
    def work(folder: Path) -> None:
        """Elaborate, and keep the system in `folder`."""
        system = elaborate(board, target.config, target.clock_mhz)
        (folder / "system.json").write_bytes(msgspec.json.encode(system))

    key = system_key(board, target.config, target.clock_mhz)
    doing = f"elaborating {board.name} with {target.name} at {target.clock_mhz:g} MHz"
    stage = _stage("elaboration", 1, key, tell, doing, work)
    return stage, msgspec.json.decode((stage.folder / "system.json").read_bytes(), type=System)


def _synthesised(elaborated: str, system: System, tell: Tell) -> Stage:
    tool = yosys("building a bitstream")

    def work(folder: Path) -> None:
        """Synthesise, and keep the netlist in `folder`."""
        (folder / "design.v").write_text(with_marked_indices(system.verilog))
        script = f"read_verilog -sv design.v; {_SYNTHESIS}; write_json netlist.json"
        tool.run(["-q", "-l", "yosys.log", "-p", script], folder, "yosys.log", _SECONDS["synthesis"])
        netlist = with_plain_indices((folder / "netlist.json").read_text())
        (folder / "netlist.json.gz").write_bytes(gzip.compress(netlist.encode(), 1))
        for name in ("design.v", "netlist.json", "yosys.log"):
            (folder / name).unlink(missing_ok=True)

    key = digest_of([elaborated, _SYNTHESIS, tool.version])
    doing = f"synthesis by {tool.name}: from one to ten minutes"
    return _stage("synthesis", 2, key, tell, doing, work)


def _best_placement(system: System, netlist: Stage, seeds: list[int], tell: Tell) -> Placement:
    """Return seed, stage and result of the first placement whose timing is met, else of the fastest.

    As many placements as the machine has processors are routed at a time. The others end with the first
    placement whose timing is met.

    Raises:
        ToolError: nextpnr fails, or routes no placement in time.
    """
    tried: list[Placement] = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool, Children() as children:
        routing = [pool.submit(_placement, system, netlist, seed, tell, children) for seed in seeds]
        try:
            for finished in as_completed(routing):
                placement = finished.result()
                tried += [] if placement is None else [placement]
                if tried and tried[-1].routed.met:
                    break
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if not tried:
        raise ToolError(
            f"none of the placements (seeds tried: {len(seeds)}) was routed in {_SECONDS['routing'] / 60:g} "
            "minutes; choose a lower clock with --set clock_mhz=..., or try more placements with --seeds "
            f"{len(seeds) + 3}"
        )
    return max(tried, key=lambda placement: (placement.routed.met, placement.routed.mhz))


def _placement(system: System, netlist: Stage, seed: int, tell: Tell, children: Children) -> Placement | None:
    """Return the placement of a seed; None if it is not routed in time.

    Raises:
        ToolError: nextpnr fails, or is ended with the `children`.
    """
    try:
        stage = _routed(system, netlist, seed, tell, children)
    except ToolTimeoutError:
        tell(f"seed {seed}: given up, since it was not routed in {_SECONDS['routing'] / 60:g} minutes")
        return None
    routed = read_routed(json.loads((stage.folder / REPORT).read_text()))
    if not routed.met:
        tell(f"seed {seed}: {routed.mhz:.1f} MHz, {routed.mhz_asked:.1f} asked")
    return Placement(seed, stage, routed)


def _routed(system: System, netlist: Stage, seed: int, tell: Tell, children: Children) -> Stage:
    tool = nextpnr_ecp5("building a bitstream")
    options = [*system.device, *_ROUTING, "--seed", str(seed)]

    def work(folder: Path) -> None:
        """Place and route, and keep the configuration of the FPGA and nextpnr's report in `folder`."""
        (folder / "netlist.json").write_bytes(
            gzip.decompress((netlist.folder / "netlist.json.gz").read_bytes())
        )
        (folder / "pins.lpf").write_text(with_headroom(system.constraints))
        files = ["--json", "netlist.json", "--lpf", "pins.lpf", "--textcfg", "out.config", "--report", REPORT]
        tool.run([*options, *files, "-q"], folder, seconds=_SECONDS["routing"], children=children)
        for name in ("netlist.json", "pins.lpf"):
            (folder / name).unlink()

    key = digest_of([netlist.key, *options, repr(HEADROOM), tool.version])
    doing = f"place and route by {tool.name}, seed {seed}: from five minutes to half an hour"
    return _stage("routing", 3, key, tell, doing, work)


def _packed(routed: Stage, tell: Tell) -> Stage:
    tool = ecppack("building a bitstream")

    def work(folder: Path) -> None:
        """Pack the bitstream into `folder`."""
        shutil.copy(routed.folder / "out.config", folder / "in.config")
        tool.run(["--compress", "in.config", "--bit", BITSTREAM], folder, seconds=_SECONDS["packing"])
        (folder / "in.config").unlink()

    key = digest_of([routed.key, tool.version])
    return _stage("packing", 4, key, tell, f"packing the bitstream by {tool.name}", work)


def _too_slow(routed: Routed, board: Board, seeds: int) -> ToolError:
    """Return the error for a build whose timing is not met."""
    return ToolError(
        f"{board.name}: the timing is not met, and no file was written. The system clock reaches "
        f"{routed.mhz:.1f} MHz of {routed.mhz_asked:.1f} MHz (seeds tried: {seeds}). Slowest path: "
        f"{routed.slowest}. Lower the clock with --set clock_mhz={int(routed.mhz)}, try more placements with "
        f"--seeds {seeds + 3}, or take the bitstream with --allow-slow-clock"
    )


def _report(
    board: Board,
    target: Target,
    system: System,
    routed: Routed,
    seed: int,
    sources: str,
    digest: str,
    seconds: dict[str, float],
) -> Report:
    used, device = routed.used, routed.device
    bandwidth = min(system.memory_bytes_per_cycle, target.config.bus_bytes)
    return Report(
        board=board.name,
        target=target.name,
        config_digest=target.config.digest,
        digest=digest,
        sources=sources,
        mhz=round(routed.mhz, 2),
        mhz_asked=round(target.clock_mhz, 2),
        met=routed.met,
        seed=seed,
        lut=used["lut"],
        ff=used["ff"],
        dsp=used["dsp"],
        block_ram=used["block_ram"],
        lut_of_device=device["lut"],
        dsp_of_device=device["dsp"],
        block_ram_of_device=device["block_ram"],
        memory_bytes_per_cycle=bandwidth,
        memory_megabytes_per_second=round(bandwidth * target.clock_mhz, 1),
        memory_modelled=isinstance(target.memory, SdramParameters),
        slowest=routed.slowest,
        seconds=seconds,
    )


def _board_file(board: Board, target: Target, system: System, digest: str) -> BoardFile:
    return BoardFile(
        board=BoardTable(
            name=board.name,
            clock_mhz=target.clock_mhz,
            config_digest=target.config.digest,
            digest=digest,
            target=target_files.to_toml(target),
            loader=board.flash,
        ),
        link=LinkTable(kind=board.link.kind, port=board.link.port, baud=board.link.baud),
        map=MapTable(registers=REGISTERS, memory=system.memory, memory_bytes=system.memory_bytes),
        memory=MemoryTable(
            kind=board.memory.kind, part=board.memory.part, init=system.init, levelling=system.levelling
        ),
        csr=system.csr,
    )
