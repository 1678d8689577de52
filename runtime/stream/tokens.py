"""Dependency tokens of a stream: each conflict of two units is ordered by as few as can be.

Units touch the same elements of a memory only where one of them writes, so any two units that meet there must
keep the stream's order. A tensor in DRAM is read by two units without conflict, so it is taken for two
elements: each reader touches a different element, a writer both. All memories stand in one row, which the
begins and ends of all intervals cut into segments: elements of a segment are touched by the same
instructions.

An instruction that must wait for another unit's pops a token that the last instruction it must wait for
pushes. What a unit knows to be done grows with every token it pops, and with what the pushing unit knew, so
an order that follows from others costs nothing. On an edge pushes and pops are added in one order, so the
k-th pop takes the k-th push: the condition of the theorem on virtual threads (review of the TVM paper,
appendix A).
"""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import FOOTPRINTS, shared_accesses, stepping_forms
from vdla.hw.spec.isa import FLAGS
from vdla.hw.spec.memories import SCRATCHPADS, scratchpad_of
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.compiled import part, whole
from vdla.sim.records import Grid, IntArray, Ints

UNITS = len(Unit)
PLACES = max(len(shared_accesses(form)) for form in FOOTPRINTS)  # that an instruction touches, at most
DRAM = len(MemoryType)  # as a memory, behind the memories on chip
Number = TypeVar("Number", int, np.ndarray)  # of one tensor, or of each instruction's
LOAD, COMPUTE, STORE = map(int, Unit)  # plain numbers are quicker to compare
_BITS = {flag: 1 << number for number, flag in enumerate(FLAGS)}
_FROM, _TO = zip(*((edge.producer, edge.consumer) for edge in TOKEN_EDGES), strict=True)
# int64[units, units]: the flag of the edge from a unit to another; 0 where there is no edge. They are arrays
# because a tuple's subscript could raise an exception, which compiled code must not.
POPS, PUSHES = np.zeros((2, UNITS, UNITS), np.int64)
POPS[_FROM, _TO] = [_BITS[edge.pop_flag] for edge in TOKEN_EDGES]
PUSHES[_FROM, _TO] = [_BITS[edge.push_flag] for edge in TOKEN_EDGES]
EDGES = UNITS * UNITS  # between units, places without an edge included
POSITIONS, COMPUTES = EDGES, EDGES + 1  # of `_Planner.counts`
MOST_POSITIONS = 4  # that an instruction takes: a wait on each edge of a way of two, and a position between
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


class TokenPlan(NamedTuple):
    """A stream's instructions in place, and the instructions in between that only wait.

    Attributes:
        numbers: int64[m], by position: the instruction's number; `-1 - unit` where it does nothing but wait.
        flags: int64[m], by position: a bit for each of FLAGS.
    """

    numbers: IntArray
    flags: IntArray


class _Planner(NamedTuple):
    """A plan in the making. Columns have room behind the last position.

    Attributes:
        numbers, flags: see `TokenPlan`.
        knew: by position, the last instruction of each unit that is done when it starts.
        knows: the same of what each unit starts next.
        computes: positions of the compute unit.
        pops: by edge, see `_edge`, the positions that pop.
        counts: by edge, how many pop; then how many positions there are, and how many of the compute unit.
        depth: tokens that an edge can hold.
    """

    numbers: Ints
    flags: Ints
    knew: Grid
    knows: Grid
    computes: Ints
    pops: Grid
    counts: Ints
    depth: int


def plan_tokens(units: np.ndarray, needs: np.ndarray, depth: int) -> TokenPlan:
    """Return the plan of a stream.

    Args:
        units: uint8[n].
        needs: int64[n, units]: of each unit, the instruction that must be done before; -1: none.
        depth: tokens that an edge can hold.
    """
    most = MOST_POSITIONS * len(units)
    numbers, flags, computes = np.zeros((3, most), np.int64)
    counts, knew, pops = (np.zeros(shape, np.int64) for shape in (EDGES + 2, (most, UNITS), (EDGES, most)))
    planner = _Planner(numbers, flags, knew, np.full((UNITS, UNITS), -1), computes, pops, counts, depth)
    positions = np.full(len(units) + 1, -1)
    _place_all(units, needs, positions, planner)
    end = counts[POSITIONS]
    return TokenPlan(numbers[:end], flags[:end])


@whole
def _place_all(units: Ints, needs: Grid, positions: Ints, planner: _Planner) -> None:
    """Place each instruction behind the instructions that it needs.

    Args:
        units, needs: see `plan_tokens`.
        positions: int64[n + 1], -1 each; left with the position of each instruction. The last is where -1 is
            looked up.
    """
    for number in range(units.size):
        load, compute = positions[needs[number, LOAD]], positions[needs[number, COMPUTE]]
        pops = _waits(planner, units[number], load, compute, positions[needs[number, STORE]])
        positions[number] = _place(planner, number, units[number], pops)


@part
def _edge(producer: int, consumer: int) -> int:
    return producer * UNITS + consumer


@part
def _place(planner: _Planner, number: int, unit: int, pops: int) -> int:
    """Append an instruction of `unit` with the flags `pops`; return its position."""
    position = planner.counts[POSITIONS]
    planner.counts[POSITIONS] += 1
    planner.numbers[position] = number
    planner.flags[position] = pops
    for other in range(UNITS):
        planner.knew[position, other] = planner.knows[unit, other]
        if pops & POPS[other, unit]:
            edge = _edge(other, unit)
            planner.pops[edge, planner.counts[edge]] = position
            planner.counts[edge] += 1
    if unit == COMPUTE:
        planner.computes[planner.counts[COMPUTES]] = position
        planner.counts[COMPUTES] += 1
    return position


@part
def _waits(planner: _Planner, unit: int, load: int, compute: int, store: int) -> int:
    """Let the next instruction of `unit` wait for the positions `load`, `compute` and `store` of these units
    (-1: none); return the flags with which it pops."""
    if unit == COMPUTE:
        return _wait(planner, unit, STORE, store) | _wait(planner, unit, LOAD, load)
    other, beyond = (STORE, store) if unit == LOAD else (LOAD, load)
    if beyond > planner.knows[unit, other]:  # no edge leads from there
        compute = max(compute, _first_behind(planner, other, beyond))
    return _wait(planner, unit, COMPUTE, compute)


@part
def _wait(planner: _Planner, unit: int, other: int, position: int) -> int:
    """Let the next instruction of `unit` wait for `position` of `other`; return the flag with which it pops,
    if it must."""
    if position <= planner.knows[unit, other]:
        return 0
    edge = _edge(other, unit)
    count, depth = planner.counts[edge], planner.depth
    if count >= depth and planner.pops[edge, count - depth] > position:
        position = _place(planner, -1 - other, other, 0)  # the edge holds no more tokens as early as that
    planner.flags[position] |= PUSHES[other, unit]
    for each in range(UNITS):
        planner.knows[unit, each] = max(planner.knows[unit, each], planner.knew[position, each])
    planner.knows[unit, other] = position
    pops: int = POPS[other, unit]
    return pops


@part
def _first_behind(planner: _Planner, other: int, position: int) -> int:
    """Return the first compute instruction that starts behind `position` of `other`."""
    low, high = 0, planner.counts[COMPUTES]
    while low < high:
        middle = (low + high) // 2
        if planner.knew[planner.computes[middle], other] < position:
            low = middle + 1
        else:
            high = middle
    if low < planner.counts[COMPUTES]:
        return planner.computes[low]
    return _place(planner, -1 - COMPUTE, COMPUTE, _wait(planner, COMPUTE, other, position))


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
    run_beside: NDArray[np.bool_] = (
        (opcodes == isa.Opcode.LOAD) & (halves > 0) & ~pushes & (halves & worked == 0)
    )
    return run_beside
