"""Interleaving of virtual threads into a serial program, with separate buffers per thread.

`for v in vthread(n): S1; S2` becomes `for v in vthread(n): S1`, `for v in vthread(n): S2`, also inside
enclosed loops. A buffer allocated inside gets an additional dimension of n.

Consecutive loads stay together, and so do consecutive other statements. The last iteration of a loop joins
the statements after the loop, so a thread stores its results without waiting for other threads. In the
result, a vthread loop encloses either loads or other work, and hardware loops do not extend across it.

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
    """The pass that interleaves virtual threads."""

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
            buffers, statements = _flattened(stmt, thread)
            body = _with_last_iteration(thread, statements) or block(
                *(_interleave_group(thread, group) for group in _groups(statements))
            )
            for buffer in reversed(buffers):
                body = Alloc(buffer, body)
            return body
        case For(var, extent, body, kind) if _loads_only(body) is None and _has_parts(body):
            return For(var, extent, _interleave(thread, body), kind)
        case If(condition, body) if _has_parts(body) and thread.var.name not in variables(condition):
            return If(condition, _interleave(thread, body))
    return For(thread.var, thread.extent, stmt, LoopKind.VTHREAD)


def _flattened(stmt: Stmt, thread: For) -> tuple[list[Buffer], list[Stmt]]:
    """Return the buffers that `stmt` allocates, with a dimension of threads, and its statements, which access
    the part of their thread."""
    match stmt:
        case Alloc(buffer, body):
            threaded = replace(buffer, shape=(thread.extent, *buffer.shape))
            buffers, statements = _flattened(_of_thread(body, buffer, threaded, thread), thread)
            return [threaded, *buffers], statements
        case Block(parts):
            flattened = [_flattened(part, thread) for part in parts]
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


def _of_thread(stmt: Stmt, shared: Buffer, threaded: Buffer, thread: For) -> Stmt:
    """Redirect every access from `shared` to the part of `threaded` that belongs to the thread."""

    def change(part: Node) -> Node | None:
        if isinstance(part, (Read, Write)) and part.buffer.name == shared.name:
            return replace(part, buffer=threaded, indices=(thread.var, *part.indices))
        return None

    return rewrite(stmt, change)
