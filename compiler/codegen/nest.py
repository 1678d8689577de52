"""A loop nest around one intrinsic as numbers: the strides of its operands, and the iterations cut off."""

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from vdla.compiler.ir.affine import affine
from vdla.compiler.ir.nodes import Binary, Call, Const, Expr, For, If, IrError, LoopKind, Read, Stmt, Var
from vdla.compiler.ir.text import print_expr

TILE_RANK = 2  # the last dimensions of every buffer are those of an element


@dataclass(frozen=True, slots=True)
class AffineSum:
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

    def parted(self, loops: Container[str]) -> "tuple[AffineSum, AffineSum]":
        """Return it as the sum of two: what does not change with `loops`, and their terms."""
        inside = tuple(term for term in self.terms if term[0] in loops)
        return AffineSum(self.constant, tuple(term for term in self.terms if term not in inside)), AffineSum(
            0, inside
        )


def evaluated(affine_sum: AffineSum) -> Callable[[Mapping[str, int]], int]:
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


def affine_sum_of(expr: Expr) -> AffineSum:
    """Return an index expression as numbers.

    Raises:
        IrError: it divides, so that it does not move evenly.
    """
    found, terms = affine(expr), []
    for atom, factor in found.terms:
        if not isinstance(atom, Var):
            raise IrError(
                f"{print_expr(expr)} is not affine, so no instruction can follow it; do not fuse loops "
                "that an intrinsic is put into"
            )
        terms.append((atom.name, factor))
    return AffineSum(found.constant, tuple(terms))


def element_index(operand: Read, base: int = 0) -> AffineSum:
    """Return the index of an operand's element in its memory: the buffer's elements stand one after another
    from `base` on."""
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
    """Return the sums that must not be negative for a condition to hold.

    Raises:
        IrError: it is no conjunction of comparisons.
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
    """Loops and conditions around one call.

    Attributes:
        loops: extents by variable, from the outside in.
        conditions: sums that must not be negative.
    """

    loops: dict[str, int]
    conditions: tuple[AffineSum, ...]
    call: Call


def nest_of(stmt: Stmt) -> Nest | None:
    """Return `stmt` as a nest; None where it holds anything but loops and conditions around one call, or
    virtual threads."""
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


Ranges = dict[str, tuple[int, int]]  # by loop: first iteration, and one behind the last


def boxes(
    conditions: tuple[AffineSum, ...], loops: Mapping[str, int], values: Mapping[str, int]
) -> Iterator[tuple[Mapping[str, int], Ranges]]:
    """Cut iterations off that fail a condition; yield the boxes that are left, each with the values of all
    other variables.

    A condition on several loops at once is decided iteration by iteration of its outermost one.
    """
    ranges: Ranges = {name: (0, extent) for name, extent in loops.items()}
    for condition in conditions:
        fixed, free = condition.at(values, loops)
        if len(free) > 1:
            name = next(loop for loop in loops if any(loop == other for other, _ in free))
            inner = {loop: extent for loop, extent in loops.items() if loop != name}
            for value in range(loops[name]):
                yield from boxes(conditions, inner, {**values, name: value})
            return
        if not _cut(ranges, fixed, free):
            return
    yield values, ranges


def _cut(ranges: Ranges, fixed: int, free: list[tuple[str, int]]) -> bool:
    """Keep `fixed + factor * x >= 0`; return whether anything is left."""
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
    """Return the iterations for which all conditions hold, as a box; None where there is none.

    Raises:
        IrError: a condition joins two loops, so that they are no box.
    """
    ranges: Ranges = {name: (0, extent) for name, extent in loops.items()}
    for condition in conditions:
        fixed, free = condition.at(values, loops)
        if len(free) > 1:
            raise IrError(
                "a padding condition depends on two loops of a transfer at once; split neither of them"
            )
        if not _cut(ranges, fixed, free):
            return None
    return ranges
