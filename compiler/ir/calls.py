"""Expansion of intrinsic calls: the intrinsic's loop program, applied to the operands of the call."""

from dataclasses import replace

from vdla.compiler.ir.affine import simplify
from vdla.compiler.ir.nodes import Call, Expr, For, Func, Intrinsic, Let, Read, Stmt, Var, Write, is_tile
from vdla.compiler.ir.rewrite import Node, rewrite, walk_statements


def meaning_of(call: Call) -> Stmt:
    """Return the statement that defines the semantics of a call. Its loop variables are prefixed by the name
    of the intrinsic."""
    operands = {
        param.name: operand
        for param, operand in zip(call.intrinsic.meaning.params, call.operands, strict=True)
    }

    def change(part: Node) -> Node | None:
        match part:
            case Var(name):
                return Var(f"{call.name}.{name}")
            case For() | Let():
                return replace(part, var=Var(f"{call.name}.{part.var.name}"))
            case Read(param, indices):
                return _element(operands[param.name], indices) if is_tile(param) else operands[param.name]
            case Write(param, indices, value):
                place = _element(operands[param.name], indices)
                return Write(place.buffer, place.indices, value)
        return None

    return rewrite(call.intrinsic.meaning.body, change)


def _element(tile: Expr, indices: tuple[Expr, ...]) -> Read:
    """Return the element of a tile at `indices`."""
    assert isinstance(tile, Read), "the verifier lets only tiles be subscripted"
    leading, first = tile.indices[: -len(indices)], tile.indices[-len(indices) :]
    return Read(
        tile.buffer,
        (*leading, *(simplify(start + index) for start, index in zip(first, indices, strict=True))),
    )


def intrinsics_of(func: Func) -> dict[str, Intrinsic]:
    """Return the intrinsics that a program calls, by name, in the order of their first calls."""
    return {part.name: part.intrinsic for part in walk_statements(func.body) if isinstance(part, Call)}
