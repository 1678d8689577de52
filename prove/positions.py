"""Where the elements of a tensor stand in DRAM."""

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from vdla.runtime.layout import IMAGE_RANK, Layout

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
        beyond: int64[m], the bytes of images, or rows, behind the last, which fill up a batch. Nothing may
            depend on them.
        is_whole: whether every element of the tensor stands in DRAM.
    """

    size: int
    bytes: Indices
    numbers: Indices
    padding: NDArray[np.int8]
    beyond: Indices
    is_whole: bool


@lru_cache(KNOWN_LAYOUTS)
def positions_of(layout: Layout) -> Positions:
    """Return where the elements of a tensor stand in a layout."""
    numbers = np.arange(prod(layout.shape), dtype=np.int64).reshape(layout.shape)
    packed = layout.pack(numbers + BASE).reshape(-1)
    held = packed >= BASE
    padding = np.where(held, 0, packed).astype(np.int8)
    stands = packed[held] - BASE
    is_whole = bool(np.bincount(stands, minlength=numbers.size).all())
    return Positions(len(packed), np.flatnonzero(held), stands, padding, _beyond(layout), is_whole)


def _beyond(layout: Layout) -> Indices:
    """Return the bytes of images, or rows, behind the last."""
    if layout.batch == 1:
        return np.zeros(0, np.int64)
    outer, _, high, _, batch, _ = layout.blocks
    is_image = len(layout.shape) == IMAGE_RANK
    first = np.arange(outer).reshape(-1, 1, 1, 1, 1, 1) if is_image else np.arange(high).reshape(-1, 1, 1, 1)
    number = first * batch + np.arange(batch).reshape(-1, 1)
    count = layout.image[0] if is_image else prod(layout.shape[:-1])
    return np.flatnonzero(np.broadcast_to(number >= count, layout.blocks))
