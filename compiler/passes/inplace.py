"""Element-wise results take the place of the operand that nobody else needs: accumulators are updated, not copied.

`Y[i] = f(X[i])`, where X lives on chip and is read by nothing else, becomes `X[i] = f(X[i])`.
"""

from dataclasses import dataclass

from vdla.compiler.ir.nodes import Alloc, Buffer, Call, Func, Read, Scope, Stmt
from vdla.compiler.ir.rewrite import Node, replace_buffers, rewrite, walk


@dataclass(frozen=True, slots=True)
class InPlace:
    """The pass; `scope` says in which memory."""

    scope: Scope = Scope.ACCUMULATOR

    def run(self, func: Func) -> Func:
        """Return `func` with as few buffers in `scope` as in-place updates allow."""
        while (pair := _find(func.body, self.scope)) is not None:
            result, operand = pair
            body = replace_buffers(func.body, {result.name: operand})
            func = Func(func.name, func.params, rewrite(body, lambda part, gone=result.name: _dropped(part, gone)))
        return func


def _dropped(part: Node, gone: str) -> Node | None:
    return part.body if isinstance(part, Alloc) and part.buffer.name == gone else None


def _find(body: Stmt, scope: Scope) -> tuple[Buffer, Buffer] | None:
    """Return a buffer that can take the place of another, and that other."""
    calls = [part for part in walk(body) if isinstance(part, Call)]
    for call in calls:
        result, *operands = call.operands
        if not isinstance(result, Read) or result.buffer.scope is not scope:
            continue
        for operand in operands:
            if isinstance(operand, Read) and _replaceable(result, operand, calls):
                return result.buffer, operand.buffer
    return None


def _replaceable(result: Read, operand: Read, calls: list[Call]) -> bool:
    """Whether `result` may be kept where `operand` is: the same element, of a buffer that only this reads, before anything else writes it."""
    one, other = result.buffer, operand.buffer
    same = one.name != other.name and (one.scope, one.shape, one.dtype) == (other.scope, other.shape, other.dtype)
    if not same or result.indices != operand.indices:
        return False
    readers = {call.operands[0].buffer.name for call in calls if _reads(call, other)} - {other.name}
    writers = [call for call in calls if call.operands[0].buffer.name == one.name]
    return readers == {one.name} and len(writers) == 1


def _reads(call: Call, buffer: Buffer) -> bool:
    return any(isinstance(operand, Read) and operand.buffer.name == buffer.name for operand in call.operands[1:])


