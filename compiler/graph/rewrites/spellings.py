"""Joins operators that exporters write as several operators.

| rule | rewrite |
|---|---|
| `join_softmax` | `Div(e, ReduceSum(e))` with `e = Exp(Sub(x, ReduceMax(x)))` -> `Softmax(x)` |
| `reduction_to_pool` | spatial `ReduceMean` -> `(Global)AveragePool`; `ReduceMax` -> `MaxPool` |

The module `layer_normalisation` has the rules for layer normalisation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from vdla.compiler.graph.integer_forms.prerequisites import REDUCTIONS, SPACE, becomes_another
from vdla.compiler.graph.nodes import Attribute, Node, TensorType
from vdla.compiler.graph.rewrites.pieces import is_whole, squared, statistic
from vdla.compiler.graph.rules import Rewriter, RewriteRule, Rules

# Softmax


def _join_softmax(at: Rewriter, node: Node) -> None:
    """`Div(e, ReduceSum(e))` with `e = Exp(Sub(x, ReduceMax(x)))` is `Softmax(x)`.

    The maxima may be missing, and the division be a product with Reciprocal. Reductions may drop their axis,
    and a Reshape bring it back. The nodes in the middle must have no other readers.
    """
    (out, *_) = node.outputs
    for powers, sums in _quotients(at, node):
        total, power = statistic(at, sums, "ReduceSum"), at.maker(powers, "Exp")
        if total is None or power is None or total.x != powers:
            continue
        x = _without_maxima(at, power.inputs[0], total.axis)
        if at.types[x] != at.types[out] or at.types[x].dtype != "float32":
            at.missed(node, f"{x} is {at.types[x]}, and the quotient {at.types[out]}")
        elif not is_whole(at, out, x):
            at.missed(node, "another node reads a value in the middle of the softmax")
        else:
            at.replace(node, [Node("Softmax", (x,), node.outputs, {"axis": total.axis}, node.name)])
            return


def _quotients(at: Rewriter, node: Node) -> Iterator[tuple[str, str]]:
    """Yield dividend and divisor of the quotients that a node may be."""
    if node.op == "Div":
        yield from at.operands(node.result, "Div")
        return
    for powers, other in at.operands(node.result, "Mul"):
        inverse = at.maker(other, "Reciprocal")
        if inverse is not None:
            yield powers, inverse.inputs[0]


def _without_maxima(at: Rewriter, name: str, axis: int) -> str:
    """Return the value before its maxima along an axis were subtracted; the value itself if none were."""
    for x, greatest in at.operands(name, "Sub"):
        if statistic(at, greatest, "ReduceMax") == (x, axis):
            return x
    return name


# Means and maxima over space


class Reduced(NamedTuple):
    """The image that a reduction reads, and the spatial axes that it reduces."""

    image: str
    axes: tuple[int, ...]


def _reduction_to_pool(at: Rewriter, node: Node) -> None:
    """Means and maxima over space become pooling, which has integer forms; a Reshape removes the axes that
    are not kept.

    A Transpose of channels to the end is left out where the elements of the result keep their order. A mean
    that is subtracted from its operand, or a mean of squares, is part of a normalisation, and stays.
    """
    reduction = None if _normalises(at, node) else _reduced(at, node)
    if reduction is None:
        return
    (out,) = node.outputs
    shape = at.types[reduction.image].shape
    pooled = tuple(1 if axis in reduction.axes else size for axis, size in enumerate(shape))
    whole = reduction.axes == tuple(range(SPACE, len(shape)))
    op = ("GlobalAveragePool" if whole else "AveragePool") if node.op == "ReduceMean" else "MaxPool"
    attributes = {} if op == "GlobalAveragePool" else _window(op, shape, reduction.axes)
    if at.types[out].shape == pooled:
        at.replace(node, [Node(op, (reduction.image,), (out,), attributes, node.name)])
        return
    image = at.value(f"{out}_pooled", TensorType(pooled, at.types[out].dtype))
    at.replace(
        node,
        [
            Node(op, (reduction.image,), (image,), attributes, node.name),
            Node("Reshape", (image,), (out,), {"shape": at.types[out].shape}, node.name),
        ],
    )


def _normalises(at: Rewriter, node: Node) -> bool:
    """Whether a mean is part of a normalisation."""
    if node.op != "ReduceMean":
        return False
    (x,) = node.inputs
    centred = any(reader.op == "Sub" and x in reader.inputs for reader in at.readers(node.result))
    return centred or squared(at, x) is not None


def _reduced(at: Rewriter, node: Node) -> Reduced | None:
    """Return what a node reduces over space; None for other reductions."""
    shape = at.types[node.inputs[0]].shape
    axes = tuple(range(SPACE, len(shape))) if node.op == "GlobalMaxPool" else node.extents("axes")
    order = at.maker(node.inputs[0], "Transpose")
    if order is not None:
        perm = order.extents("perm")
        moved = tuple(sorted(perm[axis] for axis in axes))
        before = replace(node, inputs=order.inputs, attributes={"axes": moved})
        kept = [place for axis, place in enumerate(perm) if axis not in axes]
        if kept == sorted(kept) and becomes_another(at, before):
            return Reduced(before.inputs[0], moved)
    return Reduced(node.inputs[0], axes) if becomes_another(at, node) else None


def _window(op: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> Mapping[str, Attribute]:
    """Return the attributes of a pooling whose windows cover some spatial axes."""
    space = range(SPACE, len(shape))
    ones = (1,) * len(space)
    counted = {"count_include_pad": 0} if op == "AveragePool" else {}
    return {
        **counted,
        "ceil_mode": 0,
        "dilations": ones,
        "kernel_shape": tuple(shape[axis] if axis in axes else 1 for axis in space),
        "pads": (0,) * (2 * len(space)),
        "strides": ones,
    }


JOIN_SOFTMAX = Rules("join_softmax", (RewriteRule(("Div", "Mul"), _join_softmax),))
REDUCTIONS_TO_POOLS = Rules("reductions_to_pools", (RewriteRule(REDUCTIONS, _reduction_to_pool),))
