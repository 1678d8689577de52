"""Tensorization: replacing a loop nest by an intrinsic, after a proof that both are equivalent.

An intrinsic is declared by a loop program that defines its semantics.

Source: TVM, OSDI 2018, section 4.3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from vdla.compiler.ir.affine import affine, simplify
from vdla.compiler.ir.calls import IMMEDIATE, Call, Intrinsic, is_tile
from vdla.compiler.ir.nodes import Binary, Buffer, Const, Expr, For, If, IrError, Read, Stmt, Var, Write
from vdla.compiler.ir.rewrite import substitute, variables, walk
from vdla.compiler.ir.text import print_expr, print_stmt

Loops = list[tuple[str, int]]  # variables and extents, from the outside in
COMMUTATIVE = ("+", "*", "min", "max")


class MatchError(IrError):
    """A loop nest is not equivalent to an intrinsic."""


def tensorized_call(stmt: Stmt, intrinsics: Sequence[Intrinsic]) -> Stmt:
    """Return a call of the first intrinsic that is equivalent to `stmt`, under the conditions of `stmt` that
    do not depend on the tile's loops.

    Raises:
        MatchError: no intrinsic matches; the message shows the first difference for each.
    """
    loops, conditions, target = _nest(stmt)
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


def _match(intrinsic: Intrinsic, loops: Loops, target: Stmt) -> tuple[Expr, ...]:
    """Prove that `target` inside `loops` is equivalent to the intrinsic, up to renaming and affine
    re-indexing; return the operands.

    An operand is the first element of a tile, a constant or a condition, in the order of the intrinsic's
    parameters.

    Raises:
        MatchError: they are not equivalent.
    """
    wanted, conditions, pattern = _nest(intrinsic.meaning.body)
    if not isinstance(target, Write) or not isinstance(pattern, Write) or conditions:
        raise MatchError("the loops hold more than one statement")
    if sorted(extent for _, extent in wanted) != sorted(extent for _, extent in loops):
        raise MatchError(f"its loops have extents {_extents(wanted)}, these {_extents(loops)}")
    problems = []
    for order in permutations(loops):
        if [extent for _, extent in order] == [extent for _, extent in wanted]:
            try:
                pairs = zip(order, wanted, strict=True)
                names = {name: declared for (name, _), (declared, _) in pairs}
                return _Unifier(intrinsic, names).operands(pattern, target)
            except MatchError as error:
                problems.append(error)
    raise problems[0]


def _nest(stmt: Stmt) -> tuple[Loops, list[Expr], Stmt]:
    """Return the loops with two or more iterations, the conditions between them, and the statement inside.

    Raises:
        MatchError: a condition depends on a loop around it.
    """
    loops: Loops = []
    conditions, body = [], stmt
    while isinstance(body, (For, If)):
        inner = body.body
        if isinstance(body, If):
            if variables(body.condition) & {name for name, _ in loops}:
                raise MatchError(
                    f"the condition {print_expr(body.condition)} cuts the tile: its loops must "
                    f"divide\n{print_stmt(stmt)}"
                )
            conditions.append(body.condition)
        elif body.extent > 1:
            loops.append((body.var.name, body.extent))
        else:
            inner = substitute(inner, {body.var.name: Const(0)})
        body = inner
    return loops, conditions, body


def _extents(loops: Sequence[tuple[str, int]]) -> str:
    return "x".join(str(extent) for _, extent in loops) or "none"


class _Unifier:
    """Unification of an intrinsic's declared program with a target.

    Attributes:
        params: parameters of the intrinsic, by name.
        loops: loop names of the intrinsic, by loop name of the target.
        bindings: operands bound so far, by parameter.
    """

    def __init__(self, intrinsic: Intrinsic, loops: Mapping[str, str]) -> None:
        self.params = {buffer.name: buffer for buffer in intrinsic.meaning.params}
        self.loops = loops
        self.bindings: dict[str, Expr] = {}

    def operands(self, pattern: Write, target: Write) -> tuple[Expr, ...]:
        """Return the operands of the call that computes `target`, in the order of the parameters.

        Raises:
            MatchError: the target differs from the pattern.
        """
        names: dict[str, Expr] = {declared: Var(name) for name, declared in self.loops.items()}
        indices = tuple(substitute(index, names) for index in pattern.indices)
        self.element(Read(pattern.buffer, indices), Read(target.buffer, target.indices))
        self.expr(substitute(pattern.value, names), target.value)
        return tuple(self.bindings[name] for name in self.params)

    def expr(self, pattern: Expr, target: Expr) -> None:
        """Match an expression, and bind the parameters that it contains."""
        match pattern:
            case Read(buffer) if not is_tile(buffer):
                self.invariant(buffer, pattern, target)
            case Read():
                self.element(pattern, target)
            case Binary(op, left, right) if (
                op in COMMUTATIVE and isinstance(target, Binary) and target.op == op
            ):
                self.commutative((left, right), (target.left, target.right))
            case Const() if pattern != target:
                raise self.differ(pattern, target)
            case _:
                self.children(pattern, target)

    def commutative(self, pattern: tuple[Expr, Expr], target: tuple[Expr, Expr]) -> None:
        """Match both operands of a commutative operation, in either order."""
        before = dict(self.bindings)
        try:
            self.expr(pattern[0], target[0])
            self.expr(pattern[1], target[1])
        except MatchError:
            self.bindings = before
            self.expr(pattern[0], target[1])
            self.expr(pattern[1], target[0])

    def children(self, pattern: Expr, target: Expr) -> None:
        """Match the same kind of expression, operand by operand."""
        same = type(pattern) is type(target) and pattern.dtype == target.dtype
        if not same:
            raise self.differ(pattern, target)
        if isinstance(pattern, Binary) and isinstance(target, Binary) and pattern.op != target.op:
            raise self.differ(pattern, target)
        for pattern_child, target_child in zip(pattern.below(), target.below(), strict=True):
            self.expr(pattern_child, target_child)

    def invariant(self, buffer: Buffer, pattern: Expr, target: Expr) -> None:
        """Bind a constant, or a condition that does not depend on the tile."""
        if (
            target.dtype != buffer.dtype
            or (buffer.name == IMMEDIATE and not isinstance(target, Const))
            or self.depends_on_tile(target)
        ):
            raise self.differ(pattern, target)
        self.bind(buffer.name, target)

    def element(self, pattern: Read, target: Expr) -> None:
        """Bind a tile: the trailing subscripts equal the pattern's, and the leading subscripts do not depend
        on the tile's loops."""
        if not isinstance(target, Read):
            raise self.differ(pattern, target)
        rank, buffer = len(pattern.indices), target.buffer
        leading, trailing = target.indices[:-rank], target.indices[-rank:]
        wanted = self.params[pattern.buffer.name]
        if buffer.dtype != wanted.dtype or buffer.shape[-rank:] != wanted.shape:
            raise MatchError(
                f"{print_expr(target)} is in {buffer.dtype}{list(buffer.shape)}, "
                f"but {wanted.name} is {wanted.dtype}{list(wanted.shape)}"
            )
        if buffer.scope is not wanted.scope:
            raise MatchError(
                f"{buffer.name} is in {buffer.scope.value}, but {wanted.name} must be in {wanted.scope.value}"
            )
        same = trailing == pattern.indices or [affine(index) for index in trailing] == [
            affine(index) for index in pattern.indices
        ]
        if not same or any(self.depends_on_tile(index) for index in leading):
            raise self.differ(pattern, target)
        self.bind(wanted.name, Read(buffer, (*leading, *(Const(0) for _ in range(rank)))))

    def bind(self, name: str, value: Expr) -> None:
        """Bind a parameter to a value; its other occurrences must have the same value."""
        if self.bindings.setdefault(name, value) != value:
            raise MatchError(
                f"{name} would be {print_expr(self.bindings[name])} and {print_expr(value)} at once"
            )

    def depends_on_tile(self, expr: Expr) -> bool:
        """Whether an expression depends on the tile's loops."""
        return any(isinstance(part, Var) and part.name in self.loops for part in walk(expr))

    def differ(self, pattern: Expr, target: Expr) -> MatchError:
        """Return the error that pattern and target differ."""
        return MatchError(_Difference(pattern, target, self.loops))


@dataclass(frozen=True, slots=True)
class _Difference:
    """A difference of pattern and target. It is formatted only when read: most intrinsics do not match."""

    pattern: Expr
    target: Expr
    loops: Mapping[str, str]

    def __str__(self) -> str:
        names = {name: Var(declared) for name, declared in self.loops.items()}
        pattern, target = (print_expr(substitute(expr, names)) for expr in (self.pattern, self.target))
        return f"it has {pattern} where these loops have {target}"
