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


def larger_window(window: Sequence[int], image: Sequence[int]) -> str:
    """Return what is wrong with a window larger than its image, border included, and what to do."""
    sizes = (" x ".join(map(str, extents)) for extents in (window, image))
    return "a window of {} pixels is larger than its input of {}, border included; ".format(*sizes) + (
        "give the network larger inputs: larger samples, or larger extents in --shape"
    )


def sliding_windows(
    x: np.ndarray, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> np.ndarray:
    """Return a view [N, C, out..., kernel...] of x[N, C, spatial...].

    Raises:
        ValueError: a window is larger than x.
    """
    axes, window = tuple(range(2, x.ndim)), spans(kernel, dilations)
    if any(span > extent for span, extent in zip(window, x.shape[2:], strict=True)):
        raise ValueError(larger_window(window, x.shape[2:]))
    views = np.lib.stride_tricks.sliding_window_view(x, window, axis=axes)
    steps = (slice(None), slice(None), *(slice(None, None, step) for step in (*strides, *dilations)))
    return views[steps]
