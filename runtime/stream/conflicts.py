"""Which earlier instructions of other units each instruction of a stream must wait for, from what they touch.

Units touch the same elements of a memory only where one of them writes, so any two units that meet there must
keep the stream's order.
A tensor in DRAM is read by two units without conflict, so it is taken for two elements: each reader touches
    its own, a writer both.

All memories stand in one row, which the begins and ends of all intervals cut into segments: elements of a
segment are touched by the same instructions.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeVar

import numpy as np

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import FOOTPRINTS, shared_accesses
from vdla.hw.spec.memories import SCRATCHPADS, scratchpad_of
from vdla.hw.spec.units import Unit
from vdla.hw.spec.vocabulary import MemoryType

UNITS = len(Unit)
PLACES = max(len(shared_accesses(form)) for form in FOOTPRINTS)  # that an instruction touches, at most
DRAM = len(MemoryType)  # as a memory, behind those on chip
PAIRS_AT_ONCE = 1 << 20  # touches of segments that are searched at once


Number = TypeVar("Number", int, np.ndarray)  # of one tensor, or of each instruction's


def tensor_read(number: Number, unit: Number) -> tuple[int, Number, Number]:
    """Return what a LOAD of `unit` touches of a tensor."""
    return DRAM, 2 * number + unit, 2 * number + unit + 1


def tensor_written(number: Number) -> tuple[int, Number, Number]:
    """Return what a STORE touches of a tensor."""
    return DRAM, 2 * number, 2 * number + 2


def conflicts(units: np.ndarray, touched: np.ndarray, config: AcceleratorConfig) -> np.ndarray:
    """Return int64[n, units]: of each other unit, the last instruction before that touches what this one
    does; -1: none.

    Args:
        units: uint8[n].
        touched: int64[n, touches, 3]: memory, and the interval [begin, end) of its elements; what lies beyond
            the memory is left out.
    """
    begin, end = _intervals(touched, _bounds(config))
    needs = np.full((len(units), UNITS), -1)
    edges = np.unique(np.concatenate((begin, end), axis=None))
    low, high = np.searchsorted(edges, begin), np.searchsorted(edges, end)
    for first, limit in _portions(low, high, len(edges)):
        _search(units, np.maximum(low, first), np.minimum(high, limit), needs)
    needs[np.arange(len(units)), units] = -1
    return needs


def _intervals(touched: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return begin and end, int64[n, touches] each, of what is touched, when all memories stand in one
    row."""
    memory, begin, end = touched.transpose(2, 0, 1)
    first, limit = bounds[memory, 0], bounds[memory, 1]
    begin, end = first + np.maximum(begin, 0), np.minimum(first + end, limit)
    return np.minimum(begin, end), end


def _bounds(config: AcceleratorConfig) -> np.ndarray:
    """Return int64[memories, 2]: where each memory begins and ends when all stand in one row; names of one
    memory share its place. DRAM is the last, without an end."""
    places: dict[int, tuple[int, int]] = {}
    end = 0
    for memory in SCRATCHPADS:
        places[memory] = end, end + config.depth(memory)
        end += config.depth(memory)
    on_chip = [places[scratchpad_of(memory)] for memory in MemoryType]
    return np.array([*on_chip, (end, np.iinfo(np.int64).max)])


def _portions(low: np.ndarray, high: np.ndarray, count: int) -> Iterator[tuple[int, int]]:
    """Yield portions of `count` segments, such that the touches of a portion's segments are about
    PAIRS_AT_ONCE.

    Args:
        low, high: int64[n, touches], the segments that each touches.
    """
    touches = np.cumsum(
        np.bincount(low.ravel(), minlength=count) - np.bincount(high.ravel(), minlength=count)
    )
    portion = np.cumsum(touches) // PAIRS_AT_ONCE
    cuts = [0, *(np.flatnonzero(np.diff(portion)) + 1).tolist(), count]
    yield from pairwise(cuts)


def _search(units: np.ndarray, low: np.ndarray, high: np.ndarray, needs: np.ndarray) -> None:
    """Raise `needs` to the last instruction of each unit that touched one of an instruction's segments.

    Every touch of a segment is a pair (segment, instruction). Of the pairs in order of segments, then of
    instructions, the running maximum over those of one unit is the last of it before each pair.
    """
    counts = np.maximum(high - low, 0).ravel()
    touch = np.repeat(np.arange(len(counts)), counts)
    segment = np.arange(len(touch)) - (np.cumsum(counts) - counts - low.ravel())[touch]
    number = touch // low.shape[1]
    numbers, starts = np.unique(number, return_index=True)
    order = np.argsort(segment, kind="stable")
    base, ordered = segment[order] * len(units), number[order]
    last = np.empty_like(order)
    for unit in range(UNITS):
        marks = base + (ordered + 1) * (units[ordered] == unit)
        last[order] = np.maximum.accumulate(marks) - base - 1
        found = np.maximum.reduceat(last, starts)
        needs[numbers, unit] = np.maximum(needs[numbers, unit], found)
