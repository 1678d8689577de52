"""Tensorization: replacing a loop nest by an intrinsic, after a proof that both mean the same.

An intrinsic is declared by the loop program that it means.

Source: TVM, OSDI 2018, section 4.3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from vdla.compiler.ir.affine import affine, simplify
from vdla.compiler.ir.nodes import (
    IMMEDIATE,
    Binary,
    Buffer,
    Call,
    Const,
    Expr,
    For,
    If,
    Intrinsic,
    IrError,
    Read,
    Stmt,
    Var,
    Write,
    is_tile,
)
from vdla.compiler.ir.rewrite import substitute, variables, walk
from vdla.compiler.ir.text import print_expr, print_stmt

Loops = list[tuple[str, int]]  # variables and extents, from the outside in
COMMUTATIVE = ("+", "*", "min", "max")


class MatchError(IrError):
    """A loop nest does not mean the same as an intrinsic."""


def replaced(stmt: Stmt, intrinsics: Sequence[Intrinsic]) -> Stmt:
    """Return the call of the first intrinsic that does what `stmt` does, with the conditions around it that
    do not concern the tile.

    Raises:
        MatchError: all do something else; the message shows where they differ.
    """
    conditions, nest = _without_conditions(stmt)
    loops, target = _nest(nest)
    target = simplify(target)
    reasons = []
    for intrinsic in intrinsics:
        try:
            call: Stmt = Call(intrinsic, _match(intrinsic, loops, target))
        except MatchError as error:
            reasons.append((intrinsic, error))
            continue
        for condition in reversed(conditions):
            call = If(condition, call)
        return call
    tried = "\n".join(f"{intrinsic.name}: {error}" for intrinsic, error in reasons)
    raise MatchError(f"no intrinsic means these loops\n{print_stmt(simplify(stmt))}{tried}")


def _without_conditions(stmt: Stmt) -> tuple[list[Expr], Stmt]:
    """Return the conditions in a nest that do not depend on its own loops, and the nest without them."""
    loops, body, conditions = [], stmt, []
    while isinstance(body, (For, If)):
        if isinstance(body, For):
            loops.append(body)
        elif variables(body.condition) & {loop.var.name for loop in loops}:
            raise MatchError(
                f"the condition {print_expr(body.condition)} cuts the tile: its loops must "
                f"divide\n{print_stmt(stmt)}"
            )
        else:
            conditions.append(body.condition)
        body = body.body
    for loop in reversed(loops):
        body = For(loop.var, loop.extent, body, loop.kind)
    return conditions, body


def _match(intrinsic: Intrinsic, found: Loops, target: Stmt) -> tuple[Expr, ...]:
    """Prove that `target` in the loops `found` is the intrinsic's meaning, up to names and affine
    re-indexing; return its operands.

    An operand is the first element of a tile, a constant or a condition, in the order of the intrinsic's
    parameters.

    Raises:
        MatchError: it is not.
    """
    wanted, pattern = _nest(intrinsic.meaning.body)
    if not isinstance(target, Write) or not isinstance(pattern, Write):
        raise MatchError("the loops hold more than one statement")
    if sorted(extent for _, extent in wanted) != sorted(extent for _, extent in found):
        raise MatchError(f"its loops have extents {_extents(wanted)}, these {_extents(found)}")
    problems = []
    for order in permutations(found):
        if [extent for _, extent in order] == [extent for _, extent in wanted]:
            try:
                return _Unifier(
                    intrinsic, {name: own for (name, _), (own, _) in zip(order, wanted, strict=True)}
                ).operands(pattern, target)
            except MatchError as error:
                problems.append(error)
    raise problems[0]


def _nest(stmt: Stmt) -> tuple[Loops, Stmt]:
    """Return the loops with more than one iteration, and their body."""
    loops = []
    while isinstance(stmt, For):
        if stmt.extent > 1:
            loops.append((stmt.var.name, stmt.extent))
            stmt = stmt.body
        else:
            stmt = substitute(stmt.body, {stmt.var.name: Const(0)})
    return loops, stmt


def _extents(loops: Sequence[tuple[str, int]]) -> str:
    return "x".join(str(extent) for _, extent in loops) or "none"


class _Unifier:
    """The bindings of an intrinsic's parameters found so far.

    Attributes:
        loops: what the intrinsic calls the loops of the target.
    """

    def __init__(self, intrinsic: Intrinsic, loops: Mapping[str, str]) -> None:
        self.params = {buffer.name: buffer for buffer in intrinsic.meaning.params}
        self.loops = loops
        self.found: dict[str, Expr] = {}

    def operands(self, pattern: Write, target: Write) -> tuple[Expr, ...]:
        names: dict[str, Expr] = {own: Var(name) for name, own in self.loops.items()}
        indices = tuple(substitute(index, names) for index in pattern.indices)
        self.element(Read(pattern.buffer, indices), Read(target.buffer, target.indices))
        self.expr(substitute(pattern.value, names), target.value)
        return tuple(self.found[name] for name in self.params)

    def expr(self, pattern: Expr, target: Expr) -> None:
        match pattern:
            case Read(buffer) if not is_tile(buffer):
                self.outside(buffer, pattern, target)
            case Read():
                self.element(pattern, target)
            case Binary(op, left, right) if (
                op in COMMUTATIVE and isinstance(target, Binary) and target.op == op
            ):
                self.either_order((left, right), (target.left, target.right))
            case Const() if pattern != target:
                raise self.differ(pattern, target)
            case _:
                self.children(pattern, target)

    def either_order(self, pattern: tuple[Expr, Expr], target: tuple[Expr, Expr]) -> None:
        before = dict(self.found)
        try:
            self.expr(pattern[0], target[0])
            self.expr(pattern[1], target[1])
        except MatchError:
            self.found = before
            self.expr(pattern[0], target[1])
            self.expr(pattern[1], target[0])

    def children(self, pattern: Expr, target: Expr) -> None:
        same = type(pattern) is type(target) and pattern.dtype == target.dtype
        if not same:
            raise self.differ(pattern, target)
        if isinstance(pattern, Binary) and isinstance(target, Binary) and pattern.op != target.op:
            raise self.differ(pattern, target)
        for one, other in zip(pattern.below(), target.below(), strict=True):
            self.expr(one, other)

    def outside(self, buffer: Buffer, pattern: Expr, target: Expr) -> None:
        """Bind a constant, or a condition that does not depend on the tile."""
        if (
            target.dtype != buffer.dtype
            or (buffer.name == IMMEDIATE and not isinstance(target, Const))
            or self.inner(target)
        ):
            raise self.differ(pattern, target)
        self.bind(buffer.name, target)

    def element(self, pattern: Read, target: Expr) -> None:
        """Bind a tile: the last subscripts are those of the pattern, the others do not depend on the tile's
        loops."""
        if not isinstance(target, Read):
            raise self.differ(pattern, target)
        rank, buffer = len(pattern.indices), target.buffer
        leading, own = target.indices[:-rank], target.indices[-rank:]
        wanted = self.params[pattern.buffer.name]
        if buffer.dtype != wanted.dtype or buffer.shape[-rank:] != wanted.shape:
            raise MatchError(
                f"{print_expr(target)} lies in {buffer.dtype}{list(buffer.shape)}, "
                f"but {wanted.name} is {wanted.dtype}{list(wanted.shape)}"
            )
        if buffer.scope is not wanted.scope:
            raise MatchError(
                f"{buffer.name} lies in {buffer.scope.value}, but {wanted.name} must lie in "
                f"{wanted.scope.value}"
            )
        same = own == pattern.indices or [affine(one) for one in own] == [
            affine(one) for one in pattern.indices
        ]
        if not same or any(self.inner(index) for index in leading):
            raise self.differ(pattern, target)
        self.bind(wanted.name, Read(buffer, (*leading, *(Const(0) for _ in range(rank)))))

    def bind(self, name: str, value: Expr) -> None:
        if self.found.setdefault(name, value) != value:
            raise MatchError(
                f"{name} would be {print_expr(self.found[name])} and {print_expr(value)} at once"
            )

    def inner(self, expr: Expr) -> bool:
        """Whether an expression depends on the tile's loops."""
        return any(isinstance(part, Var) and part.name in self.loops for part in walk(expr))

    def differ(self, pattern: Expr, target: Expr) -> MatchError:
        return MatchError(_Difference(pattern, target, self.loops))


@dataclass(frozen=True, slots=True)
class _Difference:
    """Where a meaning and a target differ; formatted only when read, because most intrinsics do not match."""

    pattern: Expr
    target: Expr
    loops: Mapping[str, str]

    def __str__(self) -> str:
        names = {name: Var(own) for name, own in self.loops.items()}
        one, other = (print_expr(substitute(expr, names)) for expr in (self.pattern, self.target))
        return f"it has {one} where these loops have {other}"
