"""Pooling over windows and over all of space.

Source: ONNX operator specification, MaxPool, AveragePool, GlobalMaxPool, GlobalAveragePool.
"""

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from vdla.runtime.host.windows import padded, sliding_windows, spans


def max_pool(
    x: np.ndarray,
    *,
    ceil_mode: int,
    dilations: Sequence[int],
    kernel_shape: Sequence[int],
    pads: Sequence[int],
    strides: Sequence[int],
) -> np.ndarray:
    """Return the greatest element of each window of x[N, C, spatial...]; padding never is."""
    pads = _reaching(x.shape[2:], ceil_mode, dilations, kernel_shape, pads, strides)
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    views = sliding_windows(padded(x, pads, lowest), kernel_shape, strides, dilations)
    return _greatest(views, kernel_shape)


def average_pool(
    x: np.ndarray,
    *,
    ceil_mode: int,
    count_include_pad: int,
    dilations: Sequence[int],
    kernel_shape: Sequence[int],
    pads: Sequence[int],
    strides: Sequence[int],
) -> np.ndarray:
    """Return the mean of each window of x[N, C, spatial...]; padding counts if `count_include_pad`, what
    rounding up adds never does."""
    wider = _reaching(x.shape[2:], ceil_mode, dilations, kernel_shape, pads, strides)
    ones = np.ones((1, 1, *x.shape[2:]), x.dtype)
    counted = (
        padded(padded(ones, pads, 1), np.subtract(wider, pads)) if count_include_pad else padded(ones, wider)
    )
    sums, counts = (
        _sum(sliding_windows(part, kernel_shape, strides, dilations), kernel_shape)
        for part in (padded(x, wider), counted)
    )
    return sums / counts


def global_max_pool(x: np.ndarray) -> np.ndarray:
    """Return the greatest element of each channel: [N, C, 1...]."""
    return x.max(axis=tuple(range(2, x.ndim)), keepdims=True)


def global_average_pool(x: np.ndarray) -> np.ndarray:
    """Return the mean of each channel: [N, C, 1...]."""
    return x.mean(axis=tuple(range(2, x.ndim)), keepdims=True)


def pooled_size(size: int, span: int, begin: int, end: int, stride: int, rounds_up: bool) -> int:
    """Return how many windows of `span` there are; rounding up, the last one may stick out, but must start
    before the end padding."""
    room = size + begin + end - span
    if not rounds_up:
        return room // stride + 1
    windows = -(-room // stride) + 1
    return windows - ((windows - 1) * stride >= size + begin)


def _reaching(
    shape: Sequence[int],
    ceil_mode: int,
    dilations: Sequence[int],
    kernel: Sequence[int],
    pads: Sequence[int],
    strides: Sequence[int],
) -> tuple[int, ...]:
    """Return the padding with ends just wide enough for the last windows."""
    begins, ends = pads[: len(shape)], pads[len(shape) :]
    wider = []
    for size, span, begin, end, stride in zip(
        shape, spans(kernel, dilations), begins, ends, strides, strict=True
    ):
        windows = pooled_size(size, span, begin, end, stride, bool(ceil_mode))
        wider.append(max(end, (windows - 1) * stride + span - size - begin))
    return (*begins, *wider)


def _greatest(views: np.ndarray, kernel: Sequence[int]) -> np.ndarray:
    """Return the greatest element of each window of [N, C, out..., kernel...]."""
    if _few_windows(views, kernel):
        return views.max(axis=_last(len(kernel)))
    greatest = views[..., *[0] * len(kernel)].copy()
    for place in product(*map(range, kernel)):
        np.maximum(greatest, views[..., *place], out=greatest)
    return greatest


def _sum(views: np.ndarray, kernel: Sequence[int]) -> np.ndarray:
    """Return the sum of each window of floats [N, C, out..., kernel...]: of each of its rows from left to
    right, and of these in order."""
    if _few_windows(views, kernel) or views.dtype.kind != "f":
        return views.sum(axis=_last(len(kernel)))
    sums = np.zeros(views.shape[: -len(kernel)], views.dtype)
    for row in product(*map(range, kernel[:-1])):
        part = views[..., *row, 0].copy()
        for column in range(1, kernel[-1]):
            part += views[..., *row, column]
        sums += part
    return sums


def _few_windows(views: np.ndarray, kernel: Sequence[int]) -> bool:
    """Whether NumPy is faster by window than by place within all windows."""
    return prod(views.shape[2 : -len(kernel)]) < prod(kernel)


def _last(count: int) -> tuple[int, ...]:
    return tuple(range(-count, 0))


OPERATORS = {
    "AveragePool": average_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalMaxPool": global_max_pool,
    "MaxPool": max_pool,
}
