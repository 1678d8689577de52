"""Convolutions and matrix products on the accelerator."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np
from msgspec import structs

from vdla.compiler.codegen.blocked_layout import blocked_parameters, blocked_weights
from vdla.compiler.network.borders import TAKES, pads_with
from vdla.compiler.network.gathering import (
    gathered_size,
    gathered_weights,
    saves,
    space_to_depth_of,
    windowed_size,
    windowed_weights,
    windows_of,
)
from vdla.compiler.network.maker import Kind, Maker, Offloaded, Piece, constants, of_channels, operands
from vdla.compiler.rules import Rule, enabling
from vdla.compiler.tasks.convolution import ConvolutionTask, TransposedTask
from vdla.compiler.te.operators.depthwise import prefers_windows, window_weights, with_whole_windows
from vdla.compiler.te.operators.sizes import Convolution, Transposed, matrix_product
from vdla.compiler.te.operators.transposed import phase_weights, sides_fault
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.layout import IMAGE_RANK, SpaceToDepth
from vdla.runtime.windows import Windows


def border_fault(maker: Maker) -> str:
    """Name a border that the accelerator cannot pad with."""
    border = maker.node.integer("border")
    return "" if pads_with(maker.config, border) else f"a border of {border}"


def reach_fault(size: Convolution) -> str:
    """Say that the kernel reads padding alone, at every position."""
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


def _size(maker: Maker) -> Convolution:
    (n, channels, height, width), node = maker.shape(0), maker.node
    outputs, _, *kernel = maker.shape(1)
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


def _convolution(maker: Maker) -> Offloaded:
    size, weights, border = _size(maker), maker.constant(1), maker.node.integer("border")
    gathered = _gathered(maker, size, weights, border) if maker.gathers else None
    return gathered or convolved(maker, size, weights, border)


def convolved(maker: Maker, size: Convolution, weights: np.ndarray, border: int) -> Offloaded:
    """Return a convolution of the pixels as they are: by windows that slide along rows, or by products."""
    if prefers_windows(size, maker.config):
        wide = with_whole_windows(size)
        task = ConvolutionTask(wide, border=border, slides=True)
        return offloaded(maker, task, {"W": window_weights(weights, wide, maker.config)}, size.macs)
    return _product(maker, ConvolutionTask(size, border=border), weights, size.macs)


def _gathered(maker: Maker, size: Convolution, weights: np.ndarray, border: int) -> Offloaded | None:
    """Return the convolution of pixels that the accelerator gathers, or the host, whichever takes fewer
    steps; None where neither saves any."""
    config = maker.config
    to_depth, windows = space_to_depth_of(size, border, config), windows_of(size, border, config)
    wide = size if to_depth is None else gathered_size(size, to_depth)
    if windows is not None and saves(windows, size, wide, config):
        windowed = windowed_size(size, windows, config)
        whole = windowed_weights(weights, windows, windowed)
        return _product(maker, ConvolutionTask(windowed), whole, size.macs, windows)
    if to_depth is None:
        return None
    return _product(maker, ConvolutionTask(wide), gathered_weights(weights, to_depth), size.macs, to_depth)


def _transposed_size(maker: Maker) -> Transposed:
    n, channels, height, width = maker.shape(0)
    weights, node = maker.constant(1), maker.node
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


def _transposed(maker: Maker) -> Offloaded:
    size = _transposed_size(maker)
    weights = {"W": phase_weights(maker.constant(1), size, maker.config)}
    return offloaded(maker, TransposedTask(size), weights, size.macs)


def rows_fault(maker: Maker) -> str:
    """Say that rows have as many dimensions as images, which a batch would divide."""
    image = len(maker.shape(0)) == IMAGE_RANK and maker.config.batch > 1
    return f"an operand of {IMAGE_RANK} dimensions and batch = {maker.config.batch}" if image else ""


def _matrix_product(maker: Maker) -> Offloaded:
    weights, rows = maker.constant(1), prod(maker.shape(0)[:-1])
    task = ConvolutionTask(matrix_product(rows, weights.shape[1], weights.shape[0], maker.config))
    return as_rows(maker, _product(maker, task, weights.T[:, :, None, None], rows * weights.size))


def as_rows(maker: Maker, product: Offloaded) -> Offloaded:
    """Return a product of a matrix whose operand and result are rows in DRAM, even if they have as many
    dimensions as an image."""
    if len(maker.shape(0)) != IMAGE_RANK:
        return product
    (name, layout), (out, result) = product.inputs["X"], product.output
    return replace(
        product,
        inputs={"X": (name, structs.replace(layout, stack=1))},
        output=(out, structs.replace(result, stack=1)),
    )


def _product(
    maker: Maker,
    task: ConvolutionTask,
    weights: np.ndarray,
    macs: int,
    how: SpaceToDepth | Windows | None = None,
) -> Offloaded:
    packed = {"W": blocked_weights(weights, task.size, maker.config)}
    return offloaded(maker, task, packed, macs, how)


def offloaded(
    maker: Maker,
    task: ConvolutionTask | TransposedTask,
    weights: Mapping[str, np.ndarray],
    macs: int,
    how: SpaceToDepth | Windows | None = None,
) -> Offloaded:
    """Return a product with packed weights; `how` its pixels are gathered, or None."""
    config = maker.config
    parameters = blocked_parameters(of_channels(maker.constant(-1), task.size.outputs), config)
    alone = how is not None or maker.gathers or config.batch > 1  # nobody else reads the input so
    x, out = maker.operand(0, config.block_in if alone else None, how), maker.output()
    task = replace(task, reads=x[1].block // config.block_in, writes=out[1].block // config.block_out)
    return Offloaded(
        maker.node,
        (Piece(task),),
        {"X": x},
        out,
        {**weights, "P": parameters},
        macs,
    )


def _wide(maker: Maker) -> str:
    """Name weights that `in_eight_bits` has not expanded."""
    dtype = maker.constant(1).dtype
    return "" if dtype == np.int8 else f"weights of {dtype}"


def _shifted(maker: Maker) -> str:
    """Name a zero point that `in_eight_bits` has not expanded."""
    zero = maker.node.integer("zero")
    return f"an input of zero point {zero}" if zero else ""


ROWS = Rule("rows of any number of dimensions but 4, or a batch of 1", rows_fault)
BORDER_CURE = f"{enabling(Extension.PAD_VALUE)}, or quantise its input with the zero point 0 or -128"
BOTH = (
    constants(1, 2),
    operands(1),
    Rule("int8 weights, or wider weights as sums of int8 parts", _wide),
)
OPERATORS: Mapping[str, Kind] = {
    "Int8Conv": Kind(
        (
            *BOTH,
            Rule(TAKES, border_fault, BORDER_CURE),
            Rule("kernels that reach the image", lambda maker: reach_fault(_size(maker))),
        ),
        _convolution,
    ),
    "Int8ConvTranspose": Kind(
        (
            *BOTH,
            Rule("an input of zero point 0, or of another as a sum of int8 parts", _shifted),
            Rule(
                "strides of 1 or 2, or of which one divides the padding; they divide the result",
                lambda maker: sides_fault(_transposed_size(maker)),
            ),
        ),
        _transposed,
    ),
    "Int8MatMul": Kind((*BOTH, ROWS), _matrix_product),
}
