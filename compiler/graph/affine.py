"""Operators that apply a constant affine function to each channel of a tensor: a factor and a shift."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vdla.compiler.graph.nodes import Node, Values


@dataclass(frozen=True, slots=True, eq=False)
class ChannelAffine:
    """An affine function `x * factors + shifts` of the channels of a tensor.

    Attributes:
        x: name of the argument.
        factors, shifts: float64[channels].
    """

    x: str
    factors: np.ndarray
    shifts: np.ndarray

    @property
    def is_uniform(self) -> bool:
        """Whether all channels have the same factor and shift."""
        return all(bool((array == array[0]).all()) for array in (self.factors, self.shifts))

    def after(self, first: "ChannelAffine") -> "ChannelAffine":
        """Return the composition that applies `first`, then this function."""
        return ChannelAffine(first.x, first.factors * self.factors, first.shifts * self.factors + self.shifts)


def affine_of(graph: Values, node: Node, axis: int) -> ChannelAffine | None:
    """Return the affine function of a node with channels along `axis` of its result, or None."""
    result = graph.types[node.result]
    rank = len(result.shape)
    if node.op not in AFFINE or not -rank <= axis < rank or not result.dtype.startswith("float"):
        return None
    return AFFINE[node.op](graph, node, axis % rank)


def factor_of(graph: Values, node: Node) -> tuple[str, float] | None:
    """Return the operand and the factor of a multiplication by a positive scalar; None for other nodes."""
    affine = affine_of(graph, node, -1) if node.op in ("Div", "Mul") else None
    if affine is None or affine.shifts.any() or not (affine.factors == affine.factors[0]).all():
        return None
    factor = float(affine.factors[0])
    return (affine.x, factor) if 0 < factor < np.inf else None


class _ConstantOperand(NamedTuple):
    """The operands of a binary operator with a constant for each channel.

    Attributes:
        x: name of the variable operand.
        is_second: the variable operand is the second.
        numbers: float64[channels], the constant operand.
    """

    x: str
    is_second: bool
    numbers: np.ndarray


def _constant_operand(graph: Values, node: Node, axis: int) -> _ConstantOperand | None:
    """Return the operands of a binary operator; None unless one operand is a constant scalar or has a number
    for each channel."""
    constant = [name in graph.constants for name in node.inputs]
    if constant not in ([True, False], [False, True]):
        return None
    place, array = constant.index(False), graph.constants[node.inputs[constant.index(True)]]
    shape = graph.types[node.result].shape
    if graph.types[node.inputs[place]].shape != shape:
        return None
    wide = (1,) * (len(shape) - array.ndim) + array.shape
    if array.size > 1 and (wide[axis] != shape[axis] or array.size != shape[axis]):
        return None
    numbers = np.broadcast_to(array.astype(np.float64).reshape(-1), (shape[axis],))
    return _ConstantOperand(node.inputs[place], place == 1, numbers)


def _sum(graph: Values, node: Node, axis: int) -> ChannelAffine | None:
    operand = _constant_operand(graph, node, axis)
    return (
        None if operand is None else ChannelAffine(operand.x, np.ones_like(operand.numbers), operand.numbers)
    )


def _difference(graph: Values, node: Node, axis: int) -> ChannelAffine | None:
    operand = _constant_operand(graph, node, axis)
    if operand is None:
        return None
    sign = -1.0 if operand.is_second else 1.0
    return ChannelAffine(operand.x, np.full_like(operand.numbers, sign), -sign * operand.numbers)


def _product(graph: Values, node: Node, axis: int) -> ChannelAffine | None:
    operand = _constant_operand(graph, node, axis)
    return (
        None if operand is None else ChannelAffine(operand.x, operand.numbers, np.zeros_like(operand.numbers))
    )


def _quotient(graph: Values, node: Node, axis: int) -> ChannelAffine | None:
    operand = _constant_operand(graph, node, axis)
    if operand is None or operand.is_second or not operand.numbers.all():
        return None
    return ChannelAffine(operand.x, 1 / operand.numbers, np.zeros_like(operand.numbers))


def _normalisation(graph: Values, node: Node, axis: int) -> ChannelAffine | None:
    if axis != 1 or not all(name in graph.constants for name in node.inputs[1:]):
        return None
    scale, shift, mean, variance = (graph.constants[name].astype(np.float64) for name in node.inputs[1:])
    factors = scale / np.sqrt(variance + node.real("epsilon"))
    return ChannelAffine(node.inputs[0], factors, shift - mean * factors)


def _pointwise(graph: Values, node: Node, axis: int) -> ChannelAffine | None:
    """Return the affine function of a depthwise 1x1 convolution, or None."""
    if axis != 1 or not is_pointwise(graph, node):
        return None
    names = [name for name in node.inputs[1:] if name]
    if not all(name in graph.constants for name in names):
        return None
    weights, *bias = (graph.constants[name].astype(np.float64) for name in names)
    return ChannelAffine(node.inputs[0], weights.reshape(-1), bias[0] if bias else np.zeros(len(weights)))


def is_pointwise(graph: Values, node: Node) -> bool:
    """Whether a convolution is a depthwise 1x1 convolution with constant weights, stride 1 and no padding."""
    weights = graph.constants.get(node.inputs[1])
    return (
        weights is not None
        and set(weights.shape[1:]) == {1}
        and node.attributes["group"] == len(weights)
        and not any(node.extents("pads"))
        and set(node.extents("strides")) == {1}
    )


AFFINE: Mapping[str, Callable[[Values, Node, int], ChannelAffine | None]] = {
    "Add": _sum,
    "BatchNormalization": _normalisation,
    "Conv": _pointwise,
    "Div": _quotient,
    "Mul": _product,
    "Sub": _difference,
}
