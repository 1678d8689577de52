"""Mapped netlists as Yosys writes them in JSON, and the unit of the accelerator that each cell belongs to.

Synthesis flattens the hierarchy, and mapping replaces the names of combinational signals. Names of registers
and of carry chains, memories and multipliers stay. A cell belongs to the unit whose signal it drives; a cell
that drives nameless nets belongs to the unit of most of the cells that it feeds.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

TOP = "top"
"""The unit of cells outside every sub-module: the wiring of the core itself."""

_MODULE = re.compile(r"^module \\?(?P<name>\S+?) ?\(.*?^endmodule", re.MULTILINE | re.DOTALL)
_PORT = re.compile(r"^  (?P<way>input|output) (?:\[\d+:\d+\] )?\\?(?P<name>\S+?) *;", re.MULTILINE)
_INSTANCE = re.compile(
    r"^  \\?(?P<module>\S+) +\\?(?P<name>\S+) \(\n(?P<ports>(?:    \..*\n)*)  \);", re.MULTILINE
)
_CONNECTION = re.compile(r"^    \.\\?(?P<port>\S+?) ?\(\\?(?P<signal>[^\s{}\[\]()]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Units:
    """The units of a design: its sub-modules, by their path from the top.

    Attributes:
        inputs: of each unit, the names of its input ports.
        drivers: the unit and output port behind a signal, for signals that a sub-module drives. Flattening
            keeps the name of the signal, not the name of the port.
    """

    inputs: Mapping[str, frozenset[str]]
    drivers: Mapping[tuple[str, str], tuple[str, str]]

    def of_name(self, name: str) -> tuple[str, str]:
        """Return the unit in which a flattened name stands, and the name there."""
        parts = name.split(".")
        for length in range(len(parts) - 1, 0, -1):
            unit = ".".join(parts[:length])
            if unit in self.inputs:
                return unit, ".".join(parts[length:])
        return TOP, name

    def driving(self, unit: str, signal: str) -> str | None:
        """Return the unit that drives a signal of `unit`; None for an input of `unit`."""
        while (unit, signal) in self.drivers:
            unit, signal = self.drivers[unit, signal]
        return None if signal in self.inputs.get(unit, ()) else unit


def units_of(verilog: str, module: str) -> Units:
    """Return the units of a design in Verilog, whose modules are named by their path."""
    bodies = {_unit(match["name"], module): match.group() for match in _MODULE.finditer(verilog)}
    ports = {
        unit: [(port["name"], port["way"]) for port in _PORT.finditer(body)] for unit, body in bodies.items()
    }
    inputs = {
        unit: frozenset(name for name, way in unit_ports if way == "input")
        for unit, unit_ports in ports.items()
    }
    drivers = {
        (unit, connection["signal"]): (child, connection["port"])
        for unit, body in bodies.items()
        for instance in _INSTANCE.finditer(body)
        if (child := _unit(instance["module"], module)) in bodies
        for connection in _CONNECTION.finditer(instance["ports"])
        if connection["port"] not in inputs[child]
    }
    return Units(inputs, drivers)


def _unit(name: str, module: str) -> str:
    """Return the path of a module below the top."""
    return TOP if name == module else name.removeprefix(f"{module}.")


@dataclass(frozen=True)
class Netlist:
    """A flat, mapped module.

    Attributes:
        module: as in Yosys' JSON.
        units: of the design.
    """

    module: Mapping[str, Any]
    units: Units

    def kinds(self) -> Counter[str]:
        """Count the cells of each kind."""
        return Counter(cell["type"] for cell in self.module["cells"].values())

    def kinds_by_unit(self) -> dict[str, Counter[str]]:
        """Count the cells of each kind in each unit."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for name, cell in self.module["cells"].items():
            counts[self.unit_of_cell[name]][cell["type"]] += 1
        return dict(counts)

    @cached_property
    def unit_of_cell(self) -> dict[str, str]:
        """The unit of each cell, by the name of the cell."""
        bits = self._unit_of_bit()
        known: dict[str, str] = {}
        for name, cell in self.module["cells"].items():
            named_unit, local = self.units.of_name(name)
            has_name = _is_signal(local) and not name.startswith("$")  # memories keep theirs
            unit = named_unit if has_name else _most_common(bits[bit] for bit in _driven(cell) if bit in bits)
            if unit is not None:
                known[name] = unit
        self._spread(known, self._neighbours(forward=True))
        self._spread(known, self._neighbours(forward=False))
        return {name: known.get(name, TOP) for name in self.module["cells"]}

    def _unit_of_bit(self) -> dict[int, str]:
        """Return the innermost unit that names a bit without being given it."""
        unit_of_bit: dict[int, str] = {}
        for name, net in self.module["netnames"].items():
            unit, local = self.units.of_name(name)
            signal = re.sub(r"(\[\d+\])+$", "", local)
            driving = self.units.driving(unit, signal) if _is_signal(local) else None
            if driving is None:
                continue
            for bit in net["bits"]:
                if isinstance(bit, int) and _depth(unit_of_bit.get(bit)) <= _depth(driving):
                    unit_of_bit[bit] = driving
        return unit_of_bit

    def _neighbours(self, forward: bool) -> dict[str, list[str]]:
        """Return the cells that each cell feeds, or the cells that feed it."""
        drivers: dict[object, str] = {}
        for name, cell in self.module["cells"].items():
            drivers |= dict.fromkeys(_driven(cell), name)
        edges: dict[str, list[str]] = defaultdict(list)
        for name, cell in self.module["cells"].items():
            for bit in _read(cell):
                if bit in drivers:
                    source, sink = (drivers[bit], name) if forward else (name, drivers[bit])
                    edges[source].append(sink)
        return edges

    def _spread(self, known: dict[str, str], neighbours: Mapping[str, list[str]]) -> None:
        """Give each cell whose unit is not known the unit of most of its neighbours, nearest first."""
        waiting = [name for name in self.module["cells"] if name not in known]
        while waiting:
            assigned = {
                name: unit
                for name in waiting
                if (
                    unit := _most_common(
                        known[neighbour] for neighbour in neighbours.get(name, ()) if neighbour in known
                    )
                )
            }
            if not assigned:
                return
            known |= assigned
            waiting = [name for name in waiting if name not in assigned]


def _depth(unit: str | None) -> int:
    return -1 if unit is None else 0 if unit == TOP else 1 + unit.count(".")


def _is_signal(local: str) -> bool:
    """Whether a name stands in the design, and was not derived from a neighbour's name by mapping."""
    return not re.search(r"_\$?([A-Z][A-Z0-9_]+|lut)_[A-Z]", local)


def _driven(cell: Mapping[str, Any]) -> Iterator[int]:
    return _bits(cell, "output")


def _read(cell: Mapping[str, Any]) -> Iterator[int]:
    return _bits(cell, "input")


def _bits(cell: Mapping[str, Any], direction: str) -> Iterator[int]:
    for port, bits in cell["connections"].items():
        if cell["port_directions"].get(port) == direction:
            yield from (bit for bit in bits if isinstance(bit, int))


def _most_common(units: Iterable[str]) -> str | None:
    counts = Counter(units)
    return min(counts, key=lambda unit: (-counts[unit], unit)) if counts else None
