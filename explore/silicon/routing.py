"""Clock of a core on ECP5: placed and routed by nextpnr inside a shell of shift registers.

The shell keeps pins from limiting the clock. A shift register feeds every input bit from one pin. Every
output bit ends in a register; a second shift register folds these into one pin. All paths of the design thus
run between registers, and three pins suffice.
"""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vdla.boards.tools import nextpnr_ecp5
from vdla.explore.silicon import netlist as netlist_module
from vdla.explore.silicon import sta
from vdla.explore.silicon.families import family
from vdla.explore.silicon.hardware import MODULE
from vdla.explore.silicon.netlist import TOP, Netlist
from vdla.explore.silicon.remembered import remember
from vdla.explore.silicon.sta import TimedPath, read_delays, slowest_paths
from vdla.explore.silicon.synthesis import Tell, netlist_key, netlist_of, silent, unit_name
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.devices.rtl.cache import built

DEVICE = ("--85k", "--package", "CABGA381", "--speed", "6")
ASKED_MHZ = 100
"""What nextpnr works towards; it does not stop there, and does not fail below."""
LARGE_LUTS = 20_000
"""LUT4-equivalents from which on a design is routed by nextpnr's router2. Its default, router1, heeds timing
better, but rips up a routed wire for every third wire that it routes where so many compete."""
PATHS = 5
_FILES = (netlist_module, sta)
CLOCK = "clk"
SHELL = "shell"
"""Begin of the names of the cells around a design."""
XOR_OF_A_AND_B = "0110011001100110"
FLIP_FLOP = {
    "CEMUX": "1 ",  # the blank marks text, where Yosys writes numbers as binary digits
    "CLKMUX": "CLK",
    "GSR": "AUTO",
    "LSRMUX": "LSR",
    "REGSET": "RESET",
    "SRMODE": "LSR_OVER_CE",
}
Module = Mapping[str, Any]
"""A module of Yosys' JSON netlist."""


@dataclass(frozen=True, slots=True)
class UnitPath:
    """A slow path, in the names of the units.

    Attributes:
        start, end: the registers or memories between which it runs, as `unit/signal`.
        units: that it passes through, in order, without repeats in a row.
        ns: from clock edge to clock edge.
    """

    start: str
    end: str
    units: tuple[str, ...]
    ns: float


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock that a routed design reaches.

    Attributes:
        mhz: the greatest clock.
        seed: of the placement.
        paths: the slowest path from each unit to each other, slowest first; at most PATHS.
    """

    mhz: float
    seed: int
    paths: tuple[UnitPath, ...]

    @property
    def worst(self) -> dict[str, Any]:
        """The slowest path, as the store holds it."""
        path = self.paths[0]
        return {"start": path.start, "end": path.end, "units": list(path.units), "ns": path.ns}


def clock_of(config: AcceleratorConfig, seed: int = 1, tell: Tell = silent) -> Clock:
    """Return the clock of a core on an LFE5U-85F of speed grade 6; kept between processes.

    Raises:
        ToolError: Yosys or nextpnr is missing or fails; the design does not fit the device.
    """
    tool = nextpnr_ecp5("routing")
    sources = [Path(str(module.__file__)).read_bytes() for module in _FILES]
    key = digest_of(
        [netlist_key(config, "ecp5"), *DEVICE, str(seed), tool.version, *sources, Path(__file__).read_bytes()]
    )

    def work(folder: Path) -> None:
        """Route, and keep clock and paths in `folder`."""
        netlist = netlist_of(config, "ecp5", tell)
        tell(f"placing and routing {config.name}, seed {seed}; this takes some minutes")
        (folder / "clock.json").write_text(json.dumps(asdict(route(netlist, MODULE, seed))))

    clock = _from_json(json.loads((built("clock", key, work) / "clock.json").read_text()))
    remember(config, "ecp5", {"mhz": clock.mhz, "path": clock.worst})
    return clock


def best_clock(config: AcceleratorConfig, seeds: int, tell: Tell = silent) -> tuple[Clock, ...]:
    """Return the clocks of placements 1..seeds, fastest first.

    Raises:
        ToolError: as `clock_of`.
    """
    clocks = [clock_of(config, seed, tell) for seed in range(1, seeds + 1)]
    return tuple(sorted(clocks, key=lambda clock: (-clock.mhz, clock.seed)))


def route(netlist: Netlist, module: str, seed: int) -> Clock:
    """Place and route a netlist in a shell, and return its clock and its slowest paths.

    Raises:
        ToolError: nextpnr is missing or fails; the design does not fit the device.
    """
    tool = nextpnr_ecp5("routing")
    design = {"creator": "vdla", "modules": {module: in_shell(netlist.module)}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "design.json").write_text(json.dumps(design))
        options = ["--freq", str(ASKED_MHZ), "--timing-allow-fail", "--lpf-allow-unconstrained", "-q"]
        files = ["--json", "design.json", "--sdf", "delays.sdf", "--report", "report.json"]
        placement = ["--top", module, "--seed", str(seed)]
        tool.run([*DEVICE, *options, *files, *placement, "--router", router_of(netlist)], folder)
        report: dict[str, Any] = json.loads((folder / "report.json").read_text())
        paths = slowest_paths(read_delays((folder / "delays.sdf").read_text()))
    mhz = min(float(clock["achieved"]) for clock in report["fmax"].values())
    return Clock(mhz, seed, _worst(paths, netlist.unit_of_cell))


def router_of(netlist: Netlist) -> str:
    """Return the name of nextpnr's router for a design: it depends on the LUTs alone."""
    return "router2" if family("ecp5").count(netlist.kinds())["lut"] >= LARGE_LUTS else "router1"


def _worst(paths: list[TimedPath], units: Mapping[str, str]) -> tuple[UnitPath, ...]:
    """Return the slowest path from each unit to each other unit, without paths of the shell's registers."""
    slowest: dict[tuple[str, str], UnitPath] = {}
    for path in paths:
        named = _in_units(path, units)
        if SHELL not in (named.units[0], named.units[-1]):
            slowest.setdefault((named.units[0], named.units[-1]), named)
        if len(slowest) == PATHS:
            break
    return tuple(slowest.values())


def _in_units(path: TimedPath, units: Mapping[str, str]) -> UnitPath:
    passed = [_unit_of(cell, units) for cell, _ in path.pins]
    runs = [unit for index, unit in enumerate(passed) if index == 0 or unit != passed[index - 1]]
    start, end = (_place(path.pins[index][0], passed[index]) for index in (0, -1))
    return UnitPath(start, end, tuple(runs), round(path.ns, 3))


def _unit_of(cell: str, units: Mapping[str, str]) -> str:
    """Return the unit of a cell of nextpnr, which appends suffixes to names, as in `x$CCU2_COMB0`."""
    if cell.startswith(f"{SHELL}."):
        return SHELL
    while cell not in units and "$" in cell:
        cell = cell.rpartition("$")[0]
    return unit_name(units.get(cell, TOP))


def _place(cell: str, unit: str) -> str:
    """Return `unit/signal` for a register or memory."""
    signal = re.split(r"_(?:TRELLIS_FF|DP16KD|TRELLIS_DPR16X4|MULT18X18D)_", cell)[0].rpartition(".")[2]
    return f"{unit}/{signal}"


def _from_json(kept: Mapping[str, Any]) -> Clock:
    paths = tuple(UnitPath(**{**path, "units": tuple(path["units"])}) for path in kept["paths"])
    return Clock(kept["mhz"], kept["seed"], paths)


def in_shell(module: Module) -> Module:
    """Return a mapped ECP5 module with the shell around it; its ports are `clk`, `shift_in`, `shift_out`.

    Args:
        module: flat, with a port `clk`; its cells keep their names.
    """
    ports = module["ports"]
    clock = ports[CLOCK]["bits"][0]
    bits = _fresh(module)
    pin = next(bits)
    cells = dict(module["cells"])
    before: int | str = pin
    driven = [
        bit
        for name, port in ports.items()
        if port["direction"] == "input" and name != CLOCK
        for bit in port["bits"]
    ]
    for index, bit in enumerate(driven):
        cells[f"{SHELL}.in_{index}"] = _register(clock, before, bit)
        before = bit
    read = [bit for port in ports.values() if port["direction"] == "output" for bit in port["bits"]]
    before = "0"
    for index, bit in enumerate(read):
        captured, mixed, shifted = next(bits), next(bits), next(bits)
        cells[f"{SHELL}.out_{index}"] = _register(clock, bit, captured)
        cells[f"{SHELL}.mix_{index}"] = _xor(captured, before, mixed)
        cells[f"{SHELL}.fold_{index}"] = _register(clock, mixed, shifted)
        before = shifted
    return {
        **module,
        "ports": {
            CLOCK: {"direction": "input", "bits": [clock]},
            "shift_in": {"direction": "input", "bits": [pin]},
            "shift_out": {"direction": "output", "bits": [before]},
        },
        "cells": cells,
    }


def _fresh(module: Module) -> Iterator[int]:
    """Yield bit numbers that the module does not use."""
    used = [bit for net in module["netnames"].values() for bit in net["bits"] if isinstance(bit, int)]
    used += [
        bit
        for cell in module["cells"].values()
        for bits in cell["connections"].values()
        for bit in bits
        if isinstance(bit, int)
    ]
    number = max(used) + 1
    while True:
        yield number
        number += 1


def _cell(
    kind: str, parameters: Mapping[str, str], inputs: Mapping[str, object], output: str, bit: object
) -> Module:
    return {
        "hide_name": 0,
        "type": kind,
        "parameters": dict(parameters),
        "attributes": {},
        "port_directions": {**dict.fromkeys(inputs, "input"), output: "output"},
        "connections": {**{port: [value] for port, value in inputs.items()}, output: [bit]},
    }


def _register(clock: object, value: object, bit: object) -> Module:
    return _cell("TRELLIS_FF", FLIP_FLOP, {"CLK": clock, "DI": value, "LSR": "0"}, "Q", bit)


def _xor(left: object, right: object, bit: object) -> Module:
    inputs = {"A": left, "B": right, "C": "0", "D": "0"}
    return _cell("LUT4", {"INIT": XOR_OF_A_AND_B}, inputs, "Z", bit)
