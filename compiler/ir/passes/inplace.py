"""In-place updates: an element-wise result overwrites an operand that nothing else reads.

`Y[i] = f(X[i + corner])`, where X is on chip and has no other reader, becomes
`X[i + corner] = f(X[i + corner])`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from vdla.compiler.ir.affine import simplify
from vdla.compiler.ir.nodes import Alloc, Buffer, Call, Expr, Func, Read, Scope, Stmt, Write
from vdla.compiler.ir.rewrite import Node, rewrite, variables, walk_statements


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
    """The pass.

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
    readers = {_result(call).buffer.name for call in calls if _reads(call, home)} - {home.name}
    writers = [call for call in calls if _result(call).buffer.name == target.name]
    return corner if readers == {target.name} and len(writers) == 1 else None


def _result(call: Call) -> Read:
    """Return the tile that a call writes."""
    result = call.operands[0]
    assert isinstance(result, Read), "the verifier lets only tiles be changed"
    return result


def _reads(call: Call, buffer: Buffer) -> bool:
    return any(
        isinstance(operand, Read) and operand.buffer.name == buffer.name for operand in call.operands[1:]
    )
