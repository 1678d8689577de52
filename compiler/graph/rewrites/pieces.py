"""Queries for operators that exporters write as several operators: squares, means and other statistics along
an axis."""

from math import isclose
from typing import NamedTuple

from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.moves import RESHAPING

LOWEST = -3.4e38  # a bound below this has no effect


class Statistic(NamedTuple):
    """A reduction of a value along one axis, which is kept with extent 1.

    Attributes:
        x: the value that is reduced.
    """

    x: str
    axis: int


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
    """Return the reduction `op` along an axis that makes a value, with extent 1 there or expanded to the
    shape of x; None for other values."""
    wide = at.maker(name, "Expand")
    kept = name if wide is None else wide.inputs[0]
    inner = unshaped(at, kept)
    reduction = mean(at, inner) if op == "ReduceMean" else reduced(at, inner, op)
    if reduction is None:
        return None
    if wide is not None and at.types[name].shape != at.types[reduction.x].shape:
        return None
    return reduction if keeps_axis(at, kept, reduction) else None


def keeps_axis(at: DefUse, name: str, reduction: Statistic) -> bool:
    """Whether a value has the shape of the reduced value, with extent 1 along the axis."""
    shape, kept = at.types[reduction.x].shape, at.types[name].shape
    expected = (*shape[: reduction.axis], 1, *shape[reduction.axis + 1 :])
    return (1,) * (len(shape) - len(kept)) + kept == expected


def mean(at: DefUse, name: str) -> Statistic | None:
    """Return the mean along an axis that makes a value, with or without that axis: ReduceMean, or a sum
    divided by the number of elements."""
    for op in ("Div", "Mul"):
        for total, constant in at.operands(name, op):
            sums, number = reduced(at, unshaped(at, total), "ReduceSum"), at.number(constant)
            if sums is None or not number:
                continue
            count = at.types[sums.x].shape[sums.axis]
            if isclose(number if op == "Div" else 1 / number, count, rel_tol=1e-6):
                return sums
    return reduced(at, name, "ReduceMean")


def reduced(at: DefUse, name: str, op: str) -> Statistic | None:
    """Return the reduction `op` along an axis that makes a value. A ReduceMax may have a lower bound without
    effect."""
    if op == "ReduceMax":
        bounded = (x for x, bound in at.operands(name, "Max") if _is_lowest(at, bound))
        name = next(bounded, name)
    node = at.maker(name, op)
    if node is None or len(node.extents("axes")) != 1 or not at.types[node.inputs[0]].is_known:
        return None
    return Statistic(node.inputs[0], *node.extents("axes"))


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
