"""What NumPy makes of operators."""

import numpy as np

from vdla.compiler.te.operators.narrowing import LEAST
from vdla.compiler.te.operators.sizes import (
    Convolution,
    Pooling,
)


def convolved(inp: np.ndarray, weights: np.ndarray, size: Convolution, border: int = 0) -> np.ndarray:
    """Return int64[n, o, oh, ow]: the sums of int8[n, c, h, w] and int8[o, c / groups, kh, kw]."""
    (top, left, below, right), (sy, sx), (ey, ex), (height, width) = (
        size.padding,
        size.stride,
        size.dilation,
        size.out_size,
    )
    padded = np.pad(
        inp.astype(np.int64), ((0, 0), (0, 0), (top, below), (left, right)), constant_values=border
    )
    grouped = padded.reshape(size.batch, size.groups, size.channels // size.groups, *padded.shape[2:])
    kernels = weights.astype(np.int64).reshape(size.groups, size.outputs // size.groups, *weights.shape[1:])
    total = np.zeros((size.batch, size.groups, size.outputs // size.groups, height, width), np.int64)
    for dy, dx in np.ndindex(*size.kernel):
        window = grouped[
            ..., dy * ey : dy * ey + (height - 1) * sy + 1 : sy, dx * ex : dx * ex + (width - 1) * sx + 1 : sx
        ]
        total += np.einsum("goc,ngchw->ngohw", kernels[..., dy, dx], window)
    return total.reshape(size.batch, size.outputs, height, width)


def greatest(inp: np.ndarray, size: Pooling) -> np.ndarray:
    """Return int8[n, c, oh, ow]: the maxima of int8[n, c, h, w], around which there is nothing greater."""
    (top, left, below, right), (height, width) = size.padding, size.out_size
    padded = np.pad(inp, ((0, 0), (0, 0), (top, below), (left, right)), constant_values=LEAST)
    windows = [
        padded[
            ...,
            dy : dy + (height - 1) * size.stride[0] + 1 : size.stride[0],
            dx : dx + (width - 1) * size.stride[1] + 1 : size.stride[1],
        ]
        for dy, dx in np.ndindex(*size.kernel)
    ]
    return np.max(windows, 0)
