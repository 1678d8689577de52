"""Joins the operators of a layer normalisation.

    d = Sub(x, ReduceMean(x)),  Div(d, Sqrt(Add(ReduceMean(Pow(d, 2)), epsilon)))

becomes `LayerNormalization(x)`, with the scale and the bias of a Mul and an Add after it. Other spellings: a
product with the reciprocal root, which may include the scale; sums divided by the number of elements; the
mean of squares minus the square of the mean; `x r + (bias - mean r)`. If the normalised axis is not the last,
a Transpose makes it the last, and another Transpose restores the order.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.nodes import Node, TensorType
from vdla.compiler.graph.rewrites.pieces import (
    Statistic,
    is_whole,
    keeps_axis,
    mean,
    squared,
    statistic,
    unshaped,
)
from vdla.compiler.graph.rules import Rewriter, RewriteRule, Rules


class Inverse(NamedTuple):
    """The reciprocal of a standard deviation.

    Attributes:
        of: the value and the axis whose deviation it is.
        epsilon: number that is added to the variance.
        scale: name of a constant that multiplies the reciprocal; "" if there is none.
    """

    of: Statistic
    epsilon: float
    scale: str = ""


class Normalisation(NamedTuple):
    """A layer normalisation.

    Attributes:
        out: its result.
        scale, bias: names of constants that broadcast along the normalised axis; "" if there are none.
    """

    out: str
    inverse: Inverse
    scale: str = ""
    bias: str = ""


def _join_normalisation(at: Rewriter, node: Node) -> None:
    """The quotient or product of a normalisation in pieces, with the scale and bias after it, is one
    operator."""
    for match in (*_quotients(at, node), *_sums(at, node)):
        x, axis = match.inverse.of
        type_ = at.types[x]
        constants = all(
            not name or _along(at, name, x, axis) is not None for name in (match.scale, match.bias)
        )
        if type_.dtype != "float32" or type_ != at.types[match.out] or not constants:
            at.missed(node, f"scale and bias are no constants along axis {axis} of {x}")
        elif not is_whole(at, match.out, x):
            at.missed(node, "another node reads a value in the middle of the normalisation")
        else:
            _join(at, _with_scale_and_bias(at, match))
            return


def _quotients(at: DefUse, node: Node) -> Iterator[Normalisation]:
    """Yield the normalisations whose centred elements a node divides by the deviation."""
    (out, *_) = node.outputs
    for centred, root in at.operands(out, "Div"):
        inverse = _of_deviation(at, root)
        if inverse is not None and _centred(at, centred) == inverse.of:
            yield Normalisation(out, inverse)
    for centred, factor in at.operands(out, "Mul"):
        inverse = _inverse(at, factor)
        if inverse is not None and _centred(at, centred) == inverse.of:
            yield Normalisation(out, inverse, inverse.scale)


def _sums(at: DefUse, node: Node) -> Iterator[Normalisation]:
    """Yield the normalisations that a node computes as x r + (bias - mean r), with the reciprocal deviation
    r."""
    (out, *_) = node.outputs
    for scaled, shift in at.operands(out, "Add"):
        for (x, r), (bias, subtrahend) in product(at.operands(scaled, "Mul"), at.operands(shift, "Sub")):
            inverse = _inverse(at, r)
            if inverse is None or inverse.of.x != x or bias not in at.constants:
                continue
            means = (name for name, factor in at.operands(subtrahend, "Mul") if factor == r)
            if any(statistic(at, name, "ReduceMean") == inverse.of for name in means):
                yield Normalisation(out, inverse, inverse.scale, bias)


def _centred(at: DefUse, name: str) -> Statistic | None:
    """Return the value and the axis whose mean is subtracted from that value; None for other values."""
    for x, subtrahend in at.operands(name, "Sub"):
        reduction = statistic(at, subtrahend, "ReduceMean")
        if reduction is not None and reduction.x == x:
            return reduction
    return None


def _inverse(at: DefUse, name: str) -> Inverse | None:
    """Return the reciprocal deviation that a value is, perhaps times a constant; None for other values."""
    plain = _plain_inverse(at, name)
    if plain is not None:
        return plain
    for inner, scale in at.operands(name, "Mul"):
        inverse = _plain_inverse(at, inner) if scale in at.constants else None
        if inverse is not None:
            return inverse._replace(scale=scale)
    return None


def _plain_inverse(at: DefUse, name: str) -> Inverse | None:
    """Return the reciprocal deviation that a value is: Reciprocal, Pow -0.5, or 1 divided by it."""
    reciprocal, power = at.maker(name, "Reciprocal"), at.maker(name, "Pow")
    if reciprocal is not None:
        return _of_deviation(at, reciprocal.inputs[0])
    if power is not None and at.number(power.inputs[1]) == -0.5:
        return _of_variance(at, power.inputs[0])
    for dividend, root in at.operands(name, "Div"):
        if at.number(dividend) == 1:
            return _of_deviation(at, root)
    return None


def _of_deviation(at: DefUse, name: str) -> Inverse | None:
    """Return the reciprocal of a value that is a standard deviation; None for other values."""
    root, power = at.maker(name, "Sqrt"), at.maker(name, "Pow")
    if root is not None:
        return _of_variance(at, root.inputs[0])
    if power is not None and at.number(power.inputs[1]) == 0.5:
        return _of_variance(at, power.inputs[0])
    return None


def _of_variance(at: DefUse, name: str) -> Inverse | None:
    """Return the reciprocal of the deviation for a value that is a variance plus epsilon; None for other
    values."""
    for variance, constant in at.operands(name, "Add"):
        epsilon = at.number(constant)
        of = _by_centred_squares(at, variance) or _by_squares(at, variance)
        if of is not None and epsilon is not None and epsilon >= 0:
            return Inverse(of, epsilon)
    return None


def _by_centred_squares(at: DefUse, name: str) -> Statistic | None:
    """Return the value and the axis of a variance that is the mean of squared centred elements."""
    squares = statistic(at, name, "ReduceMean")
    centred = None if squares is None else squared(at, squares.x)
    of = None if centred is None else _centred(at, centred)
    return of if of is not None and squares is not None and of.axis == squares.axis else None


def _by_squares(at: DefUse, name: str) -> Statistic | None:
    """Return the value and the axis of a variance that is the mean of squares minus the square of the mean,
    with or without a lower bound of 0."""
    inner = unshaped(at, name)
    inner = next((value for value, low in at.operands(inner, "Max") if at.number(low) == 0), inner)
    for squares, square in at.operands(inner, "Sub"):
        of_squares, root = mean(at, unshaped(at, squares)), squared(at, unshaped(at, square))
        of = None if root is None else mean(at, unshaped(at, root))
        if of_squares is None or of is None or squared(at, of_squares.x) != of.x:
            continue
        if of_squares.axis == of.axis and keeps_axis(at, name, of):
            return of
    return None


def _with_scale_and_bias(at: DefUse, match: Normalisation) -> Normalisation:
    """Return a normalisation with the scale and the bias of the Mul and Add after it."""
    x, axis = match.inverse.of
    for op in ("Mul", "Add"):
        reader = at.only_reader(match.out, op)
        if reader is None or match.bias or (op == "Mul" and match.scale):
            continue
        (out, *_) = reader.outputs
        constants = [name for value, name in at.operands(out, op) if value == match.out]
        if len(constants) != 1 or _along(at, constants[0], x, axis) is None or at.types[out] != at.types[x]:
            continue
        scale, bias = (constants[0], "") if op == "Mul" else (match.scale, constants[0])
        match = Normalisation(out, match.inverse, scale, bias)
    return match


def _along(at: DefUse, name: str, x: str, axis: int) -> np.ndarray | None:
    """Return a constant as float32[extent of the axis] of x; None if it differs along other axes."""
    array, shape = at.constants.get(name), at.types[x].shape
    if array is None or array.ndim > len(shape):
        return None
    wide = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
    if wide.size != wide.shape[axis] or wide.size not in (1, shape[axis]):
        return None
    return np.broadcast_to(wide.reshape(-1), (shape[axis],)).astype(np.float32)


def _join(at: Rewriter, match: Normalisation) -> None:
    """Replace the last node of a normalisation."""
    (x, axis), out, node = match.inverse.of, match.out, at.makers[match.out]
    shape = at.types[x].shape
    scale = _along(at, match.scale, x, axis) if match.scale else np.ones(shape[axis], np.float32)
    bias = _along(at, match.bias, x, axis) if match.bias else None
    assert scale is not None, f"{match.scale} is a scale"
    names = [at.constant(f"{out}_scale", scale)]
    names += [] if bias is None else [at.constant(f"{out}_bias", bias)]
    attributes = {"axis": len(shape) - 1, "epsilon": match.inverse.epsilon}
    whole = Node("LayerNormalization", (x, *names), (out,), attributes, node.name)
    if axis == len(shape) - 1:
        at.replace(node, [whole])
        return
    order = (*(place for place in range(len(shape)) if place != axis), axis)
    type_ = TensorType(tuple(shape[place] for place in order), "float32")
    last, normal = at.value(f"{out}_last", type_), at.value(f"{out}_normal", type_)
    back = tuple(order.index(place) for place in range(len(shape)))
    at.replace(
        node,
        [
            Node("Transpose", (x,), (last,), {"perm": order}, node.name),
            replace(whole, inputs=(last, *names), outputs=(normal,)),
            Node("Transpose", (normal,), (out,), {"perm": back}, node.name),
        ],
    )


JOIN_NORMALISATION = Rules("join_normalisation", (RewriteRule(("Add", "Div", "Mul"), _join_normalisation),))
