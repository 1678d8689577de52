"""Operators that move, pick, repeat or make elements, or name their places anew.

Source: ONNX operator specification, the operator of each function's entry in `OPERATORS`.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

import numpy as np

from vdla.runtime.host.dtypes import Dtype


def reshape(x: np.ndarray, *, shape: Sequence[int]) -> np.ndarray:
    """Return the same elements in another shape."""
    return x.reshape(shape)


def flatten(x: np.ndarray, *, axis: int) -> np.ndarray:
    """Return a matrix whose rows run over the dimensions before `axis`."""
    rows = int(np.prod(x.shape[:axis]))
    return x.reshape(rows, x.size // rows)


def squeeze(x: np.ndarray, *, axes: Sequence[int]) -> np.ndarray:
    """Drop dimensions of extent 1."""
    return np.squeeze(x, tuple(axes))


def unsqueeze(x: np.ndarray, *, axes: Sequence[int]) -> np.ndarray:
    """Add dimensions of extent 1, at these places of the result."""
    return np.expand_dims(x, tuple(axes))


def transpose(x: np.ndarray, *, perm: Sequence[int]) -> np.ndarray:
    """Return dimensions in the order `perm`."""
    return np.ascontiguousarray(x.transpose(perm))


def concat(*inputs: np.ndarray, axis: int) -> np.ndarray:
    """Join along `axis`."""
    return np.concatenate(inputs, axis=axis)


def split(x: np.ndarray, *, axis: int, split: Sequence[int]) -> tuple[np.ndarray, ...]:
    """Cut along `axis` into parts of the sizes `split`."""
    if sum(split) != x.shape[axis]:
        raise ValueError(
            f"parts of {list(split)} do not make up the {x.shape[axis]} elements of dimension {axis}"
        )
    return tuple(np.split(x, list(accumulate(split))[:-1], axis))


def slice_(
    x: np.ndarray, *, axes: Sequence[int], ends: Sequence[int], starts: Sequence[int], steps: Sequence[int]
) -> np.ndarray:
    """Take every `steps`-th element from `starts` to before `ends`; negative positions count from the end."""
    cuts = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        cuts[axis] = slice(start, end, step)
    return x[tuple(cuts)]


def pad(
    x: np.ndarray,
    *,
    mode: Literal["constant", "reflect", "edge", "wrap"],
    pads: Sequence[int],
    value: float | int,
) -> np.ndarray:
    """Add a border: `pads` are the begins of all dimensions, then the ends; negative pads cut off.

    Args:
        mode: "constant" (elements are `value`), "reflect", "edge" or "wrap".
    """
    begins, ends = pads[: x.ndim], pads[x.ndim :]
    kept = x[
        tuple(
            slice(max(-begin, 0), size - max(-end, 0))
            for begin, end, size in zip(begins, ends, x.shape, strict=True)
        )
    ]
    widths = [(max(begin, 0), max(end, 0)) for begin, end in zip(begins, ends, strict=True)]
    return (
        np.pad(kept, widths, mode, constant_values=value)
        if mode == "constant"
        else np.pad(kept, widths, mode)
    )


def depth_to_space(x: np.ndarray, *, blocksize: int, mode: Literal["DCR", "CRD"]) -> np.ndarray:
    """Move channels of x[N, C, H, W] into squares of `blocksize`: the outer part of C ("DCR") or the inner
    part ("CRD")."""
    n, c, h, w = x.shape
    inner = c // blocksize**2
    if mode == "DCR":
        parts = x.reshape(n, blocksize, blocksize, inner, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, inner, blocksize, blocksize, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, inner, h * blocksize, w * blocksize)


def space_to_depth(x: np.ndarray, *, blocksize: int, mode: Literal["DCR", "CRD"]) -> np.ndarray:
    """Move squares of `blocksize` of x[N, C, H, W] into the channels: into the outer part of C ("DCR") or the
    inner part ("CRD")."""
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // blocksize, blocksize, w // blocksize, blocksize)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return parts.transpose(order).reshape(n, c * blocksize**2, h // blocksize, w // blocksize)


def gather(x: np.ndarray, indices: np.ndarray, *, axis: int) -> np.ndarray:
    """Pick indices of dimension `axis`; negative indices count from the end."""
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
    "Concat": concat,
    "ConstantOfShape": constant_of_shape,
    "DepthToSpace": depth_to_space,
    "Expand": expand,
    "Flatten": flatten,
    "Gather": gather,
    "GatherElements": gather_elements,
    "Pad": pad,
    "Range": range_,
    "Reshape": reshape,
    "Shape": shape,
    "Size": size,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
