"""The slowest paths of a placed and routed design, from the delays that nextpnr writes (SDF).

nextpnr reports one path for each pair of clocks. This module finds the slowest path to every register.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from vdla.hw.spec.errors import ToolError

PICOSECONDS = 1000
_ENTRY = re.compile(
    r"\(INSTANCE (?P<instance>\S*)\)"
    r"|\(INTERCONNECT (?P<source>\S+) (?P<sink>\S+) \((?P<wire>[^)]*)\)"
    r"|\(IOPATH (?P<input>\S+) (?P<output>\S+) \((?P<gate>[^)]*)\)"
    r"|\(SETUPHOLD \(posedge (?P<data>\S+)\) \(posedge \S+\) \((?P<setup>[^)]*)\)"
)
_CLOCK = re.compile(r"CLK|WCK")

Pin = tuple[str, str]
"""A cell and one of its ports."""


@dataclass(slots=True)
class Delays:
    """Delays of a design in ns; the slowest corner.

    Attributes:
        into: for each pin, the pins before it with the delay from there.
        starts: outputs of registers and memories, with the delay from the clock.
        setups: inputs of registers and memories, with their setup times.
    """

    into: dict[Pin, list[tuple[Pin, float]]] = field(default_factory=lambda: defaultdict(list))
    starts: dict[Pin, float] = field(default_factory=dict)
    setups: dict[Pin, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TimedPath:
    """The slowest path that ends at a pin.

    Attributes:
        pins: from the output of a register to the input of a register.
        ns: from clock edge to clock edge: clock to output, gates, wires, setup.
    """

    pins: tuple[Pin, ...]
    ns: float


def read_delays(sdf: str) -> Delays:
    """Return the delays in a file that nextpnr wrote."""
    delays, cell = Delays(), ""
    for entry in _ENTRY.finditer(sdf):
        if entry["instance"] is not None:
            cell = entry["instance"].replace("\\", "")
        elif entry["source"]:
            sink = _pin(entry["sink"])
            if not _CLOCK.search(sink[1]):
                delays.into[sink].append((_pin(entry["source"]), _slowest(entry["wire"])))
        elif entry["input"]:
            _add_gate(delays, cell, entry)
        else:
            delays.setups[cell, entry["data"]] = _slowest(entry["setup"])
    return delays


def _add_gate(delays: Delays, cell: str, entry: re.Match[str]) -> None:
    """Add the delay through a cell; from a clock, the output starts paths."""
    output, delay = (cell, entry["output"]), _slowest(entry["gate"])
    if _CLOCK.search(entry["input"]):
        delays.starts[output] = max(delay, delays.starts.get(output, 0.0))
    else:
        delays.into[output].append(((cell, entry["input"]), delay))


def _pin(text: str) -> Pin:
    cell, _, port = text.replace("\\", "").rpartition("/")
    return cell, port


def _slowest(triple: str) -> float:
    """Return the last of three delays in ps, as ns."""
    return float(triple.rpartition(":")[2] or 0) / PICOSECONDS


def slowest_paths(delays: Delays) -> list[TimedPath]:
    """Return the slowest path to each register or memory input that paths reach, slowest first.

    Raises:
        ToolError: combinational logic forms a loop.
    """
    arrival: dict[Pin, float] = dict(delays.starts)
    before: dict[Pin, Pin] = {}
    for pin in _ordered(delays):
        for source, delay in delays.into.get(pin, ()):
            if source in arrival and arrival[source] + delay > arrival.get(pin, -1.0):
                arrival[pin], before[pin] = arrival[source] + delay, source
    ends = [TimedPath((pin,), arrival[pin] + setup) for pin, setup in delays.setups.items() if pin in arrival]
    ends.sort(key=lambda path: (-path.ns, path.pins))
    return [TimedPath(tuple(_back(path.pins[0], before)), path.ns) for path in ends]


def _ordered(delays: Delays) -> Iterable[Pin]:
    graph = {pin: [source for source, _ in sources] for pin, sources in delays.into.items()}
    try:
        return tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        loop = " -> ".join("/".join(pin) for pin in error.args[1][:5])
        raise ToolError(f"the netlist has a combinational loop: {loop}") from error


def _back(pin: Pin, before: dict[Pin, Pin]) -> Iterator[Pin]:
    """Yield the pins of a path from its start on."""
    path = [pin]
    while path[-1] in before:
        path.append(before[path[-1]])
    yield from reversed(path)
