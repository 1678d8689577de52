"""Operators that pick, repeat or make elements.

Source: ONNX operator specification, the operator of each function's entry in `OPERATORS`.
"""

from collections.abc import Sequence

import numpy as np

from vdla.runtime.host.dtypes import Dtype


def gather(x: np.ndarray, indices: np.ndarray, *, axis: int) -> np.ndarray:
    """Pick indices of dimension `axis`; negative ones count from the end."""
    return np.take(x, indices, axis=axis)


def gather_elements(x: np.ndarray, indices: np.ndarray, *, axis: int) -> np.ndarray:
    """Pick, for each place, the element whose index along `axis` stands there in `indices`."""
    reached = tuple(
        slice(None) if dimension == axis else slice(size) for dimension, size in enumerate(indices.shape)
    )
    return np.take_along_axis(x[reached], indices, axis=axis)


def expand(x: np.ndarray, *, shape: Sequence[int]) -> np.ndarray:
    """Repeat dimensions of extent 1 until the result has `shape`."""
    return np.broadcast_to(x, shape).copy()


def tile(x: np.ndarray, *, repeats: Sequence[int]) -> np.ndarray:
    """Repeat the whole in each dimension."""
    return np.tile(x, repeats)


def shape(x: np.ndarray, *, end: int, start: int) -> np.ndarray:
    """Return the extents of the dimensions from `start` to before `end`, as int64."""
    return np.array(x.shape[start:end], np.int64)


def size(x: np.ndarray) -> np.ndarray:
    """Return the number of elements, as int64."""
    return np.array(x.size, np.int64)


def constant_of_shape(*, dtype: Dtype, shape: Sequence[int], value: float | int) -> np.ndarray:
    """Return an array full of `value`."""
    return np.full(shape, value, dtype)


def range_(start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """Return the numbers from `start` to before `limit` in steps of `delta`."""
    return np.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


OPERATORS = {
    "ConstantOfShape": constant_of_shape,
    "Expand": expand,
    "Gather": gather,
    "GatherElements": gather_elements,
    "Range": range_,
    "Shape": shape,
    "Size": size,
    "Tile": tile,
}
