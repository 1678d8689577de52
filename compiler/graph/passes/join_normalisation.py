"""Layer normalisation that is written out in pieces becomes one operator.

    d = Sub(x, ReduceMean(x)),  Div(d, Sqrt(Add(ReduceMean(Pow(d, 2)), epsilon)))

becomes `LayerNormalization(x)`, with what a Mul and an Add behind it do along the normalised dimension.
Other spellings: a product with the reciprocal root, which may have the scale in it; sums divided by their
number; the mean of squares less the square of the mean; `x r + (bias - mean r)`. Where another dimension
than the last is normalised, one Transpose makes it the last, and one brings it back.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.passes.written_out import Pieces, Statistic
from vdla.compiler.graph.rewrite import Rewriting


class Inverse(NamedTuple):
    """The reciprocal of a standard deviation.

    Attributes:
        of: what it is taken of.
        epsilon: is added to the variance.
        scale: a constant that multiplies it; "" where there is none.
    """

    of: Statistic
    epsilon: float
    scale: str = ""


class Normalisation(NamedTuple):
    """A layer normalisation whose result is `out`.

    Attributes:
        scale, bias: constants that broadcast along the normalised dimension; "" where there is none.
    """

    out: str
    inverse: Inverse
    scale: str = ""
    bias: str = ""


@dataclass(frozen=True, slots=True)
class JoinNormalisation:
    """The pass; it joins pieces of float32 whose middle nothing else reads."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with whole normalisations."""
        pieces, made = Pieces(graph), Rewriting(graph)
        found = {one.out: one for node in graph.nodes if (one := _found(pieces, node)) is not None}
        for node in graph.nodes:
            if node.outputs[0] in found:
                _join(made, node, found[node.outputs[0]])
            else:
                made.nodes.append(node)
        return DeadCode().run(made.finished())


def _found(pieces: Pieces, node: Node) -> Normalisation | None:
    """Return the longest normalisation that starts with the quotient or product that a node is."""
    candidates = (*_quotients(pieces, node), *_sums(pieces, node))
    for one in candidates:
        x, axis = one.inverse.of
        type_ = pieces.graph.types[x]
        fits = type_.dtype == "float32" and type_ == pieces.graph.types[one.out]
        constants = all(not name or _along(pieces.graph, name, x, axis) is not None for name in one[2:])
        if fits and constants and pieces.is_whole(one.out, x):
            return _followed(pieces, one)
    return None


def _quotients(pieces: Pieces, node: Node) -> Iterator[Normalisation]:
    """Yield the normalisation whose centred elements a node divides by deviations."""
    (out, *_) = node.outputs
    for centred, root in pieces.operands(out, "Div"):
        inverse = _deviation(pieces, root)
        if inverse is not None and _centred(pieces, centred) == inverse.of:
            yield Normalisation(out, inverse)
    for centred, factor in pieces.operands(out, "Mul"):
        inverse = _inverse(pieces, factor)
        if inverse is not None and _centred(pieces, centred) == inverse.of:
            yield Normalisation(out, inverse, inverse.scale)


def _sums(pieces: Pieces, node: Node) -> Iterator[Normalisation]:
    """Yield the normalisation that a node ends as x r + (bias - mean r)."""
    (out, *_) = node.outputs
    for product, shift in pieces.operands(out, "Add"):
        for (x, factor), (bias, less) in (
            (one, other) for one in pieces.operands(product, "Mul") for other in pieces.operands(shift, "Sub")
        ):
            inverse = _inverse(pieces, factor)
            if inverse is None or inverse.of.x != x or bias not in pieces.graph.constants:
                continue
            means = (
                pieces.statistic(mean, "ReduceMean")
                for mean, r in pieces.operands(less, "Mul")
                if r == factor
            )
            if inverse.of in means:
                yield Normalisation(out, inverse, inverse.scale, bias)


def _centred(pieces: Pieces, name: str) -> Statistic | None:
    """Return what a value is less its mean."""
    for x, mean in pieces.operands(name, "Sub"):
        found = pieces.statistic(mean, "ReduceMean")
        if found is not None and found.x == x:
            return found
    return None


def _inverse(pieces: Pieces, name: str) -> Inverse | None:
    """Return the reciprocal of a deviation that a value is, perhaps times a constant."""
    plain = _plain_inverse(pieces, name)
    if plain is not None:
        return plain
    for inner, scale in pieces.operands(name, "Mul"):
        found = _plain_inverse(pieces, inner) if scale in pieces.graph.constants else None
        if found is not None:
            return found._replace(scale=scale)
    return None


def _plain_inverse(pieces: Pieces, name: str) -> Inverse | None:
    """Return the reciprocal of a deviation that a value is."""
    reciprocal, power = pieces.made(name, "Reciprocal"), pieces.made(name, "Pow")
    if reciprocal is not None:
        return _deviation(pieces, reciprocal.inputs[0])
    if power is not None and pieces.number(power.inputs[1]) == -0.5:
        return _variance(pieces, power.inputs[0])
    for one, root in pieces.operands(name, "Div"):
        if pieces.number(one) == 1:
            return _deviation(pieces, root)
    return None


def _deviation(pieces: Pieces, name: str) -> Inverse | None:
    """Return the reciprocal of the standard deviation that a value is."""
    root, power = pieces.made(name, "Sqrt"), pieces.made(name, "Pow")
    if root is not None:
        return _variance(pieces, root.inputs[0])
    half = power is not None and pieces.number(power.inputs[1]) == 0.5
    return _variance(pieces, power.inputs[0]) if power is not None and half else None


def _variance(pieces: Pieces, name: str) -> Inverse | None:
    """Return the reciprocal of the deviation whose variance, with epsilon, a value is."""
    for variance, constant in pieces.operands(name, "Add"):
        epsilon = pieces.number(constant)
        found = _of_centred(pieces, variance) or _of_squares(pieces, variance)
        if found is not None and epsilon is not None and epsilon >= 0:
            return Inverse(found, epsilon)
    return None


def _of_centred(pieces: Pieces, name: str) -> Statistic | None:
    """Return what a value is the variance of, as the mean of the squares of what is centred."""
    mean = pieces.statistic(name, "ReduceMean")
    centred = None if mean is None else pieces.squared(mean.x)
    found = None if centred is None else _centred(pieces, centred)
    return found if found is not None and mean is not None and found.axis == mean.axis else None


def _of_squares(pieces: Pieces, name: str) -> Statistic | None:
    """Return what a value is the variance of, as the mean of squares less the square of the mean, with or
    without a bound of 0."""
    inner = pieces.unshaped(name)
    inner = next((one for one, low in pieces.operands(inner, "Max") if pieces.number(low) == 0), inner)
    for squares, square in pieces.operands(inner, "Sub"):
        of_squares, root = pieces.mean(pieces.unshaped(squares)), pieces.squared(pieces.unshaped(square))
        mean = None if root is None else pieces.mean(pieces.unshaped(root))
        if of_squares is None or mean is None or pieces.squared(of_squares.x) != mean.x:
            continue
        if of_squares.axis == mean.axis and pieces.keeps(name, mean):
            return mean
    return None


def _followed(pieces: Pieces, one: Normalisation) -> Normalisation:
    """Return a normalisation with the scale and the bias behind it."""
    graph, (x, axis) = pieces.graph, one.inverse.of
    for op in ("Mul", "Add"):
        readers = pieces.readers[one.out]
        if one.bias or (op == "Mul" and one.scale) or one.out in graph.outputs or len(readers) != 1:
            continue
        (out, *_) = readers[0].outputs
        constants = [name for value, name in pieces.operands(out, op) if value == one.out]
        if (
            len(constants) != 1
            or _along(graph, constants[0], x, axis) is None
            or graph.types[out] != graph.types[x]
        ):
            continue
        scale, bias = (constants[0], "") if op == "Mul" else (one.scale, constants[0])
        one = Normalisation(out, one.inverse, scale, bias)
    return one


def _along(graph: Graph, name: str, x: str, axis: int) -> np.ndarray | None:
    """Return a constant as numbers along a dimension of x; None where it differs along others."""
    array, shape = graph.constants.get(name), graph.types[x].shape
    if array is None or array.ndim > len(shape):
        return None
    wide = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
    if wide.size != wide.shape[axis] or wide.size not in (1, shape[axis]):
        return None
    return np.broadcast_to(wide.reshape(-1), (shape[axis],)).astype(np.float32)


def _join(made: Rewriting, node: Node, one: Normalisation) -> None:
    """Append the normalisation that ends with a node."""
    graph, (x, axis), (out, *_) = made.graph, one.inverse.of, node.outputs
    shape = graph.types[x].shape
    scale = np.ones(shape[axis], np.float32) if not one.scale else _along(graph, one.scale, x, axis)
    bias = _along(graph, one.bias, x, axis) if one.bias else None
    assert scale is not None, f"{one.scale} is a scale"
    names = [made.constant(f"{out}_scale", scale)]
    names += [] if bias is None else [made.constant(f"{out}_bias", bias)]
    attributes = {"axis": len(shape) - 1, "epsilon": one.inverse.epsilon}
    whole = Node("LayerNormalization", (x, *names), (out,), attributes, node.name)
    if axis == len(shape) - 1:
        made.nodes.append(whole)
        return
    order = (*(place for place in range(len(shape)) if place != axis), axis)
    type_ = TensorType(tuple(shape[place] for place in order), "float32")
    last, normal = made.value(f"{out}_last", type_), made.value(f"{out}_normal", type_)
    made.add("Transpose", (x,), last, {"perm": order}, node.name)
    made.nodes.append(replace(whole, inputs=(last, *names), outputs=(normal,)))
    back = tuple(order.index(place) for place in range(len(shape)))
    made.add("Transpose", (normal,), out, {"perm": back}, node.name)
