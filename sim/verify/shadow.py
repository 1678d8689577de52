"""What is known of every element of every memory while a stream is followed: who touched it last, and whether
it holds anything.

A table per memory, kept per unit: in-order units make the last access of each enough.
"""

from typing import NamedTuple

import numpy as np

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ProgramError
from vdla.hw.spec.footprint import MOST_ACCESSES
from vdla.hw.spec.limits import TABLE_BYTES, require_room
from vdla.hw.spec.memories import memories_of, scratchpads_of
from vdla.hw.spec.units import Unit
from vdla.sim.compiled import whole
from vdla.sim.records import BoolArray, Grid, IntArray, Ints, RecordArray, Records
from vdla.sim.verify.columns import DRAM, Item, Walk

PAGE_BYTES = 4096
NEVER = -1
ELEMENT_BYTES = 2 * len(Unit) * np.dtype(np.int32).itemsize + 1
"""What an element takes in the tables of who read and wrote it, and of whether it is filled."""


class Shadow(NamedTuple):
    """Tables of the memories on chip and of the pages of DRAM that a stream touches.

    Attributes:
        read, written: int32[elements, units]: the last instruction of each unit that read, or wrote, an
            element.
        filled: bool[elements]: whether an element holds anything.
        first, depth: int64[8]: where the elements of a scratchpad begin, and how many there are.
        pages: int64[pages of DRAM]: where the elements of a page begin, or NEVER.
        shifts: int64[pages of DRAM]: the bytes of an element of a page, as a power of two: the smallest
            element of any memory, or fewer where rows of bytes begin or end within an element.
        dram_first: where the elements of DRAM begin.
        nearest: int64[elements of the deepest memory on chip]: room for the sets of elements of `loops`.
    """

    read: Grid
    written: Grid
    filled: Ints
    first: Ints
    depth: Ints
    pages: Ints
    shifts: Ints
    dram_first: int
    nearest: IntArray


def new_shadow(
    config: AcceleratorConfig, items: RecordArray, walks: RecordArray, dram_bytes: int, *, filled: bool
) -> Shadow:
    """Return tables for a stream; `filled`: scratchpads hold what an earlier stream has left there.

    Raises:
        ProgramError: they would take more than `TABLE_BYTES`.
    """
    first, depth, place = np.zeros(8, np.int64), np.zeros(8, np.int64), 0
    for memory in scratchpads_of(config):
        first[memory], depth[memory] = place, config.depth(memory)
        place += config.depth(memory)
    touched, shifts = _touched_pages(config, items, walks, dram_bytes)
    elements = np.where(touched, PAGE_BYTES >> shifts, 0)
    pages = np.where(touched, place + np.cumsum(elements) - elements, NEVER)
    size = place + int(elements.sum())
    require_room(size * ELEMENT_BYTES, TABLE_BYTES, "verifying the stream takes tables of", ProgramError)
    read, written = (np.full((size, len(Unit)), NEVER, np.int32) for _ in range(2))
    held = np.full(size, filled)
    held[place:] = True
    nearest = np.zeros(depth.max(), np.int64)
    return Shadow(read, written, held, first, depth, pages, shifts, place, nearest)


def _touched_pages(
    config: AcceleratorConfig, items: RecordArray, walks: RecordArray, dram_bytes: int
) -> tuple[BoolArray, IntArray]:
    """Return for each page of DRAM whether instructions touch it, and the exponent of a power of two.

    The power is the greatest at whose multiples all rows in the page begin and end. It is at most the bytes
    of the smallest element.
    """
    smallest = min(config.element_bytes(memory) for memory in memories_of(config))
    ends = np.zeros(-(-dram_bytes // PAGE_BYTES) + 1, np.int64)
    _mark_pages(items, walks, ends, smallest)
    touched = ends.astype(bool)
    least = np.where(touched, ends & -ends, 1)
    return touched, np.log2(least).astype(np.int64)


@whole
def _mark_pages(items: Records[Item], walks: Records[Walk], ends: Ints, smallest: int) -> None:
    """Collect, for each page, the bits of where rows begin and end, and `smallest`: of all transfers that fit
    on chip; the others are refused before they touch DRAM."""
    for place in range(walks.size):
        walk = walks[place]
        if walk.happens and walk.memory == DRAM and items[place // MOST_ACCESSES].fits:
            bits = smallest | walk.base | walk.step_out | walk.trips_in * walk.step_in
            for row in range(walk.trips_out):
                begin = walk.base + row * walk.step_out
                end = begin + walk.trips_in * walk.step_in
                last = min((end + PAGE_BYTES - 1) // PAGE_BYTES, ends.size)
                for page in range(begin // PAGE_BYTES, last):
                    ends[page] |= bits
