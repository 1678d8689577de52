"""Average pooling and factors for channels on the accelerator: sums of products of one channel each."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from vdla.compiler.codegen.blocked_layout import blocked_parameters
from vdla.compiler.network.borders import TAKES
from vdla.compiler.network.maker import Kind, Maker, Offloaded, Piece, constants, of_channels, operands
from vdla.compiler.network.planes import multiplies
from vdla.compiler.network.products import (
    BORDER_CURE,
    as_rows,
    border_fault,
    convolved,
    offloaded,
    reach_fault,
    rows_fault,
)
from vdla.compiler.rules import Rule
from vdla.compiler.tasks.constant_operands import scalar_weights
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.mean import MeanTask
from vdla.compiler.te.operators.sizes import Convolution, matrix_product
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.layout import IMAGE_RANK


def _pooling(maker: Maker) -> Convolution:
    """Return average pooling as a depthwise convolution."""
    (n, channels, height, width), node = maker.shape(0), maker.node
    kernel, strides, pads = node.pair("kernel_shape"), node.pair("strides"), node.border("pads")
    return Convolution(channels, height, width, channels, kernel, strides, pads, groups=channels, batch=n)


def _average_pool(maker: Maker) -> Offloaded:
    size = _pooling(maker)
    if _is_mean(size, maker.config):
        return _mean(maker, size)
    return _multiplied(maker, size, np.ones(1, np.int8), maker.node.integer("border"))


def _is_mean(size: Convolution, config: AcceleratorConfig) -> bool:
    """Whether the accelerator sums whole planes at once."""
    plane = size.batch == 1 and size.kernel == (size.height, size.width) and not any(size.padding)
    return plane and multiplies(config) and config.has(Extension.REQUANTISE)


def _mean(maker: Maker, size: Convolution) -> Offloaded:
    """Return the mean of each plane."""
    config, (name, layout) = maker.config, maker.operand(0)
    task = MeanTask(layout.blocks[1], size.height * size.width)
    words = of_channels(maker.constant(-1), config.block_out)
    return Offloaded(
        maker.node,
        (Piece(task),),
        {"X": (name, layout)},
        maker.output(),
        {"P": blocked_parameters(words, config), "W": scalar_weights((1,), config)},
        size.macs,
    )


def _multiplied(maker: Maker, size: Convolution, factors: np.ndarray, border: int = 0) -> Offloaded:
    """Return sums of the windows of each channel times its factor. One factor for all channels makes all
    blocks of weights equal: they become one block."""
    config = maker.config
    if len(factors) == 1 and config.block_in == config.block_out:
        task = ConvolutionTask(size, border=border, alike=True)
        block = np.eye(config.block_out, dtype=np.int8) * factors
        return offloaded(maker, task, {"W": block[(None,) * 5]}, size.macs)
    weights = np.broadcast_to(factors[:, None, None, None], (size.outputs, 1, *size.kernel))
    return convolved(maker, size, weights, border)


def _scale(maker: Maker) -> Offloaded:
    shape, factors = maker.shape(0), maker.constant(1)
    if _is_image(maker):
        n, channels, height, width = shape
        size = Convolution(channels, height, width, channels, (1, 1), groups=channels, batch=n)
        return _multiplied(maker, size, factors)
    rows, columns = prod(shape[:-1]), shape[-1]
    size = replace(matrix_product(rows, columns, columns, maker.config), groups=columns)
    return as_rows(maker, replace(_multiplied(maker, size, factors), macs=prod(shape)))


def _is_image(maker: Maker) -> bool:
    """Whether the factors belong to the channels of images."""
    return len(maker.shape(0)) == IMAGE_RANK and maker.node.integer("axis") == 1


def _axis(maker: Maker) -> str:
    axis, rank = maker.node.integer("axis"), len(maker.shape(0))
    return "" if _is_image(maker) or axis % rank == rank - 1 else f"axis = {axis} of {rank} dimensions"


OPERATORS: Mapping[str, Kind] = {
    "Int8AveragePool": Kind(
        (
            constants(-1),
            operands(1),
            Rule(TAKES, border_fault, BORDER_CURE),
            Rule("kernels that reach the image", lambda maker: reach_fault(_pooling(maker))),
        ),
        _average_pool,
    ),
    "Int8Scale": Kind(
        (
            constants(1, 2),
            operands(1),
            Rule("channels of images, or the last dimension", _axis),
            Rule(
                "rows of any number of dimensions but 4, or a batch of 1",
                lambda maker: "" if _is_image(maker) else rows_fault(maker),
            ),
        ),
        _scale,
    ),
}
