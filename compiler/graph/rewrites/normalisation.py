"""Joins the operators of a softmax or of a normalisation of rows that exporters write in pieces.

    e = Exp(Sub(x, ReduceMax(x))),  Div(e, ReduceSum(e))

becomes `Softmax(x)`.

    d = Sub(x, ReduceMean(x)),  Div(d, Sqrt(Add(ReduceMean(Pow(d, 2)), epsilon)))

becomes `LayerNormalization(x)`, with the scale and the bias of a Mul and an Add after it. Other spellings: a
product with the reciprocal root, which may include the scale; sums divided by the number of elements; the
mean of squares minus the square of the mean; `x r + (bias - mean r)`. If the normalised axes are not the
last, a Transpose makes them the last, and another Transpose restores the order. Several normalised axes, as
of a group normalisation in pieces, become a single axis by a Reshape, and another Reshape restores them.

    Div(x, Sqrt(Add(ReduceMean(Pow(x, 2)), epsilon)))

becomes `RMSNormalization(x)`, with a scale before or after the division. Its other spellings are the same.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import isclose, prod
from typing import Any, NamedTuple

import numpy as np

from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.integer_forms.normalisation import OF_ROWS
from vdla.compiler.graph.nodes import RESHAPING, Node, TensorType
from vdla.compiler.graph.rules import Rewriter, RewriteRule, Rules

LOWEST = -3.4e38  # a bound below this has no effect


# Pieces: squares, means and other statistics along an axis


class Statistic(NamedTuple):
    """A reduction of a value along axes, which are kept with extent 1.

    Attributes:
        x: the value that is reduced.
        axes: numbers of the axes, ascending.
    """

    x: str
    axes: tuple[int, ...]


def squared(at: DefUse, name: str) -> str | None:
    """Return x for a value `Pow(x, 2)` or `Mul(x, x)`; None for other values."""
    node = at.maker(name, "Mul", "Pow")
    if node is None:
        return None
    if node.op == "Mul":
        return node.inputs[0] if node.inputs[0] == node.inputs[1] else None
    return node.inputs[0] if at.number(node.inputs[1]) == 2 else None


def unshaped(at: DefUse, name: str) -> str:
    """Return the value before all preceding changes of shape."""
    while (node := at.maker(name, *RESHAPING)) is not None:
        name = node.inputs[0]
    return name


def statistic(at: DefUse, name: str, op: str) -> Statistic | None:
    """Return the reduction `op` along axes that makes a value, with extent 1 there or expanded to the shape
    of x; None for other values."""
    wide = at.maker(name, "Expand")
    kept = name if wide is None else wide.inputs[0]
    inner = unshaped(at, kept)
    reduction = mean(at, inner) if op == "ReduceMean" else reduced(at, inner, op)
    if reduction is None:
        return None
    if wide is not None and at.types[name].shape != at.types[reduction.x].shape:
        return None
    return reduction if keeps_axes(at, kept, reduction) else None


def keeps_axes(at: DefUse, name: str, reduction: Statistic) -> bool:
    """Whether a value has the shape of the reduced value, with extent 1 along the axes."""
    shape, kept = at.types[reduction.x].shape, at.types[name].shape
    expected = tuple(1 if axis in reduction.axes else extent for axis, extent in enumerate(shape))
    return (1,) * (len(shape) - len(kept)) + kept == expected


def mean(at: DefUse, name: str) -> Statistic | None:
    """Return the mean along axes that makes a value, with or without these axes: ReduceMean, or a sum divided
    by the number of elements."""
    for op in ("Div", "Mul"):
        for total, constant in at.operands(name, op):
            sums, number = reduced(at, unshaped(at, total), "ReduceSum"), at.number(constant)
            if sums is None or not number:
                continue
            count = prod(at.types[sums.x].shape[axis] for axis in sums.axes)
            if isclose(number if op == "Div" else 1 / number, count, rel_tol=1e-6):
                return sums
    return reduced(at, name, "ReduceMean")


def reduced(at: DefUse, name: str, op: str) -> Statistic | None:
    """Return the reduction `op` along axes that makes a value. A ReduceMax may have a lower bound without
    effect."""
    if op == "ReduceMax":
        bounded = (x for x, bound in at.operands(name, "Max") if _is_lowest(at, bound))
        name = next(bounded, name)
    node = at.maker(name, op)
    if node is None or not node.extents("axes") or not at.types[node.inputs[0]].is_known:
        return None
    return Statistic(node.inputs[0], tuple(sorted(node.extents("axes"))))


def _is_lowest(at: DefUse, name: str) -> bool:
    number = at.number(name)
    return number is not None and number < LOWEST


def is_whole(at: DefUse, out: str, x: str) -> bool:
    """Whether only the nodes between `x` and `out` read the values between `x` and `out`."""
    inside, waiting = {out}, [out]
    while waiting:
        node = at.maker(waiting.pop())
        fresh = {name for name in (node.inputs if node else ()) if name} - {x} - inside
        waiting += [name for name in fresh if name not in at.constants]
        inside |= fresh
    middle = {name for name in inside if name in at.makers} - {out}
    nodes = {at.makers[name].outputs for name in (*middle, out)}
    return not middle & {*at.graph.outputs} and all(
        reader.outputs in nodes for name in middle for reader in at.readers(name)
    )


# Softmax


def _join_softmax(at: Rewriter, node: Node) -> None:
    """`Div(e, ReduceSum(e))` with `e = Exp(Sub(x, ReduceMax(x)))` is `Softmax(x)`.

    The maxima may be missing, and the division be a product with Reciprocal. Reductions may drop their axis,
    and a Reshape bring it back. The nodes in the middle must have no other readers.
    """
    (out, *_) = node.outputs
    for powers, sums in _softmax_quotients(at, node):
        total, power = statistic(at, sums, "ReduceSum"), at.maker(powers, "Exp")
        if total is None or power is None or total.x != powers or len(total.axes) != 1:
            continue
        x = _without_maxima(at, power.inputs[0], total.axes)
        if at.types[x] != at.types[out] or at.types[x].dtype != "float32":
            at.missed(node, f"{x} is {at.types[x]}, and the quotient {at.types[out]}")
        elif not is_whole(at, out, x):
            at.missed(node, "another node reads a value in the middle of the softmax")
        else:
            at.replace(node, [Node("Softmax", (x,), node.outputs, {"axis": total.axes[0]}, node.name)])
            return


def _softmax_quotients(at: Rewriter, node: Node) -> Iterator[tuple[str, str]]:
    """Yield dividend and divisor of the quotients that a node may be."""
    if node.op == "Div":
        yield from at.operands(node.result, "Div")
        return
    for powers, factor in at.operands(node.result, "Mul"):
        inverse = at.maker(factor, "Reciprocal")
        if inverse is not None:
            yield powers, inverse.inputs[0]


def _without_maxima(at: Rewriter, name: str, axes: tuple[int, ...]) -> str:
    """Return the value before its maxima along axes were subtracted; the value itself if none were."""
    for x, greatest in at.operands(name, "Sub"):
        if statistic(at, greatest, "ReduceMax") == (x, axes):
            return x
    return name


# Layer normalisation, and normalisation by the root mean square


class Inverse(NamedTuple):
    """The reciprocal of a standard deviation, or of a root mean square.

    Attributes:
        of: the value and the axes whose deviation, or root mean square, it is.
        epsilon: number that is added to the variance, or to the mean of squares.
        scale: name of a constant that multiplies the reciprocal; "" if there is none.
        centred: it is that of a deviation.
    """

    of: Statistic
    epsilon: float
    scale: str = ""
    centred: bool = True


class Normalisation(NamedTuple):
    """A layer normalisation, or a normalisation by the root mean square, which has no bias.

    Attributes:
        out: its result.
        scale, bias: names of constants that broadcast along the normalised axes; "" if there are none.
    """

    out: str
    inverse: Inverse
    scale: str = ""
    bias: str = ""


def _join_normalisation(at: Rewriter, node: Node) -> None:
    """The quotient or product of a normalisation in pieces, with the scale and bias after it, is one
    operator."""
    for match in (*_quotients(at, node), *_sums(at, node)):
        x, axes = match.inverse.of
        type_ = at.types[x]
        constants = all(
            not name or _along(at, name, x, axes) is not None for name in (match.scale, match.bias)
        )
        if type_.dtype != "float32" or type_ != at.types[match.out] or not constants:
            at.missed(node, f"scale and bias are no constants along axes {', '.join(map(str, axes))} of {x}")
        elif not is_whole(at, match.out, x):
            at.missed(node, "another node reads a value in the middle of the normalisation")
        else:
            _join(at, _with_scale_and_bias(at, match))
            return


def _quotients(at: DefUse, node: Node) -> Iterator[Normalisation]:
    """Yield the normalisations whose elements a node divides by the deviation or the root mean square."""
    (out, *_) = node.outputs
    quotients = ((value, _of_deviation(at, root)) for value, root in at.operands(out, "Div"))
    products = ((value, _inverse(at, factor)) for value, factor in at.operands(out, "Mul"))
    for dividend, inverse in (*quotients, *products):
        if inverse is None:
            continue
        if _is_divided(at, dividend, inverse):
            yield Normalisation(out, inverse, inverse.scale)
        elif not inverse.scale:
            for value, scale in at.operands(dividend, "Mul"):
                if scale in at.constants and _is_divided(at, value, inverse):
                    yield Normalisation(out, inverse, scale)


def _is_divided(at: DefUse, name: str, inverse: Inverse) -> bool:
    """Whether a normalisation divides a value: the centred elements, or x itself."""
    return _centred(at, name) == inverse.of if inverse.centred else name == inverse.of.x


def _sums(at: DefUse, node: Node) -> Iterator[Normalisation]:
    """Yield the normalisations that a node computes as x r + (bias - mean r), with the reciprocal deviation
    r."""
    (out, *_) = node.outputs
    for scaled, shift in at.operands(out, "Add"):
        for (x, r), (bias, subtrahend) in product(at.operands(scaled, "Mul"), at.operands(shift, "Sub")):
            inverse = _inverse(at, r)
            if inverse is None or not inverse.centred or inverse.of.x != x or bias not in at.constants:
                continue
            means = (name for name, factor in at.operands(subtrahend, "Mul") if factor == r)
            if any(statistic(at, name, "ReduceMean") == inverse.of for name in means):
                yield Normalisation(out, inverse, inverse.scale, bias)


def _centred(at: DefUse, name: str) -> Statistic | None:
    """Return the value and the axes whose mean is subtracted from that value; None for other values."""
    for x, subtrahend in at.operands(name, "Sub"):
        reduction = statistic(at, subtrahend, "ReduceMean")
        if reduction is not None and reduction.x == x:
            return reduction
    return None


def _inverse(at: DefUse, name: str) -> Inverse | None:
    """Return the reciprocal that a value is, perhaps times a constant; None for other values."""
    plain = _plain_inverse(at, name)
    if plain is not None:
        return plain
    for inner, scale in at.operands(name, "Mul"):
        inverse = _plain_inverse(at, inner) if scale in at.constants else None
        if inverse is not None:
            return inverse._replace(scale=scale)
    return None


def _plain_inverse(at: DefUse, name: str) -> Inverse | None:
    """Return the reciprocal that a value is: Reciprocal, Pow -0.5, or 1 divided by a root."""
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
    """Return the reciprocal of a standard deviation or root mean square; None for other values."""
    root, power = at.maker(name, "Sqrt"), at.maker(name, "Pow")
    if root is not None:
        return _of_variance(at, root.inputs[0])
    if power is not None and at.number(power.inputs[1]) == 0.5:
        return _of_variance(at, power.inputs[0])
    return None


def _of_variance(at: DefUse, name: str) -> Inverse | None:
    """Return the reciprocal of the root of a variance, or of a mean of squares, plus epsilon; None for other
    values."""
    for variance, constant in at.operands(name, "Add"):
        epsilon = at.number(constant)
        if epsilon is None or not epsilon >= 0:
            continue
        of = _by_centred_squares(at, variance) or _by_squares(at, variance)
        if of is not None:
            return Inverse(of, epsilon)
        of = _by_plain_squares(at, variance)
        if of is not None:
            return Inverse(of, epsilon, centred=False)
    return None


def _by_plain_squares(at: DefUse, name: str) -> Statistic | None:
    """Return the value and the axes of a mean of squares."""
    squares = statistic(at, name, "ReduceMean")
    x = None if squares is None else squared(at, squares.x)
    return None if squares is None or x is None else Statistic(x, squares.axes)


def _by_centred_squares(at: DefUse, name: str) -> Statistic | None:
    """Return the value and the axes of a variance that is the mean of squared centred elements."""
    squares = statistic(at, name, "ReduceMean")
    centred = None if squares is None else squared(at, squares.x)
    of = None if centred is None else _centred(at, centred)
    return of if of is not None and squares is not None and of.axes == squares.axes else None


def _by_squares(at: DefUse, name: str) -> Statistic | None:
    """Return the value and the axes of a variance that is the mean of squares minus the square of the mean,
    with or without a lower bound of 0."""
    inner = unshaped(at, name)
    inner = next((value for value, low in at.operands(inner, "Max") if at.number(low) == 0), inner)
    for squares, square in at.operands(inner, "Sub"):
        of_squares, root = mean(at, unshaped(at, squares)), squared(at, unshaped(at, square))
        of = None if root is None else mean(at, unshaped(at, root))
        if of_squares is None or of is None or squared(at, of_squares.x) != of.x:
            continue
        if of_squares.axes == of.axes and keeps_axes(at, name, of):
            return of
    return None


def _with_scale_and_bias(at: DefUse, match: Normalisation) -> Normalisation:
    """Return a normalisation with the scale of the Mul after it, and a layer normalisation with the bias of
    the Add after that."""
    x, axes = match.inverse.of
    for op in ("Mul", "Add") if match.inverse.centred else ("Mul",):
        reader = at.only_reader(match.out, op)
        if reader is None or match.bias or (op == "Mul" and match.scale):
            continue
        (out, *_) = reader.outputs
        constants = [name for value, name in at.operands(out, op) if value == match.out]
        if len(constants) != 1 or _along(at, constants[0], x, axes) is None or at.types[out] != at.types[x]:
            continue
        scale, bias = (constants[0], "") if op == "Mul" else (match.scale, constants[0])
        match = Normalisation(out, match.inverse, scale, bias)
    return match


def _along(at: DefUse, name: str, x: str, axes: tuple[int, ...]) -> np.ndarray | None:
    """Return a constant as float32[product of the extents of the axes] of x; None if it differs along other
    axes."""
    array, shape = at.constants.get(name), at.types[x].shape
    if array is None or array.ndim > len(shape):
        return None
    wide = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
    fits = (shape[axis] if axis in axes else 1 for axis in range(len(shape)))
    if any(extent not in (1, most) for extent, most in zip(wide.shape, fits, strict=True)):
        return None
    extents = [shape[axis] for axis in axes]
    return (
        np.broadcast_to(wide.reshape([wide.shape[axis] for axis in axes]), extents)
        .reshape(-1)
        .astype(np.float32)
    )


def _join(at: Rewriter, match: Normalisation) -> None:
    """Replace the last node of a normalisation."""
    (x, axes), out, node = match.inverse.of, match.out, at.makers[match.out]
    extents = [at.types[x].shape[axis] for axis in axes]
    scale = _along(at, match.scale, x, axes) if match.scale else np.ones(prod(extents), np.float32)
    bias = _along(at, match.bias, x, axes) if match.bias else None
    assert scale is not None, f"{match.scale} is a scale"
    names = [at.constant(f"{out}_scale", scale)]
    names += [] if bias is None else [at.constant(f"{out}_bias", bias)]
    attributes = {"axis": len(at.types[x].shape) - len(axes), "epsilon": match.inverse.epsilon}
    op = "LayerNormalization" if match.inverse.centred else "RMSNormalization"
    steps = _around(at.types[x].shape, axes, _Step(op, attributes, (), tuple(names)))
    nodes, value = [], x
    for step in steps:
        last = step is steps[-1]
        result = out if last else at.value(f"{out}_{step.op}", TensorType(step.shape, "float32"))
        nodes.append(Node(step.op, (value, *step.constants), (result,), step.attributes, node.name))
        value = result
    at.replace(node, nodes)


class _Step(NamedTuple):
    """A node that replaces pieces of a normalisation.

    Attributes:
        shape: of its result.
        constants: names of its inputs after the first.
    """

    op: str
    attributes: dict[str, Any]
    shape: tuple[int, ...]
    constants: tuple[str, ...] = ()


def _around(shape: tuple[int, ...], axes: tuple[int, ...], normalisation: _Step) -> list[_Step]:
    """Return a normalisation of the last axis, between the moves that make `axes` the last axis of a value
    and restore the `shape` of the value. Moves without effect are left out."""
    order = (*(axis for axis in range(len(shape)) if axis not in axes), *axes)
    moved, rest = tuple(shape[axis] for axis in order), len(shape) - len(axes)
    flat = (*moved[:rest], prod(moved[rest:]))
    normalisation = normalisation._replace(shape=flat)
    if len(axes) == 1:
        steps = [normalisation]
    else:
        steps = [
            _Step("Reshape", {"shape": flat}, flat),
            normalisation,
            _Step("Reshape", {"shape": moved}, moved),
        ]
    if order == tuple(range(len(shape))):
        return steps
    back = tuple(order.index(axis) for axis in range(len(shape)))
    return [_Step("Transpose", {"perm": order}, moved), *steps, _Step("Transpose", {"perm": back}, shape)]


# Rows that nothing reads


def _slice_before_rows(at: Rewriter, node: Node) -> None:
    """A Slice of whole rows of a softmax or layer normalisation, and its only reader, is taken before it."""
    of_rows = at.maker(node.inputs[0], *OF_ROWS)
    if of_rows is None or not at.is_read_once(node.inputs[0]) or len(of_rows.outputs) > 1:
        return
    rank = len(at.types[node.inputs[0]].shape)
    cut = {axis % rank for axis in node.extents("axes")}
    if of_rows.integer("axis") % rank != rank - 1 or rank - 1 in cut:
        return
    x, *others = of_rows.inputs
    rows = at.value(f"{node.result}_rows", replace(at.types[x], shape=at.types[node.result].shape))
    taken = replace(node, inputs=(x, *node.inputs[1:]), outputs=(rows,))
    at.replace(node, [taken, replace(of_rows, inputs=(rows, *others), outputs=node.outputs)])


SLICE_BEFORE_ROWS = Rules("slice_before_rows", (RewriteRule(("Slice",), _slice_before_rows),))
JOIN_PIECES = Rules(
    "join_pieces",
    (
        RewriteRule(("Add", "Div", "Mul"), _join_normalisation),
        RewriteRule(("Div", "Mul"), _join_softmax),
    ),
)
