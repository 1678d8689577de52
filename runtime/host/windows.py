"""Windows that slide over the spatial dimensions of a tensor; convolutions and pooling share them."""

from collections.abc import Sequence
from types import EllipsisType

import numpy as np

from vdla.runtime.borders import bordered


def spans(kernel: Sequence[int], dilations: Sequence[int]) -> tuple[int, ...]:
    """Return how many elements a window covers in each dimension."""
    return tuple((size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True))


def at_last(*places: int | slice) -> tuple[EllipsisType | int | slice, ...]:
    """Return the subscript that takes `places` of the last dimensions."""
    return (..., *places)


def padded(x: np.ndarray, pads: Sequence[int], value: float | int = 0) -> np.ndarray:
    """Add a border to x[N, C, spatial...]; `pads` are the begins of the spatial dimensions, then their
    ends."""
    rank = x.ndim - 2
    if not any(pads):
        return x
    return bordered(x, ((0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)), value)


def sliding_windows(
    x: np.ndarray, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> np.ndarray:
    """Return a view [N, C, out..., kernel...] of x[N, C, spatial...]."""
    axes = tuple(range(2, x.ndim))
    views = np.lib.stride_tricks.sliding_window_view(x, spans(kernel, dilations), axis=axes)
    steps = (slice(None), slice(None), *(slice(None, None, step) for step in (*strides, *dilations)))
    return views[steps]
