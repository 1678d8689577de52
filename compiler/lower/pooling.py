"""Max pooling and average pooling of int8 images."""

from collections.abc import Mapping

import numpy as np

from vdla.compiler.graph.integer_forms.lowering import IntegerForm, Lowering, border_of
from vdla.compiler.graph.integer_forms.rules import (
    CEIL_MODE,
    DEPTH_PADDING,
    DILATIONS,
    DIMENSIONS,
    PADDING,
    RATIOS,
    SUMS,
)
from vdla.compiler.graph.integer_forms.site import Site
from vdla.compiler.lower.channelwise import multiplied, multiplies
from vdla.compiler.lower.products import BORDER_CURE, TAKES, border_fault, reach_fault
from vdla.compiler.network.placed import OffloadCandidate, Offloaded, OperatorKind, alu, constants, operands
from vdla.compiler.rules import Rule
from vdla.compiler.tasks.pooling import MaximumTask, MeanTask, PoolingTask, pools_by_multiplier
from vdla.compiler.tasks.program_text import scalar_weights
from vdla.compiler.te.operators.sizes import Convolution, Pooling, average_pool
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode, Extension


def _size(candidate: OffloadCandidate) -> Pooling:
    (n, channels, height, width), node = candidate.shape(0), candidate.node
    kernel, strides, pads = node.pair("kernel_shape"), node.pair("strides"), node.border("pads")
    return Pooling(channels, height, width, kernel, strides, pads, n)


def _max_pool(candidate: OffloadCandidate) -> Offloaded:
    size, config = _size(candidate), candidate.config
    if pools_by_multiplier(config, size):
        return candidate.as_tasks(MaximumTask(size), {"X": 0}, {"W": scalar_weights((1,), config)})
    return candidate.as_tasks(PoolingTask(size, candidate.parts, candidate.parts), {"X": 0}, {})


def _average_pool(candidate: OffloadCandidate) -> Offloaded:
    size = average_pool(_size(candidate))
    if _is_mean(size, candidate.config):
        return _mean(candidate, size)
    return multiplied(candidate, size, np.ones(1, np.int8), candidate.node.integer("border"))


def _is_mean(size: Convolution, config: AcceleratorConfig) -> bool:
    """Whether a pooling is a global mean that a `MeanTask` computes."""
    plane = size.batch == 1 and size.kernel == (size.height, size.width) and not any(size.padding)
    return plane and multiplies(config) and config.has(Extension.REQUANTISE)


def _mean(candidate: OffloadCandidate, size: Convolution) -> Offloaded:
    """Return the mean of each plane."""
    task = MeanTask(candidate.operand(0).layout.blocks[1], size.height * size.width)
    constants = {"P": candidate.parameters(), "W": scalar_weights((1,), candidate.config)}
    return candidate.as_tasks(task, {"X": 0}, constants, size.macs)


def _integer_max_pool(lowering: Lowering, site: Site) -> None:
    """Add max pooling, and a requantisation if the scales of input and result differ."""
    (x,), attributes, node = site.operands, site.node.attributes, site.node
    pooled = {name: attributes[name] for name in ("kernel_shape", "pads", "strides")}
    lowering.rescaled(
        x,
        site.out,
        site.result,
        lambda target: lowering.add("Int8MaxPool", (x.name,), target, pooled, node.name),
    )


def _integer_average(lowering: Lowering, site: Site) -> None:
    """Add average pooling: its requantisation divides sums by the elements of a window."""
    (x,), window = site.operands, site.window
    of_channels = site.product.parameters(x.quantisation, site.result)  # equal for all channels
    words = lowering.constant(f"{site.out}_parameters", of_channels[:, :1])
    kept = {name: window.attributes[name] for name in ("kernel_shape", "pads", "strides")}
    attributes = {**kept, "border": border_of(site)}
    lowering.add("Int8AveragePool", (x.name, words), site.out, attributes, site.node.name)


FORMS = {
    "AveragePool": IntegerForm(_integer_average, (DIMENSIONS, CEIL_MODE, DILATIONS, PADDING), (SUMS, RATIOS)),
    "GlobalAveragePool": IntegerForm(_integer_average, (DIMENSIONS,), (SUMS, RATIOS)),
    "MaxPool": IntegerForm(_integer_max_pool, (DIMENSIONS, CEIL_MODE, DILATIONS, DEPTH_PADDING)),
}
OPERATORS: Mapping[str, OperatorKind] = {
    "Int8AveragePool": OperatorKind(
        (
            constants(-1),
            operands(1),
            Rule(TAKES, border_fault, BORDER_CURE),
            Rule(
                "kernels that read at least one pixel of the image",
                lambda candidate: reach_fault(average_pool(_size(candidate))),
            ),
        ),
        _average_pool,
    ),
    "Int8MaxPool": OperatorKind((operands(1),), _max_pool, (alu(AluOpcode.MAX, AluOpcode.ADD),)),
}
