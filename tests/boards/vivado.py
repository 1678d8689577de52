"""Runs of Tcl scripts in which Vivado's commands only check and record, and the block design that a record makes."""

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

COMMANDS = Path(__file__).with_name("vivado.tcl")
ANSWERS = {
    "BOARD_PARTS": "vendor:board:part0:1.9 vendor:board:part0:1.10",
    "FREQ_HZ": "100000000",
    "PROGRESS": "100%",
    "WNS": "0.125",
    "WHS": "0.010",
}
"""What Vivado answers unless a test says otherwise."""
PINS = {
    "proc_sys_reset": {"slowest_sync_clk", "ext_reset_in", "peripheral_aresetn", "interconnect_aresetn"},
    "smartconnect": {"aclk", "aresetn"},
}
BUSES = {"smartconnect": {"S00_AXI": "slave", "M00_AXI": "master"}}
"""Pins and buses of AMD's blocks: PG164, PG247."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of a script: exit status, what was printed, and the calls in order."""

    status: int
    said: str
    calls: list[list[str]]


def run_script(folder: Path, **answers: str) -> Ran:
    """Run `build.tcl` of a folder in tclsh."""
    record = folder.parent / f"{folder.name}.record"
    record.unlink(missing_ok=True)
    command = ["tclsh", COMMANDS, folder / "build.tcl", record]
    done = subprocess.run(
        list(map(str, command)),
        env=os.environ | ANSWERS | answers,
        capture_output=True,
        text=True,
        check=False,
    )
    calls = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    return Ran(done.returncode, done.stdout + done.stderr, calls)


@dataclass
class Design:
    """A block design, as calls make it.

    Attributes:
        cells: the block of each cell: an IP, or the module of the accelerator.
        properties: of each cell.
        nets, buses: pairs of pins.
        segments: offset and bytes by address space and segment.
    """

    cells: dict[str, str] = field(default_factory=dict)
    properties: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    nets: list[tuple[str, str]] = field(default_factory=list)
    buses: list[tuple[str, str]] = field(default_factory=list)
    segments: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)


def options(call: list[str]) -> dict[str, str]:
    """Return the words after the options of a call."""
    return {name: value for name, value in pairwise(call) if name.startswith("-")}


def design_of(calls: list[list[str]]) -> Design:
    """Return the block design that calls make."""
    design = Design()
    for call in calls:
        given = options(call)
        match call[0]:
            case "create_bd_cell":
                design.cells[call[-1]] = given.get("-vlnv", given.get("-reference", "")).split(":")[-1]
            case "connect_bd_net":
                design.nets.append((call[1], call[2]))
            case "connect_bd_intf_net":
                design.buses.append((call[1], call[2]))
            case "set_property" if "-dict" in call:
                words = given["-dict"].split()
                design.properties[call[-1]].update(zip(words[::2], words[1::2], strict=True))
            case "assign_bd_address":
                place = given["-target_address_space"], call[-1]
                design.segments[place] = int(given["-offset"], 0), int(given["-range"], 0)
    return design


def faults(design: Design, pins: dict[str, set[str]], buses: dict[str, dict[str, str]]) -> Iterator[str]:
    """Yield what is wrong with a design: pins and buses that do not exist, are open, or have two drivers.

    Args:
        pins: of each block that is no IP of `PINS`.
        buses: of each block that is no IP of `BUSES`: "master" or "slave" by name.
    """
    pins, buses = PINS | pins, BUSES | buses
    for kind, pairs, known in (("pin", design.nets, pins), ("bus", design.buses, buses)):
        there = {f"{cell}/{name}" for cell, block in design.cells.items() for name in known.get(block, ())}
        used = {name for pair in pairs for name in pair}
        yield from (f"{kind} {name} does not exist" for name in sorted(used - there))
        idle = {"reset/interconnect_aresetn"}
        yield from (f"{kind} {name} is open" for name in sorted(there - used - idle))
    ends = [end for pair in design.buses for end in pair]
    yield from (f"bus {end} has two connections" for end in sorted({e for e in ends if ends.count(e) > 1}))
    driven = [sink for _, sink in design.nets]
    yield from (f"pin {end} has two drivers" for end in sorted({e for e in driven if driven.count(e) > 1}))
    for pair in design.buses:
        roles = [buses.get(design.cells[name.split("/")[0]], {}).get(name.split("/")[1]) for name in pair]
        if roles != ["master", "slave"]:
            yield f"{pair[0]} to {pair[1]} connects {roles[0]} to {roles[1]}"
