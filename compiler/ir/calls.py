"""Intrinsics and their calls. A call means the loop program of its intrinsic, applied to the operands."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from vdla.compiler.ir.affine import simplify
from vdla.compiler.ir.nodes import Buffer, Expr, For, Func, If, Let, Read, Select, Stmt, Var, Write
from vdla.compiler.ir.rewrite import Node, rewrite, walk_statements

IMMEDIATE = "imm"  # name of parameters that are constants


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """An operation of an accelerator or a processor, declared by a loop program that defines its semantics.

    Attributes:
        meaning: the loop program. A parameter is a tile, of the last dimensions of a buffer in the
            parameter's scope; a constant, if it is called `imm`; or a condition, if its type is bool.
        certain: names of the parameters that it accesses unconditionally.
    """

    meaning: Func
    certain: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "certain", frozenset(_certain(self.meaning.body)))

    @property
    def name(self) -> str:
        """Name of the program."""
        return self.meaning.name


def _certain(node: Expr | Stmt) -> Iterator[str]:
    """Yield the names of the buffers that are accessed unconditionally."""
    if isinstance(node, (Read, Write)):
        yield node.buffer.name
    conditional = isinstance(node, (Select, If))
    for part in node.below()[:1] if conditional else node.below():
        yield from _certain(part)


def is_tile(param: Buffer) -> bool:
    """Whether a parameter of an intrinsic is a tile, not a constant or a condition."""
    return param.name != IMMEDIATE and param.dtype != "bool"


@dataclass(frozen=True, slots=True)
class Call(Stmt):
    """A call of an intrinsic on tiles of buffers; `meaning_of` returns the equivalent statement.

    Attributes:
        operands: the first element of a tile, a constant or a condition, per parameter of the intrinsic.
    """

    intrinsic: Intrinsic
    operands: tuple[Expr, ...]

    @property
    def name(self) -> str:
        """Name of the intrinsic."""
        return self.intrinsic.name

    def below(self) -> tuple[Expr, ...]:
        return self.operands

    def rebuilt(self, below: tuple[Any, ...]) -> "Call":
        return Call(self.intrinsic, below)


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
