"""In-place updates: an element-wise result overwrites an operand that nothing else reads.

`Y[i] = f(X[i + corner])`, where X lives on chip and is read by nothing else, becomes `X[i + corner] = f(X[i +
corner])`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from vdla.compiler.ir.affine import simplify
from vdla.compiler.ir.nodes import Alloc, Buffer, Call, Expr, Func, Read, Scope, Stmt, Write
from vdla.compiler.ir.rewrite import Node, rewrite, variables, walk_statements


@dataclass(frozen=True, slots=True)
class Place:
    """Where a buffer goes: into `home`, from `corner` on."""

    buffer: Buffer
    home: Buffer
    corner: tuple[Expr, ...]

    def moved(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the indices in `home` of an element of `buffer`."""
        return tuple(simplify(index + offset) for index, offset in zip(indices, self.corner, strict=True))


@dataclass(frozen=True, slots=True)
class InPlace:
    """The pass; `scope` says in which memory."""

    scope: Scope = Scope.ACCUMULATOR

    def run(self, func: Func) -> Func:
        """Return `func` with as few buffers in `scope` as in-place updates allow."""
        while (place := _find(func.body, self.scope)) is not None:
            func = Func(func.name, func.params, rewrite(func.body, partial(_replaced, place=place)))
        return func


def _replaced(part: Node, place: Place) -> Node | None:
    if isinstance(part, Alloc) and part.buffer.name == place.buffer.name:
        return part.body
    if isinstance(part, (Read, Write)) and part.buffer.name == place.buffer.name:
        return replace(part, buffer=place.home, indices=place.moved(part.indices))
    return None


def _find(body: Stmt, scope: Scope) -> Place | None:
    """Return a buffer that can take the place of another, and where."""
    calls = [part for part in walk_statements(body) if isinstance(part, Call)]
    for call in calls:
        result, *operands = call.operands
        if not isinstance(result, Read) or result.buffer.scope is not scope:
            continue
        for operand in operands:
            if isinstance(operand, Read) and (corner := _corner(result, operand, calls)) is not None:
                return Place(result.buffer, operand.buffer, corner)
    return None


def _corner(result: Read, operand: Read, calls: list[Call]) -> tuple[Expr, ...] | None:
    """Return from where on `result` may stand in the buffer of `operand`; None where it may not.

    It may where that is read by nothing else, and element by element in the same order, so that no element is
    changed before it is read.
    """
    one, other = result.buffer, operand.buffer
    same = one.name != other.name and (one.scope, one.dtype, len(one.shape)) == (
        other.scope,
        other.dtype,
        len(other.shape),
    )
    if not same or one.shape[-2:] != other.shape[-2:]:
        return None
    corner = tuple(simplify(far - near) for far, near in zip(operand.indices, result.indices, strict=True))
    moving = {name for index in result.indices for name in variables(index)}
    if any(variables(offset) & moving for offset in corner):
        return None
    readers = {_result(call).buffer.name for call in calls if _reads(call, other)} - {other.name}
    writers = [call for call in calls if _result(call).buffer.name == one.name]
    return corner if readers == {one.name} and len(writers) == 1 else None


def _result(call: Call) -> Read:
    """Return the tile that a call changes."""
    result = call.operands[0]
    assert isinstance(result, Read), "the verifier lets only tiles be changed"
    return result


def _reads(call: Call, buffer: Buffer) -> bool:
    return any(
        isinstance(operand, Read) and operand.buffer.name == buffer.name for operand in call.operands[1:]
    )
