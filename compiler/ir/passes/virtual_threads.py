"""Interleaving of virtual threads into one program; each thread gets its own buffers.

`for v in vthread(n): S1; S2` becomes `for v in vthread(n): S1`, `for v in vthread(n): S2`, inside common
loops too, and a buffer allocated inside gets a dimension of n. Loads that follow each other stay together,
and so does all other work, that of a loop's last iteration and of what follows the loop too: a thread's
results must not wait for another's work. A loop of that kind then stands only around loads or around other
work, and no instruction's hardware loops reach across it.

Source: TVM, OSDI 2018, section 4.4 and figure 8.
"""

from dataclasses import dataclass, replace

from vdla.compiler.ir.affine import simplify
from vdla.compiler.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    Call,
    Const,
    For,
    Func,
    If,
    LoopKind,
    Read,
    Scope,
    Stmt,
    Write,
    block,
)
from vdla.compiler.ir.rewrite import Node, rewrite, rewrite_statements, substitute, variables, walk_statements


@dataclass(frozen=True, slots=True)
class InterleaveVirtualThreads:
    """The pass."""

    def run(self, func: Func) -> Func:
        """Return `func` with virtual threads interleaved."""
        return Func(func.name, func.params, _lowered(func.body))


def _lowered(stmt: Stmt) -> Stmt:
    """Interleave every virtual thread below `stmt`, inner ones first."""

    def change(part: Stmt) -> Stmt | None:
        if isinstance(part, For) and part.kind is LoopKind.VTHREAD:
            return _interleave(part, part.body)
        return None

    return rewrite_statements(stmt, change)


def _interleave(thread: For, stmt: Stmt) -> Stmt:
    """Return what all threads do of `stmt`: statement by statement, but transfers that follow each other
    thread by thread."""
    match stmt:
        case Alloc() | Block():
            buffers, statements = _flattened(stmt, thread)
            body = _with_last_iteration(thread, statements) or block(
                *(_interleave_group(thread, group) for group in _groups(statements))
            )
            for buffer in reversed(buffers):
                body = Alloc(buffer, body)
            return body
        case For(var, extent, body, kind) if _loads(body) is None and _has_parts(body):
            return For(var, extent, _interleave(thread, body), kind)
        case If(condition, body) if _has_parts(body) and thread.var.name not in variables(condition):
            return If(condition, _interleave(thread, body))
    return For(thread.var, thread.extent, stmt, LoopKind.VTHREAD)


def _flattened(stmt: Stmt, thread: For) -> tuple[list[Buffer], list[Stmt]]:
    """Return the buffers allocated at the level of `stmt`, one for each thread, and its statements, each
    using its thread's."""
    match stmt:
        case Alloc(buffer, body):
            own = replace(buffer, shape=(thread.extent, *buffer.shape))
            buffers, statements = _flattened(_of_thread(body, buffer, own, thread), thread)
            return [own, *buffers], statements
        case Block(parts):
            found = [_flattened(part, thread) for part in parts]
            return [buffer for buffers, _ in found for buffer in buffers], [
                part for _, statements in found for part in statements
            ]
    return [], [stmt]


def _with_last_iteration(thread: For, statements: list[Stmt]) -> Stmt | None:
    """Join the last iteration of a loop with what follows it, so that each thread goes on with that before
    another's turn comes."""
    for place, statement in enumerate(statements[:-1]):
        if (
            isinstance(statement, For)
            and _loads(statement) is None
            and _loads(statements[place + 1]) is False
        ):
            last = simplify(substitute(statement.body, {statement.var.name: Const(statement.extent - 1)}))
            rest = _interleave(thread, block(last, *statements[place + 1 :]))
            before = [
                For(statement.var, statement.extent - 1, statement.body, statement.kind)
            ]  # loops with parts have two trips at least
            return block(*(_interleave(thread, part) for part in (*statements[:place], *before)), rest)
    return None


def _groups(statements: list[Stmt]) -> list[list[Stmt]]:
    """Part statements so that loads that follow each other stand together, and so does all other work."""
    groups: list[list[Stmt]] = []
    for statement in statements:
        kind = _loads(statement)
        if groups and kind is not None and kind is _loads(groups[-1][-1]):
            groups[-1].append(statement)
        else:
            groups.append([statement])
    return groups


def _loads(stmt: Stmt) -> bool | None:
    """Whether all that `stmt` does is to load for others to work on; False: it only works and stores; None:
    it does both."""
    found = {_is_load(part) for part in walk_statements(stmt) if isinstance(part, Call)}
    return found.pop() if len(found) == 1 else None


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
    """Whether there is more than one nest of intrinsics in `stmt`; what an intrinsic means does not count."""
    if isinstance(stmt, (For, If)):
        return _has_parts(stmt.body)
    return isinstance(stmt, (Block, Alloc))


def _of_thread(stmt: Stmt, shared: Buffer, own: Buffer, thread: For) -> Stmt:
    """Let every access to `shared` go to the thread's own part."""

    def change(part: Node) -> Node | None:
        if isinstance(part, (Read, Write)) and part.buffer.name == shared.name:
            return replace(part, buffer=own, indices=(thread.var, *part.indices))
        return None

    return rewrite(stmt, change)
