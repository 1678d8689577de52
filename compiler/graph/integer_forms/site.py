"""A float operator with its conversions in a quantised graph: the inputs of its rules and of its integer
form."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from vdla.compiler.graph.affine import ChannelAffine
from vdla.compiler.graph.conversions import Conversions, QuantisedTensor
from vdla.compiler.graph.integers import GREATEST, IntegerProduct, Quantisation, integer_product
from vdla.compiler.graph.nodes import Attribute, Graph, Node
from vdla.compiler.graph.quantise_weights import WEIGHTED, outputs_axis

CHANGE = "Affine"
PAIRED = "MatMul of activations"
POOLS = ("AveragePool", "GlobalAveragePool")


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


class RealProduct(NamedTuple):
    """Real sums of products with integer weights: `sum(weights * integers) * scales + bias`.

    Attributes:
        weights: int16[channels, terms].
        scales: float64[channels], of weights and operand together, greater than 0.
        bias: float64[channels].
    """

    weights: np.ndarray
    scales: np.ndarray
    bias: np.ndarray


def _whole(kernel: tuple[int, ...]) -> Mapping[str, Attribute]:
    """Return the attributes of a pooling whose only window covers all of space."""
    unit_steps, no_pads = (1,) * len(kernel), (0,) * (2 * len(kernel))
    counts = {"ceil_mode": 0, "count_include_pad": 1}
    return {**counts, "dilations": unit_steps, "kernel_shape": kernel, "pads": no_pads, "strides": unit_steps}


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
        node: the operator; `Affine` in place of affine changes of channels without a product.
        quantise: the QuantizeLinear of one of its results, directly or after Relu and Clip; None if there is
            none.
        affine: the affine change of each channel of a product's result, which the requantisation absorbs; or
            the change that `Affine` is.

    The properties of the integer form are valid only after the preceding rules pass.
    """

    conversions: Conversions
    node: Node
    quantise: Node | None = None
    affine: ChannelAffine | None = None

    @property
    def kind(self) -> str:
        """The operator's name; "MatMul of activations" for a MatMul without constant operands."""
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
        return self.node.inputs[:1] if self.is_product else tuple(name for name in self.node.inputs if name)

    @property
    def is_product(self) -> bool:
        """Whether the operator sums products with weights."""
        return self.kind in REAL_PRODUCTS

    @property
    def weights_name(self) -> str:
        """Name of the real weights of a product."""
        return self.node.inputs[1]

    @property
    def bias_name(self) -> str:
        """Name of the real bias of a product; "" if it has none."""
        return self.node.inputs[2] if len(self.node.inputs) > 2 else ""

    @property
    def outputs_axis(self) -> int:
        """The axis of output channels in the weights."""
        return outputs_axis(self.node)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a value."""
        return self.graph.types[name].shape

    @property
    def window(self) -> Node:
        """The operator with the attributes of a window; a global pooling gets a window over the whole
        image."""
        if self.node.op == "GlobalAveragePool":
            return replace(self.node, attributes=_whole(self.shape(self.node.inputs[0])[2:]))
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
        """The constant weights of a product."""
        values, scale, zero = self.dequantised(self.weights_name)
        axis = self.conversions.makers[self.weights_name].integer("axis") % max(values.ndim, 1)
        along = [-1 if place == axis else 1 for place in range(values.ndim)] if zero.size > 1 else ()
        return Weights(values, scale, values.astype(np.int16) - zero.reshape(along))

    @property
    def channels(self) -> int:
        """Output channels of a product with constant weights."""
        channels: int = self.weights.values.shape[self.outputs_axis]
        return channels

    @property
    def bias(self) -> np.ndarray:
        """float64[channels]: the real bias of a product with constant weights; 0 if it has none."""
        if not self.bias_name:
            return np.zeros(self.channels)
        if self.bias_name in self.graph.constants:
            real = self.graph.constants[self.bias_name].astype(np.float64)
        else:
            values, scale, zero = self.dequantised(self.bias_name)
            real = (values.astype(np.float64) - zero.reshape(-1)) * scale.astype(np.float64).reshape(-1)
        return np.broadcast_to(real.reshape(-1), self.channels)

    @cached_property
    def product(self) -> IntegerProduct:
        """The product with integer weights and biases, and the affine change of its channels."""
        weights, scales, bias = REAL_PRODUCTS[self.kind](self)
        alpha, beta = self.node.real("alpha", 1), self.node.real("beta", 1)
        slopes, shifts = np.ones(len(scales)), np.zeros(len(scales))
        if self.affine is not None and self.kind != CHANGE:
            slopes, shifts = self.affine.factors, self.affine.shifts
        factors = slopes * alpha
        return integer_product(
            weights * np.sign(factors).astype(np.int16)[:, None],
            scales * np.where(factors, np.abs(factors), 1.0),
            bias * (slopes * beta) + shifts,
        )

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


def _product_with_weights(site: Site) -> RealProduct:
    values = site.weights.centred.swapaxes(0, 1) if site.outputs_axis else site.weights.centred
    scales = np.broadcast_to(site.weights.scale.astype(np.float64).reshape(-1), site.channels)
    return RealProduct(
        values.reshape(site.channels, -1), site.operands[0].quantisation.scale * scales, site.bias
    )


def _average(site: Site) -> RealProduct:
    """Return an average as a product with weights of 1."""
    channels, terms = site.shape(site.node.inputs[0])[1], prod(site.window.extents("kernel_shape"))
    scales = np.full(channels, site.operands[0].quantisation.scale / terms)
    return RealProduct(np.ones((channels, terms), np.int16), scales, np.zeros(channels))


def _affine_change(site: Site) -> RealProduct:
    """Return an affine change with the signs of its factors as weights, times 127 if there are shifts, so
    that the scale is fine enough for them."""
    assert site.affine is not None, f"{site.node} is no affine change"
    factors, shifts, scale = site.affine.factors, site.affine.shifts, site.operands[0].quantisation.scale
    step = GREATEST if shifts.any() else 1
    without = site.result.scale / scale  # of channels with a factor of 0
    scales = scale * (np.where(factors, np.abs(factors), without) / step)
    return RealProduct(np.sign(factors).astype(np.int16)[:, None] * np.int16(step), scales, shifts)


REAL_PRODUCTS: Mapping[str, Callable[[Site], RealProduct]] = {
    **dict.fromkeys(WEIGHTED, _product_with_weights),
    **dict.fromkeys(POOLS, _average),
    CHANGE: _affine_change,
}
"""The kinds of operators that sum products with weights."""
