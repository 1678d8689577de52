"""A float operator with its conversions in a quantised graph: the inputs of its rules and of its integer
form."""

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
}  # attributes of a window that covers the whole image


class Weights(NamedTuple):
    """Quantised constant weights.

    Attributes:
        values: the integers before the DequantizeLinear.
        scale: a scale for each output channel, or a single scale.
        centred: int16: the integers less their zero points.
    """

    values: np.ndarray
    scale: np.ndarray
    centred: np.ndarray


def multiplies_activations(conversions: Conversions, node: Node) -> bool:
    """Whether a node is a MatMul without constant operands."""
    if node.op != "MatMul":
        return False
    known = (
        name in conversions.graph.constants or conversions.dequantised_constants(name) is not None
        for name in node.inputs
    )
    return not any(known)


@dataclass(eq=False)
class Site:
    """A float operator in its graph.

    Attributes:
        conversions: the graph's conversions.
        node: the operator.
        quantise: the QuantizeLinear of one of its results, directly or after Relu and Clip; None if there is
            none.
        affine: the affine change of each channel of its result, which the requantisation absorbs.
        alone: there is no product: the operator is the first of the affine changes.
        last: the channels of the affine changes are the last dimension.

    The properties of the integer form are valid only after the preceding rules pass.
    """

    conversions: Conversions
    node: Node
    quantise: Node | None = None
    affine: ChannelAffine | None = None
    alone: bool = False
    last: bool = False

    @property
    def kind(self) -> str:
        """The operator's name; "Affine" for affine changes without a product; "MatMul of activations" for a
        MatMul without constant operands."""
        if self.alone:
            return CHANGE
        return PAIRED if multiplies_activations(self.conversions, self.node) else self.node.op

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.conversions.graph

    @property
    def inputs(self) -> tuple[str, ...]:
        """The real operands that must come from DequantizeLinear."""
        if self.node.op == "DequantizeLinear":
            return self.node.outputs
        if self.lone_change is not None:
            return (self.lone_change.x,)
        return self.node.inputs[:1] if self.is_product else tuple(name for name in self.node.inputs if name)

    @property
    def is_product(self) -> bool:
        """Whether the operator sums products with weights."""
        return self.kind in (*OUTPUTS_AXIS, "Gemm", *POOLS, CHANGE)

    @property
    def lone_change(self) -> ChannelAffine | None:
        """The affine changes of channels if there is no product; None otherwise."""
        return self.affine if self.alone else None

    @property
    def weights_name(self) -> str:
        """Name of the real weights of a product."""
        return self.node.inputs[1]

    @property
    def bias_name(self) -> str:
        """Name of the real bias of a product; "" if it has none."""
        return self.node.inputs[2] if len(self.node.inputs) > 2 else ""

    @property
    def groups(self) -> int:
        """Groups of channels of a product with weights."""
        return 1 if self.alone or "group" not in self.node.attributes else self.node.integer("group")

    @property
    def outputs_axis(self) -> int:
        """The axis of output channels in the weights."""
        if self.node.op == "Gemm":
            return 0 if self.node.attributes["transB"] else 1
        return OUTPUTS_AXIS[self.node.op]

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a value."""
        return self.graph.types[name].shape

    @property
    def window(self) -> Node:
        """The operator with the attributes of a window; a global pooling gets a window over the whole
        image."""
        if self.node.op == "GlobalAveragePool":
            whole = {**WHOLE, "kernel_shape": self.shape(self.node.inputs[0])[2:]}
            return replace(self.node, attributes=whole)
        return self.node

    # Properties of the integer form

    def dequantised(self, real: str) -> tuple[np.ndarray, ...]:
        """Return elements, scale and zero point of quantised constants; the rules ensure that they exist."""
        parts = self.conversions.dequantised_constants(real)
        assert parts is not None, f"{real} is not constant"
        return parts

    @property
    def quantiser(self) -> Node:
        """The QuantizeLinear; the rules ensure that it exists."""
        assert self.quantise is not None, f"{self.node} is not quantised"
        return self.quantise

    @property
    def out(self) -> str:
        """The int8 result."""
        return self.quantiser.result

    @cached_property
    def operands(self) -> tuple[QuantisedTensor, ...]:
        """The int8 tensors that the DequantizeLinears of `inputs` read."""
        return tuple(self.conversions.operand(name) for name in self.inputs)

    @cached_property
    def result(self) -> Quantisation:
        """The quantisation of the int8 result, with the bounds of Relu and Clip before the conversion."""
        return self.conversions.bounded(
            self.quantiser.inputs[0], self.conversions.quantisation(self.quantiser)
        )

    @cached_property
    def weights(self) -> Weights:
        """The quantised weights. An average has weights of 1. Affine changes have the signs of their factors
        as weights, times 127 if there are shifts, so that the scale is fine enough for them."""
        if self.lone_change is not None:
            factors, step = self.lone_change.factors, GREATEST if self.lone_change.shifts.any() else 1
            alone = self.result.scale / self.operands[0].quantisation.scale  # for channels with a factor of 0
            scale = np.where(factors, np.abs(factors), alone) / step
            signs = np.sign(factors).astype(np.int16)[:, None] * np.int16(step)
            return Weights(signs, scale, signs)
        if self.node.op not in POOLS:
            values, scale, zero = self.dequantised(self.weights_name)
            axis = self.conversions.makers[self.weights_name].integer("axis") % max(values.ndim, 1)
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
        """float64[channels]: the real bias of a product; 0 if it has none."""
        if self.lone_change is not None:
            return self.lone_change.shifts
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
        """The product with integer weights and biases."""
        (_, scale, values), (x,) = self.weights, self.operands
        averaged = values[0].size if self.is_pool else 1
        if not self.is_pool and not self.alone and self.outputs_axis:
            values = values.swapaxes(0, 1)
        scales = np.broadcast_to(scale.astype(np.float64).reshape(-1), self.channels)
        factors, of_bias, shifts = self.output_affine
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
    def output_affine(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Factors of the sums of products, factors of the bias, and shifts after both, float64[channels]
        each."""
        ones, alpha, beta = np.ones(self.channels), self.node.real("alpha", 1), self.node.real("beta", 1)
        if self.affine is None or self.alone:
            return ones * alpha, ones * beta, 0 * ones
        return self.affine.factors * alpha, self.affine.factors * beta, self.affine.shifts

    @cached_property
    def ratios(self) -> np.ndarray:
        """float64[n]: scales of the integers that are requantised, relative to the scale of the result."""
        scales = [operand.quantisation.scale for operand in self.operands]
        if self.is_product:
            return self.product.scales / self.result.scale
        if self.node.op == "Mul":
            return np.array([scales[0] * scales[1] / self.result.scale])
        if self.kind == PAIRED:
            factors = 1.0 if self.affine is None else self.affine.factors
            return np.unique(scales[0] * scales[1] / self.result.scale * factors)
        return np.array(scales) / self.result.scale
