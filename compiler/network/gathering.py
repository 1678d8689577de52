"""Convolutions of gathered pixels: windows of packed rows, or space to depth."""

from math import prod

import numpy as np

from vdla.compiler.te.operators.sizes import Convolution, blocks
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.runtime.layout import SpaceToDepth
from vdla.runtime.windows import Windows


def space_to_depth_of(size: Convolution, border: int, config: AcceleratorConfig) -> SpaceToDepth | None:
    """Return the space-to-depth form of a strided convolution's input; None if it saves no steps."""
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
    """Return the convolution with stride 1 on the gathered pixels."""
    _, channels, rows, columns = to_depth.shape((size.batch, size.channels, size.height, size.width))
    kernel = -(-size.kernel[0] // to_depth.stride[0]), -(-size.kernel[1] // to_depth.stride[1])
    return Convolution(channels, rows, columns, size.outputs, kernel, batch=size.batch)


def gathered_weights(weights: np.ndarray, to_depth: SpaceToDepth) -> np.ndarray:
    """Return int8[o, c * sy * sx, kh', kw'] of int8[o, c, kh, kw] for gathered pixels. Weights are 0 where
    the kernel ends inside a gathered pixel."""
    (sy, sx), (o, c, kh, kw) = to_depth.stride, weights.shape
    whole = np.pad(weights, ((0, 0), (0, 0), (0, -kh % sy), (0, -kw % sx)))
    parts = whole.reshape(o, c, whole.shape[2] // sy, sy, whole.shape[3] // sx, sx).transpose(
        0, 3, 5, 1, 2, 4
    )
    return np.ascontiguousarray(parts.reshape(o, c * sy * sx, *parts.shape[4:]))


def windows_of(size: Convolution, border: int, config: AcceleratorConfig) -> Windows | None:
    """Return the windows in which GATHERs read the input of a convolution; None if the accelerator cannot."""
    element, step = config.element_bytes(MemoryType.INP), size.channels * size.stride[1]
    if not config.has(Extension.GATHER) or config.batch > 1 or size.groups > 1 or size.dilation != (1, 1):
        return None
    taps, (rows, columns) = window_taps(size, config), size.out_size
    whole = columns + taps - 1
    pitch = blocks((whole - 1) * step + element, element) * element
    fits = step <= isa.MOST_GATHER_STEP and pitch * size.stride[0] <= isa.LONGEST_ROW
    if not fits or (taps > 1 and step > element):
        return None
    top, left, *_ = size.padding
    below = (rows - 1) * size.stride[0] + size.kernel[0] - top - size.height
    return Windows(whole, step, pitch, (top, left, below), border)


def window_taps(size: Convolution, config: AcceleratorConfig) -> int:
    """Return how many windows hold a row of the kernel."""
    element, row = config.element_bytes(MemoryType.INP), size.kernel[1] * size.channels
    return 1 + blocks(max(0, row - element), size.channels * size.stride[1])


def windowed_size(size: Convolution, windows: Windows, config: AcceleratorConfig) -> Convolution:
    """Return the convolution over windows; the bytes of a window are its channels."""
    return Convolution(
        config.block_in,
        windows.rows(size.height),
        windows.columns,
        size.outputs,
        (size.kernel[0], window_taps(size, config)),
        (size.stride[0], 1),
        batch=size.batch,
    )


def windowed_weights(weights: np.ndarray, windows: Windows, windowed: Convolution) -> np.ndarray:
    """Return int8[o, block_in, kh, taps] of int8[o, c, kh, kw]. Each weight applies in the first window that
    holds its byte; in further windows the byte has weight 0."""
    o, c, kh, kw = weights.shape
    taps = windowed.kernel[1]
    row = weights.transpose(0, 2, 3, 1).reshape(o, kh, kw * c)
    result = np.zeros((o, windowed.channels, kh, taps), np.int8)
    for byte in range(kw * c):
        tap = min(max(0, -(-(byte - windowed.channels + 1) // windows.step)), taps - 1)
        result[:, byte - tap * windows.step, :, tap] = row[:, :, byte]
    return result


def saves(windows: Windows, size: Convolution, other: Convolution, config: AcceleratorConfig) -> bool:
    """Whether windows take fewer steps of the array for each sum than the convolution `other`, or equally
    many steps and fewer input bytes."""
    taken = blocks(other.channels, config.block_in)
    steps = size.kernel[0] * window_taps(size, config), prod(other.kernel) * taken
    element = config.element_bytes(MemoryType.INP)
    moved = windows.rows(size.height) * windows.pitch, other.height * other.width * taken * element
    return (steps[0], moved[0]) < (steps[1], moved[1])
