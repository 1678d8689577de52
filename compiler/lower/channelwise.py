"""Channelwise products on the accelerator: scales of channels, and products of an image with
an activation that has a factor for each of its channels."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from vdla.compiler.codegen.epilogue import NO_EPILOGUE
from vdla.compiler.graph.integer_forms.lowering import IntegerForm, Lowering
from vdla.compiler.graph.integer_forms.rules import RATIOS, SHIFTS, SUMS
from vdla.compiler.graph.integer_forms.site import CHANGE, Site
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.lower.products import ROWS, as_rows, convolved, offloaded
from vdla.compiler.network.placed import (
    OffloadCandidate,
    Offloaded,
    OperatorKind,
    Piece,
    constants,
    operands,
)
from vdla.compiler.rules import Rule
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.program_text import channel_masks, constant_inputs, scalar_weights
from vdla.compiler.tasks.scaling import DiagonalTask, FactorsTask, ScalingTask, int8_parts
from vdla.compiler.te.operators.sizes import Convolution, matrix_product
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Parameter
from vdla.runtime.layout import IMAGE_RANK


def multiplied(
    candidate: OffloadCandidate, size: Convolution, factors: np.ndarray, border: int = 0
) -> Offloaded:
    """Return the depthwise convolution of windows whose weights are the factor of each channel. If all
    channels share a factor, a single block of weights serves all of them."""
    config = candidate.config
    if len(factors) == 1 and config.block_in == config.block_out:
        task = ConvolutionTask(size, border=border, alike=True)
        block = np.eye(config.block_out, dtype=np.int8) * factors
        return offloaded(candidate, task, {"W": block[(None,) * 5]}, size.macs)
    weights = np.broadcast_to(factors[:, None, None, None], (size.outputs, 1, *size.kernel))
    return convolved(candidate, size, weights, border)


def _scale(candidate: OffloadCandidate) -> Offloaded:
    shape, factors = candidate.shape(0), candidate.constant(1)
    if _is_image(candidate):
        n, channels, height, width = shape
        size = Convolution(channels, height, width, channels, (1, 1), groups=channels, batch=n)
        return multiplied(candidate, size, factors)
    rows, columns = prod(shape[:-1]), shape[-1]
    size = replace(matrix_product(rows, columns, columns, candidate.config), groups=columns)
    return as_rows(candidate, replace(multiplied(candidate, size, factors), macs=prod(shape)))


def _is_image(candidate: OffloadCandidate) -> bool:
    """Whether factors scale the channels of images."""
    return len(candidate.shape(0)) == IMAGE_RANK and candidate.node.integer("axis") == 1


def _axis(candidate: OffloadCandidate) -> str:
    axis, rank = candidate.node.integer("axis"), len(candidate.shape(0))
    return "" if _is_image(candidate) or axis % rank == rank - 1 else f"axis = {axis} of {rank} dimensions"


def factor_place(graph: Graph, node: Node) -> int | None:
    """Return which operand of a product, 0 or 1, has a factor for each channel of the other operand, which is
    an image; None if neither has."""
    shapes = [graph.types[name].shape for name in node.inputs[:2]]
    for place in range(2):
        image, factors = shapes[1 - place], shapes[place]
        if len(image) == IMAGE_RANK and image[0] == 1 and factors == (1, image[1], 1, 1):
            return place
    return None


def multiplies(config: AcceleratorConfig) -> bool:
    """Whether the multiplier array can take factors as weights."""
    return config.batch == 1 and config.block_in == config.block_out


def by_channel(candidate: OffloadCandidate, place: int) -> Offloaded:
    """Return the product of an image with the factors in operand `place`, which become diagonal weights."""
    config, zeros = candidate.config, candidate.node.extents("zeros")
    numbers, inputs = int8_parts(-zeros[place]), int8_parts(-zeros[1 - place])
    _, blocks, height, width, *_ = candidate.operand(1 - place).layout.blocks
    words = candidate.constant(2).copy()
    words[Parameter.BIAS] += zeros[0] * zeros[1]
    constants = {
        "P": candidate.parameters(words=words),
        "U": channel_masks(config),
        **({"K": scalar_weights(numbers, config)} if numbers else {}),
        **({"C": constant_inputs(inputs, config)} if inputs else {}),
    }
    task = FactorsTask(blocks, height * width, len(numbers), len(inputs))
    pieces = Piece(DiagonalTask(blocks), epilogue=NO_EPILOGUE), Piece(task)
    product = candidate.as_tasks(pieces, {"A": 1 - place, "F": place}, constants)
    return replace(product, scratch={"D": blocks * config.block_out**2})


def by_alu(candidate: OffloadCandidate, place: int) -> Offloaded:
    """Return the product of an image with the factors in operand `place`, computed by the ALU."""
    zeros = candidate.node.extents("zeros")
    _, blocks, height, width, *_ = candidate.operand(1 - place).layout.blocks
    task = ScalingTask(blocks, height * width, candidate.parts, (zeros[1 - place], zeros[place]))
    return candidate.as_tasks(task, {"A": 1 - place, "F": place}, {"P": candidate.parameters()})


def _integer_scale(lowering: Lowering, site: Site) -> None:
    """Add a scale of channels, with a factor for each channel or a single factor."""
    words = site.product.parameters(site.operands[0].quantisation, site.result)
    factors = _shared(site.product.weights[:, 0])
    lowering.add_weighted(site, factors, _shared(words), "Int8Scale", {"axis": site.node.integer("axis")})


def _shared(channels: np.ndarray) -> np.ndarray:
    """Return an array [..., channels] as [..., 1] if all channels are equal."""
    return channels[..., :1] if bool((channels == channels[..., :1]).all()) else channels


FORMS = {CHANGE: IntegerForm(_integer_scale, (), (SUMS, RATIOS, SHIFTS))}
OPERATORS: Mapping[str, OperatorKind] = {
    "Int8Scale": OperatorKind(
        (
            constants(1, 2),
            operands(1),
            Rule("channels of images, or the last dimension", _axis),
            Rule(ROWS.takes, lambda candidate: "" if _is_image(candidate) else ROWS.violation(candidate)),
        ),
        _scale,
    ),
}
