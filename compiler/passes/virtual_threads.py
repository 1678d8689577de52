"""Virtual threads: their work is interleaved into one program, each with buffers of its own.

`for v in vthread(n): S1; S2` becomes `for v in vthread(n): S1`, `for v in vthread(n): S2`, inside common loops too, and a buffer allocated
inside gets a dimension of n. A loop of that kind then stands only around single kernels, which are never folded across it.

Source: TVM, OSDI 2018, section 4.4 and figure 8.
"""

from dataclasses import dataclass, replace

from vdla.compiler.ir.nodes import Alloc, Block, Buffer, For, Func, If, LoopKind, Read, Stmt, Write, block
from vdla.compiler.ir.rewrite import Node, rewrite, variables


@dataclass(frozen=True, slots=True)
class InterleaveVirtualThreads:
    """The pass."""

    def run(self, func: Func) -> Func:
        """Return `func` with virtual threads interleaved."""
        return Func(func.name, func.params, _lowered(func.body))


def _lowered(stmt: Stmt) -> Stmt:
    """Interleave every virtual thread below `stmt`, inner ones first."""
    def change(part: Node) -> Node | None:
        if isinstance(part, For) and part.kind is LoopKind.VTHREAD:
            return _interleave(part, part.body)
        return None
    return rewrite(stmt, change)


def _interleave(thread: For, stmt: Stmt) -> Stmt:
    """Return what all threads do of `stmt`, statement by statement."""
    match stmt:
        case Block(statements):
            return block(*(_interleave(thread, part) for part in statements))
        case Alloc(buffer, body):
            own = replace(buffer, shape=(thread.extent, *buffer.shape))
            return Alloc(own, _interleave(thread, _of_thread(body, buffer, own, thread)))
        case For(var, extent, body, kind) if _has_parts(body):
            return For(var, extent, _interleave(thread, body), kind)
        case If(condition, body) if _has_parts(body) and thread.var.name not in variables(condition):
            return If(condition, _interleave(thread, body))
    return For(thread.var, thread.extent, stmt, LoopKind.VTHREAD)


def _has_parts(stmt: Stmt) -> bool:
    """Whether there is more than one kernel in `stmt`; what an intrinsic means inside does not count."""
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
