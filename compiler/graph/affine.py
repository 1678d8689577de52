"""Operators that change each channel of a tensor by a factor and a shift of its own, which are constants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vdla.compiler.graph.nodes import Node, Values


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """A change `x * factors + shifts` of each channel.

    Attributes:
        x: what is changed.
        factors, shifts: float64[channels].
    """

    x: str
    factors: np.ndarray
    shifts: np.ndarray

    @property
    def is_uniform(self) -> bool:
        """Whether all channels are changed alike."""
        return all(bool((array == array[0]).all()) for array in (self.factors, self.shifts))

    def after(self, first: "Affine") -> "Affine":
        """Return both changes in one, this one behind `first`."""
        return Affine(first.x, first.factors * self.factors, first.shifts * self.factors + self.shifts)


class Tail(NamedTuple):
    """Changes of channels behind an operator.

    Attributes:
        node: the product behind which they stand; the first change where they stand alone behind a
            DequantizeLinear.
        affine: all of them.
        alone: no product stands before them.
        last: channels are the last dimension, also of what has as many dimensions as an image.
    """

    node: Node
    affine: Affine
    alone: bool
    last: bool


def affine_of(graph: Values, node: Node, axis: int) -> Affine | None:
    """Return what a node changes along `axis` of its result; None where it is no such change."""
    result = graph.types[node.outputs[0]]
    rank = len(result.shape)
    if node.op not in AFFINE or not -rank <= axis < rank or not result.dtype.startswith("float"):
        return None
    return AFFINE[node.op](graph, node, axis % rank)


def factor_of(graph: Values, node: Node) -> tuple[str, float] | None:
    """Return what a node multiplies by one positive number, and the number; None where it does something
    else."""
    found = affine_of(graph, node, -1) if node.op in ("Div", "Mul") else None
    if found is None or found.shifts.any() or not (found.factors == found.factors[0]).all():
        return None
    factor = float(found.factors[0])
    return (found.x, factor) if 0 < factor < np.inf else None


def _by_channel(graph: Values, node: Node, axis: int) -> tuple[int, np.ndarray] | None:
    """Return the place of the operand that is no constant, and float64[channels] of the other one, if it has
    a number for each channel or one for all."""
    constant = [name in graph.constants for name in node.inputs]
    if constant not in ([True, False], [False, True]):
        return None
    place, array = constant.index(False), graph.constants[node.inputs[constant.index(True)]]
    shape = graph.types[node.outputs[0]].shape
    if graph.types[node.inputs[place]].shape != shape:
        return None
    wide = (1,) * (len(shape) - array.ndim) + array.shape
    if array.size > 1 and (wide[axis] != shape[axis] or array.size != shape[axis]):
        return None
    return place, np.broadcast_to(array.astype(np.float64).reshape(-1), (shape[axis],))


def _sum(graph: Values, node: Node, axis: int) -> Affine | None:
    found = _by_channel(graph, node, axis)
    return None if found is None else Affine(node.inputs[found[0]], np.ones(len(found[1])), found[1])


def _difference(graph: Values, node: Node, axis: int) -> Affine | None:
    found = _by_channel(graph, node, axis)
    if found is None:
        return None
    place, numbers = found
    sign = -1.0 if place else 1.0
    return Affine(node.inputs[place], np.full(len(numbers), sign), -sign * numbers)


def _product(graph: Values, node: Node, axis: int) -> Affine | None:
    found = _by_channel(graph, node, axis)
    return None if found is None else Affine(node.inputs[found[0]], found[1], np.zeros(len(found[1])))


def _quotient(graph: Values, node: Node, axis: int) -> Affine | None:
    found = _by_channel(graph, node, axis)
    if found is None or found[0] or not found[1].all():
        return None
    return Affine(node.inputs[0], 1 / found[1], np.zeros(len(found[1])))


def _normalisation(graph: Values, node: Node, axis: int) -> Affine | None:
    if axis != 1 or not all(name in graph.constants for name in node.inputs[1:]):
        return None
    scale, shift, mean, variance = (graph.constants[name].astype(np.float64) for name in node.inputs[1:])
    factors = scale / np.sqrt(variance + node.real("epsilon"))
    return Affine(node.inputs[0], factors, shift - mean * factors)


def _pointwise(graph: Values, node: Node, axis: int) -> Affine | None:
    """A depthwise convolution with one weight for each channel."""
    if axis != 1 or not is_pointwise(graph, node):
        return None
    names = [name for name in node.inputs[1:] if name]
    if not all(name in graph.constants for name in names):
        return None
    weights, *bias = (graph.constants[name].astype(np.float64) for name in names)
    return Affine(node.inputs[0], weights.reshape(-1), bias[0] if bias else np.zeros(len(weights)))


def is_pointwise(graph: Values, node: Node) -> bool:
    """Whether a convolution has one weight for each channel, which is a constant."""
    weights = graph.constants.get(node.inputs[1])
    return (
        weights is not None
        and set(weights.shape[1:]) == {1}
        and node.attributes["group"] == len(weights)
        and not any(node.extents("pads"))
        and set(node.extents("strides")) == {1}
    )


AFFINE: Mapping[str, Callable[[Values, Node, int], Affine | None]] = {
    "Add": _sum,
    "BatchNormalization": _normalisation,
    "Conv": _pointwise,
    "Div": _quotient,
    "Mul": _product,
    "Sub": _difference,
}
