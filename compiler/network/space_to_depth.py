"""Space to depth for strided convolutions: the pixels of one stride become channels of one pixel."""

import numpy as np

from vdla.compiler.te.operators.sizes import Convolution, blocks
from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.layout import SpaceToDepth


def space_to_depth_of(size: Convolution, border: int, config: AcceleratorConfig) -> SpaceToDepth | None:
    """Return how the input of a strided convolution is gathered; None if that saves nothing."""
    (sy, sx), (ky, kx) = size.stride, size.kernel
    steps, gathered = (
        rows * columns * blocks(channels, config.block_in)
        for rows, columns, channels in (
            (ky, kx, size.channels),
            (-(-ky // sy), -(-kx // sx), size.channels * sy * sx),
        )
    )
    if size.groups != 1 or tuple(size.dilation) != (1, 1) or gathered >= steps:
        return None
    (top, left, *_), (rows, columns) = size.padding, size.out_size
    below, right = (
        (rows + -(-ky // sy) - 1) * sy - top - size.height,
        (columns + -(-kx // sx) - 1) * sx - left - size.width,
    )
    return SpaceToDepth((sy, sx), (top, left, below, right), border)


def gathered_size(size: Convolution, to_depth: SpaceToDepth) -> Convolution:
    """Return the convolution with stride 1 that a strided one becomes."""
    _, channels, rows, columns = to_depth.shape((size.batch, size.channels, size.height, size.width))
    kernel = -(-size.kernel[0] // to_depth.stride[0]), -(-size.kernel[1] // to_depth.stride[1])
    return Convolution(channels, rows, columns, size.outputs, kernel, batch=size.batch)


def gathered_weights(weights: np.ndarray, to_depth: SpaceToDepth) -> np.ndarray:
    """Return int8[o, c, kh, kw] for the gathered pixels: zeros where the kernel ends inside one of them."""
    (sy, sx), (o, c, kh, kw) = to_depth.stride, weights.shape
    whole = np.pad(weights, ((0, 0), (0, 0), (0, -kh % sy), (0, -kw % sx)))
    parts = whole.reshape(o, c, whole.shape[2] // sy, sy, whole.shape[3] // sx, sx).transpose(
        0, 3, 5, 1, 2, 4
    )
    return np.ascontiguousarray(parts.reshape(o, c * sy * sx, *parts.shape[4:]))
