"""What is known of every element of every memory while a stream is followed: who touched it last, and whether
it holds anything.

A table per memory, kept per unit: in-order units make the last access of each enough.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ProgramError
from vdla.hw.spec.footprint import MOST_ACCESSES
from vdla.hw.spec.limits import TABLE_BYTES, require_room
from vdla.hw.spec.memories import memories_of, scratchpads_of
from vdla.hw.spec.units import Unit
from vdla.sim.compiled import whole
from vdla.sim.records import Grid, IntArray, Ints, RecordArray, Records
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
        pages: int32[pages of DRAM]: which of the kept pages one is, or NEVER.
        dram_first: where the elements of DRAM begin.
        granule: bytes of an element of DRAM's table: the smallest element of any memory, or fewer where rows
            of bytes begin or end within one.
        nearest: int64[elements of the deepest memory on chip]: room for the sets of elements of `loops`.
    """

    read: Grid
    written: Grid
    filled: Ints
    first: Ints
    depth: Ints
    pages: Ints
    dram_first: int
    granule: int
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
    granule = _granule(config, walks)
    pages = _touched_pages(items, walks, dram_bytes)
    size = place + int(pages.max(initial=NEVER) + 1) * (PAGE_BYTES // granule)
    require_room(size * ELEMENT_BYTES, TABLE_BYTES, "verifying the stream takes tables of", ProgramError)
    read, written = (np.full((size, len(Unit)), NEVER, np.int32) for _ in range(2))
    held = np.full(size, filled)
    held[place:] = True
    return Shadow(read, written, held, first, depth, pages, place, granule, np.zeros(depth.max(), np.int64))


def _granule(config: AcceleratorConfig, walks: RecordArray) -> int:
    """Return the greatest power of two at whose multiples all rows in DRAM begin and end, at most the bytes
    of the smallest element."""
    made = walks[walks["happens"] & (walks["memory"] == DRAM)]
    ends = made["base"] | made["step_out"] | made["trips_in"] * made["step_in"]
    smallest = min(config.element_bytes(memory) for memory in memories_of(config))
    places = int(np.bitwise_or.reduce(ends, initial=smallest))
    return places & -places


def _touched_pages(items: RecordArray, walks: RecordArray, dram_bytes: int) -> NDArray[np.int32]:
    """Number the pages of DRAM that the walks of instructions touch."""
    touched = np.zeros(-(-dram_bytes // PAGE_BYTES) + 1, bool)
    _mark_pages(items, walks, touched)
    pages = np.full(len(touched), NEVER, np.int32)
    pages[touched] = np.arange(np.count_nonzero(touched))
    return pages


@whole
def _mark_pages(items: Records[Item], walks: Records[Walk], touched: Ints) -> None:
    """Mark the pages of all transfers that fit on chip; the others are refused before they touch DRAM."""
    for place in range(walks.size):
        walk = walks[place]
        if walk.happens and walk.memory == DRAM and items[place // MOST_ACCESSES].fits:
            for row in range(walk.trips_out):
                begin = walk.base + row * walk.step_out
                end = begin + walk.trips_in * walk.step_in
                last = min((end + PAGE_BYTES - 1) // PAGE_BYTES, touched.size)
                for page in range(begin // PAGE_BYTES, last):
                    touched[page] = True
