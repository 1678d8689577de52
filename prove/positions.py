"""Where the elements of a tensor stand in DRAM."""

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from vdla.runtime.layout import Layout

Indices = NDArray[np.int64]
BASE = 1 << 40
"""Numbers of the values in a packed tensor begin here, so that they differ from the bytes of its padding."""
KNOWN_LAYOUTS = 64


@dataclass(frozen=True)
class Positions:
    """Where the elements of a tensor stand in DRAM.

    Attributes:
        size: bytes of the tensor in DRAM.
        bytes, numbers: int64[n], the place of each byte that holds a value, and the number of the value.
        padding: int8[size], the bytes that hold none.
        is_whole: whether every element of the tensor stands in DRAM.
    """

    size: int
    bytes: Indices
    numbers: Indices
    padding: NDArray[np.int8]
    is_whole: bool


@lru_cache(KNOWN_LAYOUTS)
def positions_of(layout: Layout) -> Positions:
    """Return where the elements of a tensor stand in a layout."""
    numbers = np.arange(prod(layout.shape), dtype=np.int64).reshape(layout.shape)
    packed = layout.pack(numbers + BASE).reshape(-1)
    held = packed >= BASE
    padding = np.where(held, 0, packed).astype(np.int8)
    held_numbers = packed[held] - BASE
    is_whole = bool(np.bincount(held_numbers, minlength=numbers.size).all())
    return Positions(len(packed), np.flatnonzero(held), held_numbers, padding, is_whole)
