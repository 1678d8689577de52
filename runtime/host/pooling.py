"""Pooling over windows and over all of space, and reductions over some dimensions.

Source: ONNX operator specification, the operator of each entry in `OPERATORS`.
"""

from collections.abc import Callable, Sequence
from itertools import islice, product
from math import prod

import numpy as np

from vdla.runtime.host.windows import at_last, padded, sliding_windows, spans


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
    return reduced_windows(padded(x, pads, lowest), kernel_shape, strides, dilations, np.maximum)


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
    unit_image = np.ones((1, 1, *x.shape[2:]), x.dtype)
    added = np.subtract(wider, pads).tolist()
    counted = padded(padded(unit_image, pads, 1), added) if count_include_pad else padded(unit_image, wider)
    sums, counts = (
        reduced_windows(part, kernel_shape, strides, dilations, np.add)
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
    """Return how many windows of `span` there are; rounding up, the last window may stick out, but must start
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


def reduced_windows(
    x: np.ndarray,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    operation: np.ufunc,
) -> np.ndarray:
    """Return [N, C, out...]: what an operation makes of the elements of each window, of the rows from left to
    right and then of these in order. Windows that overlap share the work on their rows."""
    views = sliding_windows(x, kernel, strides, dilations)
    if prod(views.shape[2 : x.ndim]) < prod(kernel) or (operation is np.add and x.dtype.kind != "f"):
        return operation.reduce(views, axis=tuple(range(-len(kernel), 0)))
    unit_extents = (1,) * (len(kernel) - 1)
    across = (*unit_extents, kernel[-1]), (*unit_extents, strides[-1]), (*unit_extents, dilations[-1])
    down = (*kernel[:-1], 1), (*strides[:-1], 1), (*dilations[:-1], 1)
    return _by_place(_by_place(x, *across, operation), *down, operation)


def _by_place(
    x: np.ndarray,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    operation: np.ufunc,
) -> np.ndarray:
    """Go through the places of a window, each in all windows at once."""
    views = sliding_windows(x, kernel, strides, dilations)
    result = views[at_last(*[0] * len(kernel))].copy()
    for place in islice(product(*map(range, kernel)), 1, None):
        operation(result, views[at_last(*place)], out=result)
    return result


def _reduction(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Return the operator that carries `function` over `axes`; the result has the type of x."""

    def reduce(x: np.ndarray, *, axes: Sequence[int], keepdims: int) -> np.ndarray:
        return np.asarray(function(x, axis=tuple(axes), keepdims=bool(keepdims))).astype(x.dtype)

    return reduce


def _norm(x: np.ndarray, axis: tuple[int, ...], keepdims: bool) -> np.ndarray:
    return np.sqrt(np.square(x).sum(axis=axis, keepdims=keepdims))


def arg_max(x: np.ndarray, *, axis: int, keepdims: int, select_last_index: int) -> np.ndarray:
    """Return where along `axis` the greatest element is, the first of equals or the last, as int64."""
    return _arg(np.argmax, x, axis, keepdims, select_last_index)


def arg_min(x: np.ndarray, *, axis: int, keepdims: int, select_last_index: int) -> np.ndarray:
    """Return where along `axis` the least element is, the first of equals or the last, as int64."""
    return _arg(np.argmin, x, axis, keepdims, select_last_index)


def _arg(
    find: Callable[..., np.ndarray], x: np.ndarray, axis: int, keepdims: int, select_last_index: int
) -> np.ndarray:
    if not select_last_index:
        return find(x, axis=axis, keepdims=bool(keepdims)).astype(np.int64)
    return (x.shape[axis] - 1 - find(np.flip(x, axis), axis=axis, keepdims=bool(keepdims))).astype(np.int64)


OPERATORS = {
    "ArgMax": arg_max,
    "ArgMin": arg_min,
    "AveragePool": average_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalMaxPool": global_max_pool,
    "MaxPool": max_pool,
    "ReduceL1": _reduction(lambda x, **how: np.abs(x).sum(**how)),
    "ReduceL2": _reduction(_norm),
    "ReduceMax": _reduction(np.max),
    "ReduceMean": _reduction(np.mean),
    "ReduceMin": _reduction(np.min),
    "ReduceProd": _reduction(np.prod),
    "ReduceSum": _reduction(np.sum),
    "ReduceSumSquare": _reduction(lambda x, **how: np.square(x).sum(**how)),
}
