"""Numeric form of a loop nest around an intrinsic: strides of operands, and conditions as affine sums."""

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from operator import floordiv, mod
from typing import NamedTuple

from vdla.compiler.ir.affine import affine
from vdla.compiler.ir.calls import Call
from vdla.compiler.ir.nodes import Binary, Const, Expr, For, If, IrError, LoopKind, Read, Stmt, Var
from vdla.compiler.ir.text import print_expr

TILE_RANK = 2  # the last dimensions of every buffer are the dimensions of an element


class AffineSum(NamedTuple):
    """`constant + sum(coefficient * variable)`."""

    constant: int
    terms: tuple[tuple[str, int], ...]

    def at(self, values: Mapping[str, int], loops: Container[str]) -> tuple[int, list[tuple[str, int]]]:
        """Return the part fixed by `values`, and the terms of `loops`."""
        fixed, free = self.constant, []
        for name, factor in self.terms:
            if name in loops:
                free.append((name, factor))
            else:
                fixed += factor * values[name]
        return fixed, free

    def split_by(self, loops: Container[str]) -> "tuple[AffineSum, AffineSum]":
        """Split the sum into the part that is invariant in `loops`, and the terms of `loops`."""
        inside = tuple(term for term in self.terms if term[0] in loops)
        return AffineSum(self.constant, tuple(term for term in self.terms if term not in inside)), AffineSum(
            0, inside
        )


def evaluator(affine_sum: AffineSum) -> Callable[[Mapping[str, int]], int]:
    """Return `affine_sum` as a function of its variables' values."""
    constant, terms = affine_sum.constant, affine_sum.terms
    if not terms:
        return lambda values: constant

    def value(values: Mapping[str, int]) -> int:
        total = constant
        for name, factor in terms:
            total += factor * values[name]
        return total

    return value


def value_of(expr: Expr) -> Callable[[Mapping[str, int]], int]:
    """Return an affine sum of variables, or its quotient or remainder by a constant, as a function of the
    variables' values; raises the errors of `affine_sum_of`."""
    match expr:
        case Binary("//" | "%" as op, left, Const(divisor)):
            dividend = evaluator(affine_sum_of(left))
            divide = floordiv if op == "//" else mod
            return lambda values: int(divide(dividend(values), divisor))
    return evaluator(affine_sum_of(expr))


def affine_sum_of(expr: Expr) -> AffineSum:
    """Return an index expression as an affine sum of loop variables.

    Raises:
        IrError: the expression is not affine.
    """
    form, terms = affine(expr), []
    for atom, factor in form.terms:
        if not isinstance(atom, Var):
            raise IrError(
                f"{print_expr(expr)} is not affine, so no instruction can follow it; do not fuse loops "
                "around an intrinsic"
            )
        terms.append((atom.name, factor))
    return AffineSum(form.constant, tuple(terms))


def element_index(operand: Read, base: int = 0) -> AffineSum:
    """Return the index of an operand's element in its memory. The buffer is contiguous and begins at
    `base`."""
    shape = operand.buffer.shape[:-TILE_RANK]
    constant = base
    terms: dict[str, int] = {}
    for axis, index in enumerate(operand.indices[:-TILE_RANK]):
        affine_sum, size = affine_sum_of(index), prod(shape[axis + 1 :])
        constant += affine_sum.constant * size
        for name, factor in affine_sum.terms:
            terms[name] = terms.get(name, 0) + factor * size
    return AffineSum(constant, tuple((name, factor) for name, factor in terms.items() if factor))


def conditions_of(expr: Expr) -> list[AffineSum]:
    """Return the condition as a list of sums: it holds if no sum is negative.

    Raises:
        IrError: the condition is not a conjunction of comparisons.
    """
    match expr:
        case Binary("and", left, right):
            return conditions_of(left) + conditions_of(right)
        case Binary("<", left, right):
            return [affine_sum_of(right - left - 1)]
        case Binary("<=", left, right):
            return [affine_sum_of(right - left)]
        case Const(value):
            return [] if value else [AffineSum(-1, ())]
    raise IrError(
        f"{print_expr(expr)} cannot be turned into bounds of a transfer; use comparisons joined by and"
    )


@dataclass(frozen=True)
class Nest:
    """Loops and conditions around a single call.

    Attributes:
        loops: extents by variable, outermost first.
        conditions: sums; an iteration is executed if no sum is negative.
    """

    loops: dict[str, int]
    conditions: tuple[AffineSum, ...]
    call: Call


def nest_of(stmt: Stmt) -> Nest | None:
    """Return `stmt` as a nest; None if it contains virtual threads, or anything except loops and conditions
    around a single call."""
    loops: dict[str, int] = {}
    conditions: list[AffineSum] = []
    while not isinstance(stmt, Call):
        if isinstance(stmt, For) and stmt.kind is not LoopKind.VTHREAD:
            loops[stmt.var.name] = stmt.extent
        elif isinstance(stmt, If):
            conditions += conditions_of(stmt.condition)
        else:
            return None
        stmt = stmt.body
    return Nest(loops, tuple(conditions), stmt)


Ranges = dict[str, tuple[int, int]]  # half-open range of iterations, by loop


def condition_boxes(
    conditions: tuple[AffineSum, ...], loops: Mapping[str, int], values: Mapping[str, int]
) -> Iterator[tuple[Mapping[str, int], Ranges]]:
    """Partition the iterations for which all conditions hold into boxes. Yield each box with the values of
    all other variables.

    A condition on several loops is evaluated for each iteration of the outermost of them.
    """
    ranges: Ranges = {name: (0, extent) for name, extent in loops.items()}
    for condition in conditions:
        fixed, free = condition.at(values, loops)
        if len(free) > 1:
            name = next(loop for loop in loops if any(loop == free_loop for free_loop, _ in free))
            inner = {loop: extent for loop, extent in loops.items() if loop != name}
            for value in range(loops[name]):
                yield from condition_boxes(conditions, inner, {**values, name: value})
            return
        if not _restrict(ranges, fixed, free):
            return
    yield values, ranges


def _restrict(ranges: Ranges, fixed: int, free: list[tuple[str, int]]) -> bool:
    """Restrict the range of x to `fixed + factor * x >= 0`; return whether the range is not empty."""
    if not free:
        return fixed >= 0
    ((name, factor),) = free
    low, high = ranges[name]
    if factor > 0:
        low = max(low, -(fixed // factor))
    else:
        high = min(high, fixed // -factor + 1)
    ranges[name] = low, high
    return low < high


def inside_box(
    conditions: tuple[AffineSum, ...], loops: Mapping[str, int], values: Mapping[str, int]
) -> Ranges | None:
    """Return the iterations for which all conditions hold, as a box; None if there are none.

    Raises:
        IrError: a condition depends on two loops, so the iterations are not a box.
    """
    if any(len(condition.at(values, loops)[1]) > 1 for condition in conditions):
        raise IrError("a padding condition depends on two loops of a transfer at once; split neither of them")
    return next((ranges for _, ranges in condition_boxes(conditions, loops, values)), None)
