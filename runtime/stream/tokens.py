"""Dependency tokens of a stream: each conflict of two units is ordered by as few as can be.

Units touch the same elements of a memory only where one of them writes, so any two units that meet there must
keep the stream's order. A tensor in DRAM is read by two units without conflict, so it is taken for two
elements: each reader touches its own, a writer both. All memories stand in one row, which the begins and ends
of all intervals cut into segments: elements of a segment are touched by the same instructions.

An instruction that must wait for another unit's pops a token that the last instruction it must wait for
pushes. What a unit knows to be done grows with every token it pops, and with what the pushing unit knew, so
an order that follows from others costs nothing. On an edge pushes and pops are added in one order, so the
k-th pop takes the k-th push: the condition of the theorem on virtual threads (review of the TVM paper,
appendix A).
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import gt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import FOOTPRINTS, shared_accesses, stepping_forms
from vdla.hw.spec.isa import FLAGS
from vdla.hw.spec.memories import SCRATCHPADS, scratchpad_of
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.compiled import whole
from vdla.sim.records import Grid, Ints

UNITS = len(Unit)
PLACES = max(len(shared_accesses(form)) for form in FOOTPRINTS)  # that an instruction touches, at most
DRAM = len(MemoryType)  # as a memory, behind those on chip
Number = TypeVar("Number", int, np.ndarray)  # of one tensor, or of each instruction's
LOAD, COMPUTE, STORE = map(int, Unit)  # plain numbers are quicker to compare
_NONE = (-1,) * len(Unit)
_BITS = {flag: 1 << number for number, flag in enumerate(FLAGS)}
_POPS: Mapping[tuple[int, int], int] = {
    (edge.producer, edge.consumer): _BITS[edge.pop_flag] for edge in TOKEN_EDGES
}
_PUSHES: Mapping[tuple[int, int], int] = {
    (edge.producer, edge.consumer): _BITS[edge.push_flag] for edge in TOKEN_EDGES
}
STEPPING = tuple(int(form.opcode) for form in stepping_forms())
BEFORE_ALL = -1


def tensor_read(number: Number, unit: Number) -> tuple[int, Number, Number]:
    """Return what a LOAD of `unit` touches of a tensor."""
    return DRAM, 2 * number + unit, 2 * number + unit + 1


def tensor_written(number: Number) -> tuple[int, Number, Number]:
    """Return what a STORE touches of a tensor."""
    return DRAM, 2 * number, 2 * number + 2


def conflicts(units: np.ndarray, touched: np.ndarray, config: AcceleratorConfig) -> np.ndarray:
    """Return int64[n, units]: for each instruction and each other unit, the last preceding instruction of
    that unit that accesses the same elements; -1 if there is none.

    Args:
        units: uint8[n].
        touched: int64[n, touches, 3]: memory, and the interval [begin, end) of its elements; what lies beyond
            the memory is left out.
    """
    begin, end = _intervals(touched, _bounds(config))
    needs = np.full((len(units), UNITS), -1)
    edges = np.sort(np.concatenate((begin, end), axis=None))
    edges = edges[np.diff(edges, prepend=edges[:1] - 1) > 0]  # np.unique imports numpy.ma, which takes long
    low, high = np.searchsorted(edges, begin), np.searchsorted(edges, end)
    _search(units, low, high, np.full((len(edges), UNITS), -1), needs)
    return needs


def _intervals(touched: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return begin and end of each access, int64[n, touches] each, in one address space of all memories."""
    memory, begin, end = touched.transpose(2, 0, 1)
    first, limit = bounds[memory, 0], bounds[memory, 1]
    begin, end = first + np.maximum(begin, 0), np.minimum(first + end, limit)
    return np.minimum(begin, end), end


def _bounds(config: AcceleratorConfig) -> np.ndarray:
    """Return int64[memories, 2]: begin and end of each memory type in one address space. Memory types of the
    same scratchpad have the same addresses. DRAM is the last, without an end."""
    places: dict[int, tuple[int, int]] = {}
    end = 0
    for memory in SCRATCHPADS:
        places[memory] = end, end + config.depth(memory)
        end += config.depth(memory)
    on_chip = [places[scratchpad_of(memory)] for memory in MemoryType]
    return np.array([*on_chip, (end, np.iinfo(np.int64).max)])


@whole
def _search(units: Ints, low: Grid, high: Grid, last: Grid, needs: Grid) -> None:
    """Raise `needs` to the last preceding instruction of each other unit that touched one of an instruction's
    segments.

    Args:
        units: uint8[n].
        low, high: int64[n, touches], the segments [low, high) of each touch.
        last: int64[segments, units], -1 each; left with the last instruction of each unit.
        needs: int64[n, units], -1 each.
    """
    for number in range(units.size):
        unit = units[number]
        for touch in range(low.shape[1]):
            for segment in range(low[number, touch], high[number, touch]):
                for other in range(UNITS):
                    if other != unit:
                        needs[number, other] = max(needs[number, other], last[segment, other])
                last[segment, unit] = number


@dataclass(slots=True)
class TokenPlanner:
    """Puts the instructions of a stream in place, and those in between that do nothing but wait.

    Attributes:
        depth: tokens that an edge can hold.
        numbers: by position, the number that an instruction was placed with; `-1 - unit` where it does
            nothing but wait.
        flags: by position, a bit for each of FLAGS.
    """

    depth: int
    numbers: list[int] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    _knew: list[tuple[int, ...]] = field(
        default_factory=list
    )  # by position: the last instruction of each unit that is done when it starts
    _knows: list[tuple[int, ...]] = field(
        default_factory=lambda: [_NONE] * len(Unit)
    )  # the same of what each unit starts next
    _computes: list[int] = field(default_factory=list)  # positions of the compute unit
    _pops: dict[tuple[int, int], list[int]] = field(
        default_factory=lambda: {edge: [] for edge in _POPS}
    )  # positions, by edge

    def place(self, number: int, unit: int, needs: tuple[int, ...]) -> int:
        """Append an instruction of `unit` that starts behind the positions `needs` of each unit (-1: none);
        return its position."""
        edges = self._waits(unit, needs) if any(map(gt, needs, self._knows[unit])) else ()
        flags, position = 0, len(self.flags)
        for edge in edges:
            flags |= _POPS[edge]
            self._pops[edge].append(position)
        self.numbers.append(number)
        self.flags.append(flags)
        self._knew.append(self._knows[unit])
        if unit == COMPUTE:
            self._computes.append(position)
        return position

    def _waits(self, unit: int, needs: tuple[int, ...]) -> list[tuple[int, int]]:
        """Let the next instruction of `unit` wait for `needs`; return the edges on which it pops."""
        load, compute, store = needs
        if unit == COMPUTE:
            return self._wait(unit, STORE, store) + self._wait(unit, LOAD, load)
        other, beyond = (STORE, store) if unit == LOAD else (LOAD, load)
        if beyond > self._knows[unit][other]:  # no edge leads from there
            compute = max(compute, self._first_behind(other, beyond))
        return self._wait(unit, COMPUTE, compute)

    def _wait(self, unit: int, other: int, position: int) -> list[tuple[int, int]]:
        """Let the next instruction of `unit` wait for `position` of `other`; return the edge on which it
        pops, if it must."""
        edge = other, unit
        if position <= self._knows[unit][other]:
            return []
        pops = self._pops[edge]
        if (
            len(pops) >= self.depth and pops[-self.depth] > position
        ):  # the edge holds no more tokens as early as that
            position = self.place(-1 - other, other, _NONE)
        self.flags[position] |= _PUSHES[edge]
        known = list(map(max, self._knows[unit], self._knew[position]))
        known[other] = position
        self._knows[unit] = tuple(known)
        return [edge]

    def _first_behind(self, other: int, position: int) -> int:
        """Return the first compute instruction that starts behind `position` of `other`."""
        place = bisect_left(self._computes, position, key=lambda at: self._knew[at][other])
        if place < len(self._computes):
            return self._computes[place]
        return self.place(
            -1 - COMPUTE, COMPUTE, tuple(position if unit == other else -1 for unit in range(len(Unit)))
        )


def plan_tokens(units: np.ndarray, needs: np.ndarray, depth: int) -> TokenPlanner:
    """Return the plan of a stream.

    Args:
        units: uint8[n].
        needs: int64[n, units]: of each unit, the instruction that must be done before; -1: none.
        depth: tokens that an edge can hold.
    """
    planner, positions = TokenPlanner(depth), [-1] * (len(units) + 1)  # the last is where -1 is looked up
    for number, (unit, load, compute, store) in enumerate(
        zip(units.tolist(), *needs.T.tolist(), strict=True)
    ):
        positions[number] = planner.place(
            number, unit, (positions[load], positions[compute], positions[store])
        )
    return planner


def loads_beside(
    opcodes: NDArray[np.uint8], halves: NDArray[np.int64], pushes: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return bool[n]: the LOADs of ACC that push no token and write no half of it in which the last GEMM, ALU
    or DEPTHWISE before them works; see `vdla.hw.spec.isa.Load`.

    Args:
        opcodes: uint8[n], in the order of the stream.
        halves: int64[n], a bit for each half of ACC that an instruction of the compute unit touches.
        pushes: bool[n], whether it pushes a token.
    """
    stepping = np.isin(opcodes, STEPPING)
    latest = np.maximum.accumulate(np.where(stepping, np.arange(len(opcodes)), BEFORE_ALL))
    worked = np.where(latest > BEFORE_ALL, halves[latest], 0)
    found: NDArray[np.bool_] = (opcodes == isa.Opcode.LOAD) & (halves > 0) & ~pushes & (halves & worked == 0)
    return found
