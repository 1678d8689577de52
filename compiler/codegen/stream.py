"""Emission: from loop programs of intrinsics to instruction streams.

Outer loops are walked here; inner loops are mapped onto instructions.
"""

from collections.abc import Mapping
from math import prod
from typing import Protocol

from vdla.compiler.codegen.actions import Action, conditional, in_turn, repeated
from vdla.compiler.codegen.after import NOTHING, After, FollowedStores, Stored
from vdla.compiler.codegen.emission import Emission, Instruction
from vdla.compiler.codegen.intrinsics import accelerator
from vdla.compiler.codegen.nest import TILE_RANK, Nest, conditions_of, nest_of
from vdla.compiler.ir.nodes import Alloc, Block, Buffer, For, Func, If, IrError, Scope, Stmt
from vdla.compiler.ir.passes.inplace import InPlace
from vdla.compiler.ir.passes.start_sums import StartSums
from vdla.compiler.ir.passes.virtual_threads import InterleaveVirtualThreads
from vdla.compiler.ir.rewrite import walk_statements
from vdla.compiler.ir.text import print_stmt
from vdla.compiler.ir.verify import verify
from vdla.compiler.operands.address_map import Operand
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType, Parameter
from vdla.runtime.stream.builder import Rows, Stream, StreamBuilder


class Pass(Protocol):
    """A step from one loop program to another that means the same."""

    def run(self, func: Func) -> Func:
        """Return the changed program."""


BEFORE_EMISSION: tuple[Pass, ...] = (InPlace(), InterleaveVirtualThreads())
SCRATCHPADS = {
    Scope.INPUT: MemoryType.INP,
    Scope.WEIGHT: MemoryType.WGT,
    Scope.ACCUMULATOR: MemoryType.ACC,
    Scope.PARAMETERS: MemoryType.ACC,
}


def pipeline(config: AcceleratorConfig) -> tuple[Pass, ...]:
    """Return the passes that come before emission for `config`."""
    own = accelerator(config)
    starting = [
        StartSums(product, reset, started)
        for (product, reset), several in ((own.gemm, own.gemm_from), (own.slide or own.gemm, own.slide_from))
        for started in several
    ]
    return (*starting, *BEFORE_EMISSION)


def lower_to_calls(func: Func, config: AcceleratorConfig, *, verify_each: bool = False) -> Func:
    """Return `func` after the passes before emission, verified; `verify_each` verifies after each pass."""
    for item in pipeline(config):
        func = item.run(func)
        if verify_each:
            verify(func)
    verify(func)
    return func


def emit(func: Func, builder: StreamBuilder, operands: Mapping[str, Operand] | None = None) -> None:
    """Record the instructions of a program of intrinsics, after the instructions that are recorded already.

    Args:
        operands: where the program's parameters lie in DRAM; a missing one is the tensor of its own name. A
            tensor that one program writes and another reads has one name. Programs then wait for each other
            only where they conflict.

    Raises:
        IrError: a statement is not an intrinsic, a buffer does not fit its memory, or a subscript is not
            affine.
    """
    emit_calls(lower_to_calls(func, builder.config), builder, operands or {})


def emit_calls(
    func: Func, builder: StreamBuilder, operands: Mapping[str, Operand], after: After = NOTHING
) -> None:
    """Record the instructions of a program that `lower_to_calls` returned; otherwise as `emit`.

    Args:
        after: what the STOREs do behind requantisation. `operands` holds the tensors that this needs.
    """
    scaled = None
    if after != NOTHING:
        stores = _stores(func, builder.config, operands, after) if after.adds else []
        followed = FollowedStores(builder, operands, after, stores)
        followed.begin()
        scaled = followed.scaled
    _Emitter(builder, func, Emission(builder, operands, scaled), after).statement(func.body)({})


def _stores(
    func: Func, config: AcceleratorConfig, operands: Mapping[str, Operand], after: After
) -> list[Stored]:
    """Return the STOREs by parameters that a program records, in order."""
    stores: list[Stored] = []

    def note(chip: int, tensor: str, element: int, rows: Rows) -> None:
        stores.append(Stored(element, rows))

    builder = StreamBuilder(config)
    emission = Emission(builder, operands, lambda parameters: note)
    _Emitter(builder, func, emission, after).statement(func.body)({})
    return stores


def compile_stream(func: Func, config: AcceleratorConfig) -> Stream:
    """Return the stream of a single program; see `emit`."""
    builder = StreamBuilder(config)
    emit(func, builder)
    return builder.finish()


class _Emitter:
    """Turns statements into actions that record instructions; what can be known before is computed once."""

    def __init__(self, builder: StreamBuilder, func: Func, emission: Emission, after: After) -> None:
        self.config = builder.config
        self.emission = emission
        self.used = dict.fromkeys(SCRATCHPADS, 0)
        weights = _most_elements(func.body, Scope.WEIGHT)
        self.used[Scope.WEIGHT] = builder.next_place(MemoryType.WGT, weights, func)
        self.used[Scope.PARAMETERS] = after.reserved
        self.used[Scope.ACCUMULATOR] = after.reserved + sum(
            _elements(part.buffer)
            for part in walk_statements(func.body)
            if isinstance(part, Alloc) and part.buffer.scope is Scope.PARAMETERS
        )

    def statement(self, stmt: Stmt) -> Action:
        nest = nest_of(stmt)
        if nest is not None:
            return self.nest(nest)
        match stmt:
            case Block(statements):
                return in_turn([self.statement(part) for part in statements])
            case For(var, extent, body):
                return repeated(var.name, extent, self.statement(body))
            case If(condition, body):
                return conditional(conditions_of(condition), self.statement(body))
            case Alloc(buffer, body):
                return self.allocated(buffer, body)
        raise IrError(f"no intrinsic has been put in place of\n{print_stmt(stmt)}")

    def allocated(self, buffer: Buffer, body: Stmt) -> Action:
        """Give a buffer its place on chip, for as long as its statement lasts."""
        if buffer.scope not in SCRATCHPADS:
            return self.statement(body)
        elements, depth = _elements(buffer), self.capacity(buffer.scope)
        first = self.used[buffer.scope]
        if first + elements > depth:
            raise IrError(
                f"buffer {buffer.name} of {elements} elements does not fit the {buffer.scope.value} "
                f"memory: it holds {depth}, "
                f"and {first} are taken; use smaller tiles or fewer virtual threads"
            )
        self.emission.bases[buffer.name], self.used[buffer.scope] = first, first + elements
        action = self.statement(body)
        self.used[buffer.scope] = first
        return action

    def capacity(self, scope: Scope) -> int:
        """Return the elements that buffers in a scope can take."""
        depth = self.config.depth(SCRATCHPADS[scope])
        return min(depth, isa.MOST_PARAMETER_SETS * len(Parameter)) if scope is Scope.PARAMETERS else depth

    def nest(self, nest: Nest) -> Action:
        intrinsic = nest.call.intrinsic
        if not isinstance(intrinsic, Instruction):
            own = ", ".join(instruction.name for instruction in accelerator(self.config).every)
            raise IrError(f"{intrinsic.name} is not an instruction of the accelerator; it has {own}")
        return intrinsic.emit(self.emission, nest)


def _most_elements(stmt: Stmt, scope: Scope) -> int:
    """Return the elements that buffers of a scope take at once, at most."""
    match stmt:
        case Block(statements):
            return max((_most_elements(part, scope) for part in statements), default=0)
        case For(body=body) | If(body=body):
            return _most_elements(body, scope)
        case Alloc(buffer, body):
            return _most_elements(body, scope) + (_elements(buffer) if buffer.scope is scope else 0)
    return 0


def _elements(buffer: Buffer) -> int:
    """Return the elements of a buffer on chip."""
    return prod(buffer.shape[:-TILE_RANK])
