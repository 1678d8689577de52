"""Convolutions and matrix products on the accelerator.

A convolution may read gathered pixels: windows of packed rows, or space to depth.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np
from msgspec import structs

from vdla.compiler.codegen.blocked_layout import blocked_weights
from vdla.compiler.graph.integers import LEAST
from vdla.compiler.network.placed import (
    OffloadCandidate,
    Offloaded,
    OperatorKind,
    Stored,
    constants,
    operands,
)
from vdla.compiler.rules import Rule, enabling
from vdla.compiler.tasks.convolution import ConvolutionTask, TransposedTask
from vdla.compiler.te.operators.convolution import (
    phase_weights,
    prefers_windows,
    sides_fault,
    window_weights,
    with_whole_windows,
)
from vdla.compiler.te.operators.sizes import Convolution, Transposed, blocks, matrix_product
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.runtime.layout import IMAGE_RANK, SpaceToDepth
from vdla.runtime.windows import Windows

BORDERS = (0, LEAST)  # every accelerator for networks can pad with these
TAKES = f"a border of {' or '.join(map(str, BORDERS))}, or any with the extension {Extension.PAD_VALUE}"


def pads_with(config: AcceleratorConfig, border: int) -> bool:
    """Whether LOADs of an accelerator can pad with the int8 value `border`."""
    return border in BORDERS or config.has(Extension.PAD_VALUE)


def border_fault(candidate: OffloadCandidate) -> str:
    """Describe a border value that the accelerator cannot pad with; "" if the rule holds."""
    border = candidate.node.integer("border")
    return "" if pads_with(candidate.config, border) else f"a border of {border}"


def reach_fault(size: Convolution) -> str:
    """Describe a kernel that reads padding alone at every position; "" if the rule holds."""
    top, left, *_ = size.padding
    places = zip(
        (top, left),
        (size.height, size.width),
        size.kernel,
        size.stride,
        size.dilation,
        size.out_size,
        strict=True,
    )
    is_reached = all(
        any(
            0 <= begin * stride - before + tap * dilation < extent
            for begin in range(out)
            for tap in range(taps)
        )
        for before, extent, taps, stride, dilation, out in places
    )
    return "" if is_reached else "a kernel that reads padding alone"


def _size(candidate: OffloadCandidate) -> Convolution:
    (n, channels, height, width), node = candidate.shape(0), candidate.node
    outputs, _, *kernel = candidate.shape(1)
    return Convolution(
        channels,
        height,
        width,
        outputs,
        (kernel[0], kernel[1]),
        node.pair("strides"),
        node.border("pads"),
        node.pair("dilations"),
        node.integer("group"),
        n,
    )


def _convolution(candidate: OffloadCandidate) -> Offloaded:
    size, weights, border = _size(candidate), candidate.constant(1), candidate.node.integer("border")
    gathered = _gathered(candidate, size, weights, border) if candidate.gathers else None
    return gathered or convolved(candidate, size, weights, border)


def convolved(candidate: OffloadCandidate, size: Convolution, weights: np.ndarray, border: int) -> Offloaded:
    """Return a convolution of ungathered pixels: a depthwise convolution by windows along rows, or
    products."""
    if prefers_windows(size, candidate.config):
        wide = with_whole_windows(size)
        task = ConvolutionTask(wide, border=border, slides=True)
        return offloaded(candidate, task, {"W": window_weights(weights, wide, candidate.config)}, size.macs)
    return _product(candidate, ConvolutionTask(size, border=border), weights, size.macs)


def _gathered(
    candidate: OffloadCandidate, size: Convolution, weights: np.ndarray, border: int
) -> Offloaded | None:
    """Return the convolution of pixels gathered by the accelerator (windows) or by the host (space to depth),
    whichever takes fewer steps; None if neither saves any."""
    config = candidate.config
    to_depth, windows = space_to_depth_of(size, border, config), windows_of(size, border, config)
    wide = size if to_depth is None else gathered_size(size, to_depth)
    if windows is not None and saves(windows, size, wide, config):
        windowed = windowed_size(size, windows, config)
        whole = windowed_weights(weights, windows, windowed)
        return _product(candidate, ConvolutionTask(windowed), whole, size.macs, windows)
    if to_depth is None:
        return None
    return _product(
        candidate, ConvolutionTask(wide), gathered_weights(weights, to_depth), size.macs, to_depth
    )


def _transposed_size(candidate: OffloadCandidate) -> Transposed:
    n, channels, height, width = candidate.shape(0)
    weights, node = candidate.constant(1), candidate.node
    _, outputs, *kernel = weights.shape
    return Transposed(
        channels,
        height,
        width,
        outputs,
        (kernel[0], kernel[1]),
        node.pair("strides"),
        node.border("pads"),
        node.pair("output_padding"),
        n,
    )


def _transposed(candidate: OffloadCandidate) -> Offloaded:
    size = _transposed_size(candidate)
    weights = {"W": phase_weights(candidate.constant(1), size, candidate.config)}
    return offloaded(candidate, TransposedTask(size), weights, size.macs)


def rows_fault(candidate: OffloadCandidate) -> str:
    """Describe rows with as many dimensions as images, which a batch would divide; "" if the rule holds."""
    image = len(candidate.shape(0)) == IMAGE_RANK and candidate.config.batch > 1
    return f"an operand of {IMAGE_RANK} dimensions and batch = {candidate.config.batch}" if image else ""


def _matrix_product(candidate: OffloadCandidate) -> Offloaded:
    weights, rows = candidate.constant(1), prod(candidate.shape(0)[:-1])
    task = ConvolutionTask(matrix_product(rows, weights.shape[1], weights.shape[0], candidate.config))
    return as_rows(candidate, _product(candidate, task, weights.T[:, :, None, None], rows * weights.size))


def as_rows(candidate: OffloadCandidate, product: Offloaded) -> Offloaded:
    """Return a matrix product whose operand and result are stored as rows in DRAM, even if they have as many
    dimensions as an image."""
    if len(candidate.shape(0)) != IMAGE_RANK:
        return product
    (name, layout), (out, result) = product.inputs["X"], product.output
    return replace(
        product,
        inputs={"X": Stored(name, structs.replace(layout, stack=1))},
        output=Stored(out, structs.replace(result, stack=1)),
    )


def _product(
    candidate: OffloadCandidate,
    task: ConvolutionTask,
    weights: np.ndarray,
    macs: int,
    how: SpaceToDepth | Windows | None = None,
) -> Offloaded:
    packed = {"W": blocked_weights(weights, task.size, candidate.config)}
    return offloaded(candidate, task, packed, macs, how)


def offloaded(
    candidate: OffloadCandidate,
    task: ConvolutionTask | TransposedTask,
    weights: Mapping[str, np.ndarray],
    macs: int,
    how: SpaceToDepth | Windows | None = None,
) -> Offloaded:
    """Return a product.

    Args:
        weights: packed weights, by parameter of the task's program.
        how: how the pixels of its input are gathered; None: not at all.
    """
    config = candidate.config
    alone = how is not None or candidate.gathers or config.batch > 1  # no other reader of this layout
    x = candidate.operand(0, config.block_in if alone else None, how)
    task = replace(task, reads=x.layout.block // config.block_in, writes=candidate.parts)
    parameters = candidate.parameters(task.size.outputs)
    return candidate.as_tasks(task, {"X": x}, {**weights, "P": parameters}, macs)


def _wide(candidate: OffloadCandidate) -> str:
    """Describe weights that `in_eight_bits` has not expanded; "" if the rule holds."""
    dtype = candidate.constant(1).dtype
    return "" if dtype == np.int8 else f"weights of {dtype}"


def _shifted(candidate: OffloadCandidate) -> str:
    """Describe a zero point that `in_eight_bits` has not expanded; "" if the rule holds."""
    zero = candidate.node.integer("zero")
    return f"an input of zero point {zero}" if zero else ""


ROWS = Rule("rows of any number of dimensions but 4, or a batch of 1", rows_fault)
BORDER_CURE = f"{enabling(Extension.PAD_VALUE)}, or quantise its input with the zero point 0 or -128"
BOTH = (
    constants(1, 2),
    operands(1),
    Rule("int8 weights, or wider weights as sums of int8 parts", _wide),
)
OPERATORS: Mapping[str, OperatorKind] = {
    "Int8Conv": OperatorKind(
        (
            *BOTH,
            Rule(TAKES, border_fault, BORDER_CURE),
            Rule("kernels that reach the image", lambda candidate: reach_fault(_size(candidate))),
        ),
        _convolution,
    ),
    "Int8ConvTranspose": OperatorKind(
        (
            *BOTH,
            Rule("an input of zero point 0, or of another as a sum of int8 parts", _shifted),
            Rule(
                "strides of 1 or 2, or of which one divides the padding; they divide the result",
                lambda candidate: sides_fault(_transposed_size(candidate)),
            ),
        ),
        _transposed,
    ),
    "Int8MatMul": OperatorKind((*BOTH, ROWS), _matrix_product),
}


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
