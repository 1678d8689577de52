"""A float operator where it stands in a quantised graph: what its rules look at, and what its integer form is
made of."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from vdla.compiler.graph.affine import ChannelAffine
from vdla.compiler.graph.conversions import Conversions, QuantisedTensor
from vdla.compiler.graph.integers import GREATEST, IntegerProduct, Quantisation, integer_product
from vdla.compiler.graph.nodes import Attribute, Graph, Node

CHANGE = "Affine"
PAIRED = "MatMul of activations"
POOLS = ("AveragePool", "GlobalAveragePool")
OUTPUTS_AXIS = {"Conv": 0, "ConvTranspose": 1, "MatMul": 1}  # of the weights
WHOLE: Mapping[str, Attribute] = {
    "ceil_mode": 0,
    "count_include_pad": 1,
    "dilations": (1, 1),
    "pads": (0, 0, 0, 0),
    "strides": (1, 1),
}  # of a window on all of an image


class Weights(NamedTuple):
    """The constants behind a DequantizeLinear.

    Attributes:
        values: integers.
        scale: of each output channel, or one for all.
        less: int16: the integers without their zero points.
    """

    values: np.ndarray
    scale: np.ndarray
    less: np.ndarray


def multiplies_activations(found: Conversions, node: Node) -> bool:
    """Whether a node is a MatMul whose operands are both known only when the network runs."""
    if node.op != "MatMul":
        return False
    known = (name in found.graph.constants or found.constants(name) is not None for name in node.inputs)
    return not any(known)


@dataclass(eq=False)
class Site:
    """A float operator in its graph.

    Attributes:
        found: the graph's conversions.
        node: the operator.
        quantise: the QuantizeLinear that takes one of its results to int8, straight or behind Relu and Clip;
            None where there is none.
        affine: what is done to each channel of its result, and goes into the requantisation.
        alone: that is all that is done: the operator is the first of those that change channels.
        last: the channels of such changes are the last dimension.

    What belongs to the integer form may be asked for only where the rules before hold.
    """

    found: Conversions
    node: Node
    quantise: Node | None = None
    affine: ChannelAffine | None = None
    alone: bool = False
    last: bool = False

    @property
    def kind(self) -> str:
        """The operator's name, or "Affine" where it only changes channels, or "MatMul of activations" where
        both operands of a MatMul come in when the network runs."""
        if self.alone:
            return CHANGE
        return PAIRED if multiplies_activations(self.found, self.node) else self.node.op

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.found.graph

    @property
    def inputs(self) -> tuple[str, ...]:
        """The real tensors that must be int8 underneath."""
        if self.node.op == "DequantizeLinear":
            return self.node.outputs
        if self.changed is not None:
            return (self.changed.x,)
        return self.node.inputs[:1] if self.is_product else tuple(name for name in self.node.inputs if name)

    @property
    def is_product(self) -> bool:
        """Whether the operator sums products with weights."""
        return self.kind in (*OUTPUTS_AXIS, "Gemm", *POOLS, CHANGE)

    @property
    def changed(self) -> ChannelAffine | None:
        """The changes of channels where they are all that is done; None elsewhere."""
        return self.affine if self.alone else None

    @property
    def weights_name(self) -> str:
        """The real weights of a product."""
        return self.node.inputs[1]

    @property
    def bias_name(self) -> str:
        """The real bias of a product; "" where it has none."""
        return self.node.inputs[2] if len(self.node.inputs) > 2 else ""

    @property
    def groups(self) -> int:
        """The groups of channels that a product with weights takes apart."""
        return 1 if self.alone or "group" not in self.node.attributes else self.node.integer("group")

    @property
    def outputs_axis(self) -> int:
        """The axis of the weights that output channels go along."""
        if self.node.op == "Gemm":
            return 0 if self.node.attributes["transB"] else 1
        return OUTPUTS_AXIS[self.node.op]

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a value."""
        return self.graph.types[name].shape

    @property
    def window(self) -> Node:
        """A pooling with all attributes of a window."""
        if self.node.op == "GlobalAveragePool":
            whole = {**WHOLE, "kernel_shape": self.shape(self.node.inputs[0])[2:]}
            return replace(self.node, attributes=whole)
        return self.node

    # Of the integer form

    def dequantised(self, real: str) -> tuple[np.ndarray, ...]:
        """Return elements, scale and zero point of constants, which the rules require to be there."""
        parts = self.found.constants(real)
        assert parts is not None, f"{real} is not constant"
        return parts

    @property
    def quantiser(self) -> Node:
        """The QuantizeLinear, which the rules require to be there."""
        assert self.quantise is not None, f"{self.node} is not quantised"
        return self.quantise

    @property
    def out(self) -> str:
        """The int8 result."""
        return self.quantiser.outputs[0]

    @cached_property
    def operands(self) -> tuple[QuantisedTensor, ...]:
        """The int8 tensors behind `inputs`."""
        return tuple(self.found.operand(name) for name in self.inputs)

    @cached_property
    def result(self) -> Quantisation:
        """What the int8 result stands for, with the bounds of Relu and Clip before the conversion."""
        return self.found.bounded(self.quantiser.inputs[0], self.found.quantisation(self.quantiser))

    @cached_property
    def weights(self) -> Weights:
        """The constants that weights are made of; those of an average are 1, those of changes of channels the
        signs of their factors, in steps that are fine enough for the shifts."""
        if self.changed is not None:
            factors, step = self.changed.factors, GREATEST if self.changed.shifts.any() else 1
            alone = self.result.scale / self.operands[0].quantisation.scale  # where a shift is all
            scale = np.where(factors, np.abs(factors), alone) / step
            signs = np.sign(factors).astype(np.int16)[:, None] * np.int16(step)
            return Weights(signs, scale, signs)
        if self.node.op not in POOLS:
            values, scale, zero = self.dequantised(self.weights_name)
            axis = self.found.makers[self.weights_name].integer("axis") % max(values.ndim, 1)
            along = [-1 if place == axis else 1 for place in range(values.ndim)] if zero.size > 1 else ()
            return Weights(values, scale, values.astype(np.int16) - zero.reshape(along))
        channels, kernel = self.shape(self.node.inputs[0])[1], self.window.extents("kernel_shape")
        ones = np.ones((channels, 1, *kernel), np.int8)
        return Weights(ones, np.ones(()), ones.astype(np.int16))

    @property
    def channels(self) -> int:
        """Output channels of a product."""
        first = self.node.op in POOLS or self.alone
        channels: int = self.weights.values.shape[0 if first else self.outputs_axis]
        return channels

    @cached_property
    def bias(self) -> np.ndarray:
        """float64[channels]: what a product adds to every row; 0 where there is nothing."""
        if self.changed is not None:
            return self.changed.shifts
        if self.is_pool or not self.bias_name:
            return np.zeros(self.channels)
        if self.bias_name in self.graph.constants:
            real = self.graph.constants[self.bias_name].astype(np.float64)
        else:
            values, scale, zero = self.dequantised(self.bias_name)
            real = (values.astype(np.float64) - zero.reshape(-1)) * scale.astype(np.float64).reshape(-1)
        return np.broadcast_to(real.reshape(-1), self.channels)

    @cached_property
    def product(self) -> IntegerProduct:
        """The sums of products, in integers."""
        (_, scale, values), (x,) = self.weights, self.operands
        averaged = values[0].size if self.is_pool else 1
        if not self.is_pool and not self.alone and self.outputs_axis:
            values = values.swapaxes(0, 1)
        scales = np.broadcast_to(scale.astype(np.float64).reshape(-1), self.channels)
        factors, of_bias, shifts = self.behind
        signs = np.sign(factors).astype(np.int16)[:, None]
        return integer_product(
            values.reshape(self.channels, -1) * signs,
            x.quantisation.scale * scales / averaged * np.where(factors, np.abs(factors), 1.0),
            self.bias * of_bias + shifts,
        )

    @property
    def is_pool(self) -> bool:
        """Whether the operator averages."""
        return self.kind in POOLS

    @property
    def behind(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What products are multiplied by, what a bias is, and what is added to both, float64[channels]."""
        ones, alpha, beta = np.ones(self.channels), self.node.real("alpha", 1), self.node.real("beta", 1)
        if self.affine is None or self.alone:
            return ones * alpha, ones * beta, 0 * ones
        return self.affine.factors * alpha, self.affine.factors * beta, self.affine.shifts

    @cached_property
    def ratios(self) -> np.ndarray:
        """float64[n]: what a step of the integers that are requantised is, in steps of the result."""
        scales = [operand.quantisation.scale for operand in self.operands]
        if self.is_product:
            return self.product.scales / self.result.scale
        if self.node.op == "Mul":
            return np.array([scales[0] * scales[1] / self.result.scale])
        if self.kind == PAIRED:
            behind = 1.0 if self.affine is None else self.affine.factors
            return np.unique(scales[0] * scales[1] / self.result.scale * behind)
        return np.array(scales) / self.result.scale
