"""Index arithmetic of the instructions that move data between DRAM and the scratchpads, in NumPy."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Block:
    """What a LOAD or GATHER writes: a dense block of elements, of which those of the padding are not read.

    Attributes:
        elements: elements that it writes.
        filled: int64[n], the places in the block of the elements that are read from DRAM.
        bytes: int64[n, element_bytes], where the bytes of each stand in DRAM, from the first byte on that the
            instruction names.
    """

    elements: int
    filled: Indices
    bytes: Indices


def loaded_block(it: isa.Load | isa.Gather, config: AcceleratorConfig) -> Block:
    """Return what a LOAD or GATHER that moves something writes, relative to its first element and byte."""
    size = config.element_bytes(it.memory_type)
    left, right = (it.x_pad_0, it.x_pad_1) if isinstance(it, isa.Load) else (0, 0)
    line = left + it.x_size + right
    row, column = np.arange(it.y_size)[:, None], np.arange(it.x_size)
    if isinstance(it, isa.Gather):
        first = row * it.x_stride + column * it.step
    else:
        first = (row * it.x_stride + column) * size
    places = (it.y_pad_0 + row) * line + left + column
    total = (it.y_pad_0 + it.y_size + it.y_pad_1) * line
    return Block(total, places.reshape(-1), first.reshape(-1, 1) + np.arange(size))


def first_byte(it: isa.Load | isa.Gather | isa.Store, config: AcceleratorConfig) -> int:
    """Return the byte address of the first element that an instruction moves."""
    return it.dram_base if isinstance(it, isa.Gather) else it.dram_base * config.element_bytes(it.memory_type)


def stored_bytes(it: isa.Store, config: AcceleratorConfig) -> Indices:
    """Return int64[y_size * x_size, element_bytes]: where a STORE writes each element, from its first byte
    on."""
    size = config.element_bytes(it.memory_type)
    first = (np.arange(it.y_size)[:, None] * it.x_stride + np.arange(it.x_size)) * size
    return first.reshape(-1, 1) + np.arange(size)


def has_contiguous_rows(bytes_: NDArray[np.int64]) -> bool:
    """Whether the bytes of a transfer are one range."""
    flat = bytes_.reshape(-1)
    return bool(len(flat)) and int(flat[-1] - flat[0]) == len(flat) - 1 and bool((np.diff(flat) == 1).all())
