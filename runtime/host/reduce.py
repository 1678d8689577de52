"""Reductions over some dimensions.

Source: ONNX operator specification, the operator of each entry in `OPERATORS`.
"""

from collections.abc import Callable, Sequence

import numpy as np


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
    "ReduceL1": _reduction(lambda x, **how: np.abs(x).sum(**how)),
    "ReduceL2": _reduction(_norm),
    "ReduceMax": _reduction(np.max),
    "ReduceMean": _reduction(np.mean),
    "ReduceMin": _reduction(np.min),
    "ReduceProd": _reduction(np.prod),
    "ReduceSum": _reduction(np.sum),
    "ReduceSumSquare": _reduction(lambda x, **how: np.square(x).sum(**how)),
}
