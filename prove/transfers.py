"""Index arithmetic of the instructions that move data between DRAM and the scratchpads, in NumPy."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig

Indices = NDArray[np.int64]
KNOWN_BLOCKS = 256


class Block(NamedTuple):
    """The elements that a LOAD, GATHER or STORE moves, relative to the first of each memory.

    Attributes:
        elements: elements on chip, with padding.
        filled: int64[n], the places of those that stand in DRAM, among `elements`.
        source: int64[n], where each stands in DRAM: elements, of a GATHER bytes.
    """

    elements: int
    filled: Indices
    source: Indices


def block_of(it: isa.Load | isa.Gather | isa.Store) -> Block:
    """Return the elements that an instruction moves, which moves something."""
    match it:
        case isa.Load():
            pads = it.y_pad_0, it.y_pad_1, it.x_pad_0, it.x_pad_1
            return _block(it.y_size, it.x_size, it.x_stride, 1, pads)
        case isa.Gather():
            return _block(it.y_size, it.x_size, it.x_stride, it.step, (it.y_pad_0, it.y_pad_1, 0, 0))
        case isa.Store():
            return _block(it.y_size, it.x_size, it.x_stride, 1, (0, 0, 0, 0))


@lru_cache(KNOWN_BLOCKS)
def _block(rows: int, columns: int, stride: int, step: int, pads: tuple[int, int, int, int]) -> Block:
    above, below, left, right = pads
    line = left + columns + right
    row, column = np.arange(rows)[:, None], np.arange(columns)
    filled, source = (above + row) * line + left + column, row * stride + column * step
    return Block((above + rows + below) * line, filled.reshape(-1), source.reshape(-1))


def first_byte(it: isa.Load | isa.Gather | isa.Store, config: AcceleratorConfig) -> int:
    """Return the byte address of the first element that an instruction moves."""
    return it.dram_base if isinstance(it, isa.Gather) else it.dram_base * config.element_bytes(it.memory_type)
