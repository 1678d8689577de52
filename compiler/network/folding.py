"""Folding the input of a strided convolution: the pixels that it takes at once become channels of one pixel
(space to depth)."""

import numpy as np

from vdla.compiler.te.operators.sizes import Convolution, blocks
from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.layout import Fold


def fold_of(size: Convolution, border: int, config: AcceleratorConfig) -> Fold | None:
    """Return how the input of a strided convolution of few channels is folded; None where that saves
    nothing."""
    (sy, sx), (ky, kx) = size.stride, size.kernel
    steps, folded = (
        rows * columns * blocks(channels, config.block_in)
        for rows, columns, channels in (
            (ky, kx, size.channels),
            (-(-ky // sy), -(-kx // sx), size.channels * sy * sx),
        )
    )
    if size.groups != 1 or tuple(size.dilation) != (1, 1) or folded >= steps:
        return None
    (top, left, *_), (rows, columns) = size.padding, size.out_size
    below, right = (
        (rows + -(-ky // sy) - 1) * sy - top - size.height,
        (columns + -(-kx // sx) - 1) * sx - left - size.width,
    )
    return Fold((sy, sx), (top, left, below, right), border)


def folded_size(size: Convolution, fold: Fold) -> Convolution:
    """Return the convolution with stride 1 that a folded one becomes."""
    _, channels, rows, columns = fold.shape((size.batch, size.channels, size.height, size.width))
    kernel = -(-size.kernel[0] // fold.stride[0]), -(-size.kernel[1] // fold.stride[1])
    return Convolution(channels, rows, columns, size.outputs, kernel, batch=size.batch)


def folded_weights(weights: np.ndarray, fold: Fold) -> np.ndarray:
    """Return int8[o, c, kh, kw] for the folded input: zeros where the kernel ends inside a gathered pixel."""
    (sy, sx), (o, c, kh, kw) = fold.stride, weights.shape
    whole = np.pad(weights, ((0, 0), (0, 0), (0, -kh % sy), (0, -kw % sx)))
    parts = whole.reshape(o, c, whole.shape[2] // sy, sy, whole.shape[3] // sx, sx).transpose(
        0, 3, 5, 1, 2, 4
    )
    return np.ascontiguousarray(parts.reshape(o, c * sy * sx, *parts.shape[4:]))
