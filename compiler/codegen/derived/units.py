"""The rule of units: which instructions compute a tensor, and in which memories it and its operands must lie.

The matcher decides, by the meaning of the instructions. No operator has a name here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from vdla.compiler.codegen.emission import Instruction
from vdla.compiler.codegen.intrinsics import accelerator
from vdla.compiler.codegen.nest import TILE_RANK
from vdla.compiler.ir.nodes import (
    Binary,
    Buffer,
    Call,
    Expr,
    For,
    Func,
    Intrinsic,
    IrError,
    Read,
    Scope,
    Stmt,
    Write,
    is_tile,
)
from vdla.compiler.ir.rewrite import Node, rewrite
from vdla.compiler.ir.text import print_expr
from vdla.compiler.te.tensor import Axis, Reduce, Tensor, compute, plain
from vdla.compiler.te.tensorize import MatchError, replaced
from vdla.hw.spec.config import AcceleratorConfig


class UnderivableError(IrError):
    """No schedule can be derived for a tensor expression."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What computes the elements of a tensor.

    Attributes:
        scope: the memory of the result.
        operands: the memory of each tensor that is read, by name.
        instructions: of which the first that means the loops is taken, those that set first values included.
        inner: names of the reduction axes that are part of the instruction.
    """

    scope: Scope
    operands: tuple[tuple[str, Scope], ...]
    instructions: tuple[Instruction, ...]
    inner: tuple[str, ...] = ()

    @property
    def loads(self) -> bool:
        """Whether it brings data on chip, and does nothing else."""
        return self.scope is not Scope.DRAM and all(scope is Scope.DRAM for _, scope in self.operands)

    @property
    def multiplies(self) -> bool:
        """Whether it is the multiplier array's; else the ALU's, or a transfer."""
        return Scope.WEIGHT in (scope for _, scope in self.operands)


@dataclass(frozen=True, slots=True)
class _Erased:
    """An instruction, and what it means if all its operands lay in one memory."""

    instruction: Instruction
    meaning: Intrinsic

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Memories of its tiles, that of the result first."""
        return tuple(param.scope for param in self.instruction.meaning.params if is_tile(param))


@lru_cache(maxsize=64)
def _erased(config: AcceleratorConfig) -> tuple[_Erased, ...]:
    """Return the instructions that do one thing to every element of a tile."""
    return tuple(
        _Erased(instruction, Intrinsic(_in_one_memory(instruction.meaning)))
        for instruction in accelerator(config).every
        if isinstance(_innermost(instruction.meaning.body), Write)
    )


def _innermost(stmt: Stmt) -> Stmt:
    while isinstance(stmt, For):
        stmt = stmt.body
    return stmt


def _in_one_memory(func: Func) -> Func:
    """Return a loop program with all buffers in DRAM."""

    def change(part: Node) -> Node | None:
        if isinstance(part, (Read, Write)):
            return replace(part, buffer=replace(part.buffer, scope=Scope.DRAM))
        return None

    return Func(
        func.name,
        tuple(replace(param, scope=Scope.DRAM) for param in func.params),
        rewrite(func.body, change),
    )


def units_of(tensor: Tensor, config: AcceleratorConfig) -> list[Unit]:
    """Return the units that can compute `tensor`, the preferred first; none where no instruction means it."""
    if len(tensor.shape) < TILE_RANK:
        return []
    found: list[Unit] = []
    for inner in _inner_axes(tensor):
        body = _element(tensor, _combined(tensor), inner)
        for candidate in _erased(config):
            unit = _unit(tensor, candidate, body, inner, config)
            if unit is not None and unit not in found:
                found.append(unit)
    return found


def text_of(value: Expr) -> str:
    """Return the text of what a tensor computes."""
    if isinstance(value, Reduce):
        axes = ", ".join(axis.name for axis in value.axes)
        start = print_expr(value.identity())
        return f"{value.op} over {axes} from {start} of {print_expr(value.value)}"
    return print_expr(value)


def _inner_axes(tensor: Tensor) -> Iterator[tuple[Axis, ...]]:
    """Yield the reduction axes that may be an instruction's: none, or one."""
    yield ()
    for axis in reversed(tensor.reduce_axes):
        if axis.extent > 1:
            yield (axis,)


def _combined(tensor: Tensor) -> Expr:
    """Return what is written to an element in each step."""
    value = tensor.value
    assert value is not None, "placeholders are not computed"
    if isinstance(value, Reduce):
        own = Read(tensor.buffer, tuple(axis.var for axis in tensor.axes))
        return Binary(value.op, own, plain(value.value))
    return plain(value)


def _element(tensor: Tensor, value: Expr, inner: Sequence[Axis]) -> Stmt:
    """Return the loops over an element, with `inner` inside."""
    body: Stmt = Write(tensor.buffer, tuple(axis.var for axis in tensor.axes), value)
    for axis in reversed((*tensor.axes[-TILE_RANK:], *inner)):
        body = For(axis.var, axis.extent, body)
    return body


def _unit(
    tensor: Tensor, candidate: _Erased, body: Stmt, inner: tuple[Axis, ...], config: AcceleratorConfig
) -> Unit | None:
    try:
        call = replaced(body, [candidate.meaning])
    except MatchError:
        return None
    assert isinstance(call, Call), "there is no condition around an element"
    tiles = [operand.buffer.name for operand in call.operands if isinstance(operand, Read)]
    operands = dict(zip(tiles[1:], candidate.scopes[1:], strict=True))
    clash = any(
        operands[name] is not scope for name, scope in zip(tiles[1:], candidate.scopes[1:], strict=True)
    )
    accumulates = operands.pop(tensor.name, candidate.scopes[0]) is candidate.scopes[0]
    if clash or not accumulates:
        return None  # one tensor in two memories
    instructions = [one.instruction for one in _erased(config) if one.scopes == candidate.scopes]
    if isinstance(tensor.value, Reduce):
        first = _first(tensor, tensor.value, candidate.scopes[0], config)
        if first is None:
            return None
        instructions.append(first)
    names = tuple(axis.name for axis in inner)
    return Unit(candidate.scopes[0], tuple(operands.items()), tuple(instructions), names)


def _first(tensor: Tensor, value: Reduce, scope: Scope, config: AcceleratorConfig) -> Instruction | None:
    """Return the instruction that sets the elements of a reduction to their first values."""
    body = _element(tensor, value.identity(), ())
    for candidate in _erased(config):
        if candidate.scopes == (scope,):
            try:
                replaced(body, [candidate.meaning])
            except MatchError:
                continue
            return candidate.instruction
    return None


def copied(tensor: Tensor, name: str) -> Tensor:
    """Return a copy of a tensor, to lie in another memory."""
    axes = tuple(f"{name}_{number}" for number in range(len(tensor.shape)))
    return compute(tensor.shape, lambda *at: tensor[at], name, axes)


def load_of(tensor: Tensor, scope: Scope, name: str, config: AcceleratorConfig) -> tuple[Tensor, Unit] | None:
    """Return a copy of `tensor` in `scope` and the unit that makes it; None where there is none."""
    copy = copied(tensor, name)
    for unit in units_of(copy, config):
        if unit.loads and unit.scope is scope:
            return copy, unit
    return None


def in_dram(buffer: Buffer) -> Tensor:
    """Return what a kernel reads of a tensor that stands in DRAM."""
    return Tensor(replace(buffer, scope=Scope.DRAM))
