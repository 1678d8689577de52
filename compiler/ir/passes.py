"""Passes over loop programs: sums that overwrite accumulators, in-place updates, and virtual threads.

Each takes a loop program and returns an equivalent loop program.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add

from vdla.compiler.ir.affine import simplify
from vdla.compiler.ir.calls import Call, Intrinsic
from vdla.compiler.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Func,
    If,
    LoopKind,
    Read,
    Scope,
    Stmt,
    Var,
    Write,
    block,
)
from vdla.compiler.ir.rewrite import Node, rewrite, rewrite_statements, substitute, variables, walk_statements


@dataclass(frozen=True, slots=True)
class StartSums:
    """The first product of a sum overwrites the accumulators, which are then not reset.

    `for y: reset(C[y])` followed by `for k: for y: gemm(C[y], A[y, k], B[k])` becomes
    `for k: for y: gemm_from(C[y], A[y, k], B[k], k < 1)`, which resets its accumulators if the condition
    holds. The hardware does both in a single step.

    Attributes:
        products: pairs of an intrinsic that adds a product to accumulators, and an intrinsic equivalent to
            `reset` and that product if the condition in its last operand holds, else to the product.
        reset: intrinsic that sets accumulators to 0.
    """

    products: tuple[tuple[Intrinsic, Intrinsic], ...]
    reset: Intrinsic

    def run(self, func: Func) -> Func:
        """Return `func` with every reset merged into the product that follows it, where possible."""
        return Func(func.name, func.params, rewrite_statements(func.body, self._joined))

    def _joined(self, part: Stmt) -> Stmt | None:
        """Return a block with every reset merged into the statement that follows it, where possible; None if
        no reset can be merged."""
        if not isinstance(part, Block):
            return None
        statements: list[Stmt] = []
        for statement in part.statements:
            changed = self._started(statements[-1], statement) if statements else None
            if changed is not None:
                statements.pop()
            statements.append(statement if changed is None else changed)
        return block(*statements) if len(statements) < len(part.statements) else None

    def _started(self, before: Stmt, stmt: Stmt) -> Stmt | None:
        """Return `stmt` with products that start the sums that `before` resets, or None."""
        extents, conditions, reset = _nested_loops(before)
        if not isinstance(reset, Call) or reset.intrinsic != self.reset:
            return None
        return self._with_start(stmt, extents, conditions, reset)

    def _with_start(
        self, stmt: Stmt, reset_loops: dict[str, int], conditions: list[Expr], reset: Call
    ) -> Stmt | None:
        """Return `stmt` with products that start their sums, which makes `reset` redundant; None if products
        and resets cover different accumulators."""
        name = _tile(reset).buffer.name
        calls = [part for part in walk_statements(stmt) if isinstance(part, Call) and _touches(part, name)]
        started = self._started_form(calls[0].intrinsic) if len(calls) == 1 else None
        if started is None:
            return None
        product, around = calls[0], _enclosing(stmt, calls[0])
        loops = {part.var.name: part.extent for part in around if isinstance(part, For)}
        target = _tile(product)
        if (
            [part.condition for part in around if isinstance(part, If)] != conditions
            or target != _tile(reset)
            or not _covers(loops, reset_loops, target)
        ):
            return None
        starting = Call(started, (*product.operands, _first_step(loops, target)))
        return rewrite_statements(stmt, lambda part: starting if part is product else None)

    def _started_form(self, intrinsic: Intrinsic) -> Intrinsic | None:
        return next((started for product, started in self.products if product == intrinsic), None)


def _tile(call: Call) -> Read:
    """Return the tile that a call writes."""
    target = call.operands[0]
    assert isinstance(target, Read), "the verifier lets only tiles be changed"
    return target


def _first_step(loops: dict[str, int], target: Read) -> Expr:
    """Return the condition of the first step of each sum: all loops that `target` does not depend on are at
    0."""
    steps = [Var(name) for name, extent in loops.items() if extent > 1 and name not in variables(target)]
    position: Expr = reduce(add, steps) if steps else Const(0)
    return position < 1


def _nested_loops(stmt: Stmt) -> tuple[dict[str, int], list[Expr], Stmt]:
    """Return the extents of nested loops, by name, the conditions between them, and the statement inside
    them."""
    extents, conditions = {}, []
    while isinstance(stmt, For | If):
        if isinstance(stmt, For):
            extents[stmt.var.name] = stmt.extent
        else:
            conditions.append(stmt.condition)
        stmt = stmt.body
    return extents, conditions, stmt


def _touches(call: Call, name: str) -> bool:
    return any(isinstance(operand, Read) and operand.buffer.name == name for operand in call.operands)


def _covers(loops: dict[str, int], reset_loops: dict[str, int], target: Read) -> bool:
    """Whether product and reset iterate over the same accumulators, by loops of equal names and extents."""
    used = {name: extent for name, extent in loops.items() if name in variables(target)}
    return used == reset_loops


def _enclosing(stmt: Stmt, call: Call) -> list[Stmt]:
    """Return the statements that enclose `call`, outermost first."""
    for part in stmt.below():
        if isinstance(part, Stmt) and any(inner is call for inner in walk_statements(part)):
            return [stmt, *_enclosing(part, call)]
    return []


@dataclass(frozen=True, slots=True)
class Aliasing:
    """Replacement of `buffer` by the part of `home` that begins at `corner`."""

    buffer: Buffer
    home: Buffer
    corner: tuple[Expr, ...]

    def moved(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the indices in `home` of an element of `buffer`."""
        return tuple(simplify(index + offset) for index, offset in zip(indices, self.corner, strict=True))


@dataclass(frozen=True, slots=True)
class InPlace:
    """In-place updates: an element-wise result overwrites an operand that nothing else reads.

    `Y[i] = f(X[i + corner])`, where X is on chip and has no other reader, becomes
    `X[i + corner] = f(X[i + corner])`.

    Attributes:
        scope: memory whose buffers are replaced.
    """

    scope: Scope = Scope.ACCUMULATOR

    def run(self, func: Func) -> Func:
        """Return `func` with as few buffers in `scope` as in-place updates allow."""
        while (aliasing := _find_aliasing(func.body, self.scope)) is not None:
            func = Func(func.name, func.params, rewrite(func.body, partial(_aliased, aliasing=aliasing)))
        return func


def _aliased(part: Node, aliasing: Aliasing) -> Node | None:
    if isinstance(part, Alloc) and part.buffer.name == aliasing.buffer.name:
        return part.body
    if isinstance(part, (Read, Write)) and part.buffer.name == aliasing.buffer.name:
        return replace(part, buffer=aliasing.home, indices=aliasing.moved(part.indices))
    return None


def _find_aliasing(body: Stmt, scope: Scope) -> Aliasing | None:
    """Return a legal replacement of a result's buffer by an operand's, or None."""
    calls = [part for part in walk_statements(body) if isinstance(part, Call)]
    for call in calls:
        result, *operands = call.operands
        if not isinstance(result, Read) or result.buffer.scope is not scope:
            continue
        for operand in operands:
            if isinstance(operand, Read) and (corner := _corner(result, operand, calls)) is not None:
                return Aliasing(result.buffer, operand.buffer, corner)
    return None


def _corner(result: Read, operand: Read, calls: list[Call]) -> tuple[Expr, ...] | None:
    """Return the corner at which `result` can overwrite the buffer of `operand`, or None.

    The operand must have no other reader, and both must be accessed element by element in the same order, so
    that no element is overwritten before it is read.
    """
    target, home = result.buffer, operand.buffer
    same = target.name != home.name and (target.scope, target.dtype, len(target.shape)) == (
        home.scope,
        home.dtype,
        len(home.shape),
    )
    if not same or target.shape[-2:] != home.shape[-2:]:
        return None
    corner = tuple(simplify(far - near) for far, near in zip(operand.indices, result.indices, strict=True))
    moving = {name for index in result.indices for name in variables(index)}
    if any(variables(offset) & moving for offset in corner):
        return None
    readers = {_tile(call).buffer.name for call in calls if _reads(call, home)} - {home.name}
    writers = [call for call in calls if _tile(call).buffer.name == target.name]
    return corner if readers == {target.name} and len(writers) == 1 else None


def _reads(call: Call, buffer: Buffer) -> bool:
    return any(
        isinstance(operand, Read) and operand.buffer.name == buffer.name for operand in call.operands[1:]
    )


@dataclass(frozen=True, slots=True)
class InterleaveVirtualThreads:
    """Interleaving of virtual threads into a serial program, with separate buffers per thread.

    `for v in vthread(n): S1; S2` becomes `for v in vthread(n): S1`, `for v in vthread(n): S2`, also inside
    enclosed loops. A buffer allocated inside gets an additional dimension of n.

    Consecutive loads stay together, and so do consecutive other statements. The last iteration of a loop
    joins the statements after the loop, so a thread stores its results without waiting for other threads. In
    the result, a vthread loop encloses either loads or other work, and hardware loops do not extend across
    it.

    Source: TVM, OSDI 2018, section 4.4 and figure 8.
    """

    def run(self, func: Func) -> Func:
        """Return `func` with virtual threads interleaved."""
        return Func(func.name, func.params, _interleaved(func.body))


def _interleaved(stmt: Stmt) -> Stmt:
    """Interleave every vthread loop in `stmt`, inner loops first."""

    def change(part: Stmt) -> Stmt | None:
        if isinstance(part, For) and part.kind is LoopKind.VTHREAD:
            return _interleave(part, part.body)
        return None

    return rewrite_statements(stmt, change)


def _interleave(thread: For, stmt: Stmt) -> Stmt:
    """Return `stmt` for all threads, interleaved by groups of statements; see `_groups`."""
    match stmt:
        case Alloc() | Block():
            buffers, statements = _flattened(stmt)
            threaded = {
                buffer.name: replace(buffer, shape=(thread.extent, *buffer.shape)) for buffer in buffers
            }
            if threaded:
                statements = [_of_thread(statement, threaded, thread) for statement in statements]
            body = _with_last_iteration(thread, statements) or block(
                *(_interleave_group(thread, group) for group in _groups(statements))
            )
            for buffer in reversed(threaded.values()):
                body = Alloc(buffer, body)
            return body
        case For(var, extent, body, kind) if _loads_only(body) is None and _has_parts(body):
            return For(var, extent, _interleave(thread, body), kind)
        case If(condition, body) if _has_parts(body) and thread.var.name not in variables(condition):
            return If(condition, _interleave(thread, body))
    return For(thread.var, thread.extent, stmt, LoopKind.VTHREAD)


def _flattened(stmt: Stmt) -> tuple[list[Buffer], list[Stmt]]:
    """Return the buffers that `stmt` allocates, and its statements."""
    match stmt:
        case Alloc(buffer, body):
            buffers, statements = _flattened(body)
            return [buffer, *buffers], statements
        case Block(parts):
            flattened = [_flattened(part) for part in parts]
            return [buffer for buffers, _ in flattened for buffer in buffers], [
                part for _, statements in flattened for part in statements
            ]
    return [], [stmt]


def _with_last_iteration(thread: For, statements: list[Stmt]) -> Stmt | None:
    """Join the last iteration of a loop with the statements after the loop, which a thread then executes
    without a switch to another thread. Return None if no loop qualifies."""
    for place, statement in enumerate(statements[:-1]):
        if (
            isinstance(statement, For)
            and _loads_only(statement) is None
            and _loads_only(statements[place + 1]) is False
        ):
            last = simplify(substitute(statement.body, {statement.var.name: Const(statement.extent - 1)}))
            rest = _interleave(thread, block(last, *statements[place + 1 :]))
            before = [
                For(statement.var, statement.extent - 1, statement.body, statement.kind)
            ]  # loops with parts have two trips at least
            return block(*(_interleave(thread, part) for part in (*statements[:place], *before)), rest)
    return None


def _groups(statements: list[Stmt]) -> list[list[Stmt]]:
    """Group consecutive loads, and consecutive statements without loads."""
    groups: list[list[Stmt]] = []
    for statement in statements:
        kind = _loads_only(statement)
        if groups and kind is not None and kind is _loads_only(groups[-1][-1]):
            groups[-1].append(statement)
        else:
            groups.append([statement])
    return groups


def _loads_only(stmt: Stmt) -> bool | None:
    """Return True if `stmt` only loads inputs or weights, False if it does not load any, and None if it mixes
    loads with other work."""
    kinds = {_is_load(part) for part in walk_statements(stmt) if isinstance(part, Call)}
    return kinds.pop() if len(kinds) == 1 else None


def _is_load(call: Call) -> bool:
    scopes = [operand.buffer.scope for operand in call.operands[:2] if isinstance(operand, Read)]
    return Scope.DRAM in scopes[1:] and scopes[0] in (Scope.INPUT, Scope.WEIGHT)


def _interleave_group(thread: For, group: list[Stmt]) -> Stmt:
    return (
        _interleave(thread, group[0])
        if len(group) == 1
        else For(thread.var, thread.extent, block(*group), LoopKind.VTHREAD)
    )


def _has_parts(stmt: Stmt) -> bool:
    """Whether `stmt` contains more than a single nest of loops around a call."""
    if isinstance(stmt, (For, If)):
        return _has_parts(stmt.body)
    return isinstance(stmt, (Block, Alloc))


def _of_thread(stmt: Stmt, threaded: Mapping[str, Buffer], thread: For) -> Stmt:
    """Redirect every access to a buffer with a name in `threaded` to the part of the buffer there that
    belongs to the thread."""

    def change(part: Node) -> Node | None:
        if isinstance(part, (Read, Write)) and part.buffer.name in threaded:
            return replace(part, buffer=threaded[part.buffer.name], indices=(thread.var, *part.indices))
        return None

    return rewrite(stmt, change)
