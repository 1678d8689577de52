"""Convolutions and matrix products on the accelerator."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np
from msgspec import structs

from vdla.compiler.codegen.packing import blocked_parameters, blocked_weights
from vdla.compiler.network.borders import TAKES, pads_with
from vdla.compiler.network.gathering import saves, windowed_size, windowed_weights, windows_of
from vdla.compiler.network.maker import Kind, Maker, Offloaded, Piece, constants, of_channels, operands
from vdla.compiler.network.planes import is_mean, mean
from vdla.compiler.network.space_to_depth import gathered_size, gathered_weights, space_to_depth_of
from vdla.compiler.rules import Rule, enabling
from vdla.compiler.tasks.convolution import ConvolutionTask, TransposedTask
from vdla.compiler.te.operators.sizes import Convolution, Transposed, matrix_product
from vdla.compiler.te.operators.transposed import phase_weights, sides_fault
from vdla.compiler.te.operators.windows import in_windows, slides, window_weights
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.layout import IMAGE_RANK, SpaceToDepth
from vdla.runtime.windows import Windows


def _border(maker: Maker) -> str:
    border = maker.node.integer("border")
    return "" if pads_with(maker.config, border) else f"a border of {border}"


def _reach(maker: Maker) -> str:
    """Say that the kernel stands on padding alone, wherever it goes."""
    node, (height, width) = maker.node, maker.shape(0)[2:]
    top, left, *_ = node.border("pads")
    places = zip(
        (top, left),
        (height, width),
        maker.shape(1)[2:],
        node.pair("strides"),
        node.pair("dilations"),
        maker.graph.types[node.outputs[0]].shape[2:],
        strict=True,
    )
    is_reached = all(
        any(
            0 <= begin * stride - before + tap * dilation < size
            for begin in range(out)
            for tap in range(taps)
        )
        for before, size, taps, stride, dilation, out in places
    )
    return "" if is_reached else "a kernel that reads padding alone"


def _convolution(maker: Maker) -> Offloaded:
    n, channels, height, width = maker.shape(0)
    weights, node = maker.constant(1), maker.node
    outputs, _, *kernel = weights.shape
    size = Convolution(
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
    border = node.integer("border")
    gathered = _gathered(maker, size, weights, border) if maker.gathers else None
    if gathered is not None:
        return gathered
    if is_mean(size, weights, maker.constant(2), maker.config):
        return mean(maker, size)
    if _sums_windows(size, weights, maker.config):
        return _sum_of_windows(maker, size, border)
    if slides(size, maker.config):
        wide = in_windows(size)
        packed = {"W": window_weights(weights, wide, maker.config)}
        return _offloaded(
            maker, ConvolutionTask(wide, border=border, slides=True), packed, outputs, size.macs
        )
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


def _sums_windows(size: Convolution, weights: np.ndarray, config: AcceleratorConfig) -> bool:
    """Whether each output channel sums windows of one input channel, as average pooling does, so that every
    block of weights is the unit matrix."""
    return (
        size.groups == size.channels == size.outputs
        and config.block_in == config.block_out
        and bool((weights == 1).all())
    )


def _sum_of_windows(maker: Maker, size: Convolution, border: int) -> Offloaded:
    config = maker.config
    task = ConvolutionTask(size, border=border, alike=True)
    unit = np.eye(config.block_out, dtype=np.int8)[(None,) * 5]
    return _offloaded(maker, task, {"W": unit}, size.outputs, size.macs)


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
    return _offloaded(
        maker,
        TransposedTask(size),
        {"W": phase_weights(maker.constant(1), size, maker.config)},
        size.outputs,
        size.macs,
    )


def _rows(maker: Maker) -> str:
    image = len(maker.shape(0)) == IMAGE_RANK and maker.config.batch > 1
    return f"an operand of {IMAGE_RANK} dimensions and batch = {maker.config.batch}" if image else ""


def _matrix_product(maker: Maker) -> Offloaded:
    """Return a product of a matrix; also what has as many dimensions as an image is one."""
    made = _product_of_rows(maker)
    if len(maker.shape(0)) != IMAGE_RANK:
        return made
    (name, layout), (out, result) = made.inputs["X"], made.output
    return replace(
        made,
        inputs={"X": (name, structs.replace(layout, stack=1))},
        output=(out, structs.replace(result, stack=1)),
    )


def _product_of_rows(maker: Maker) -> Offloaded:
    weights, rows = maker.constant(1), prod(maker.shape(0)[:-1])
    diagonal = np.diagonal(weights)
    if weights.shape[0] == weights.shape[1] > 1 and np.count_nonzero(weights) == np.count_nonzero(diagonal):
        return _scaled_columns(maker, diagonal, rows)
    size = matrix_product(rows, weights.shape[1], weights.shape[0], maker.config)
    return _product(maker, ConvolutionTask(size), weights.T[:, :, None, None], rows * weights.size)


def _scaled_columns(maker: Maker, factors: np.ndarray, rows: int) -> Offloaded:
    """A product with a diagonal matrix is a depthwise 1x1 convolution."""
    whole = matrix_product(rows, len(factors), len(factors), maker.config)
    size = replace(whole, groups=len(factors))
    if _sums_windows(size, factors, maker.config):
        return _sum_of_windows(maker, size, 0)
    return _product(maker, ConvolutionTask(size), factors[:, None, None, None], rows * len(factors))


def _product(
    maker: Maker,
    task: ConvolutionTask,
    weights: np.ndarray,
    macs: int,
    how: SpaceToDepth | Windows | None = None,
) -> Offloaded:
    return _offloaded(
        maker,
        task,
        {"W": blocked_weights(weights, task.size, maker.config)},
        task.size.outputs,
        macs,
        how,
    )


def _offloaded(
    maker: Maker,
    task: ConvolutionTask | TransposedTask,
    weights: Mapping[str, np.ndarray],
    outputs: int,
    macs: int,
    how: SpaceToDepth | Windows | None = None,
) -> Offloaded:
    config = maker.config
    parameters = blocked_parameters(of_channels(maker.constant(2), outputs), config)
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


ROWS = Rule("rows of any number of dimensions but 4, or a batch of 1", _rows)
BOTH = (constants(1, 2), operands(1))
OPERATORS: Mapping[str, Kind] = {
    "Int8Conv": Kind(
        (
            *BOTH,
            Rule(
                TAKES,
                _border,
                f"{enabling(Extension.PAD_VALUE)}, or quantise its input with the zero point 0 or -128",
            ),
            Rule("kernels that reach the image", _reach),
        ),
        _convolution,
    ),
    "Int8ConvTranspose": Kind(
        (
            *BOTH,
            Rule(
                "strides of 1 or 2, or of which one divides the padding; they divide the result",
                lambda maker: sides_fault(_transposed_size(maker)),
            ),
        ),
        _transposed,
    ),
    "Int8MatMul": Kind((*BOTH, ROWS), _matrix_product),
}
