"""Lowering of tasks to loop programs of intrinsics, and emission of their instruction streams.

Inner loops are mapped to instructions; outer loops are executed during emission.
"""

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Protocol

from vdla.compiler.codegen.emission import (
    Action,
    Emission,
    HardwareIntrinsic,
    bound,
    conditional,
    repeated,
    sequence,
)
from vdla.compiler.codegen.epilogue import (
    NO_EPILOGUE,
    RESIDUAL,
    RESULT,
    Epilogue,
    EpilogueStores,
    PlannedStore,
)
from vdla.compiler.codegen.intrinsics import accelerator
from vdla.compiler.codegen.nest import TILE_RANK, Nest, conditions_of, nest_of, value_of
from vdla.compiler.codegen.normalising_stores import NormalisingStores
from vdla.compiler.ir.nodes import Alloc, Block, Buffer, For, Func, If, IrError, Let, Read, Scope, Stmt
from vdla.compiler.ir.passes import InPlace, InterleaveVirtualThreads, StartSums
from vdla.compiler.ir.rewrite import walk_statements
from vdla.compiler.ir.text import print_stmt
from vdla.compiler.ir.verify import verify
from vdla.compiler.operands.address_map import DENSE, Operand
from vdla.compiler.tasks.base import Choice, Task
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter
from vdla.runtime.stream.builder import Rows, Stream, StreamBuilder

CACHED_PROGRAMS = 256  # per process: a simulated candidate is not lowered again for emission


class LoopPass(Protocol):
    """A pass from a loop program to an equivalent loop program."""

    def run(self, func: Func) -> Func:
        """Return the changed program."""


BEFORE_EMISSION: tuple[LoopPass, ...] = (InPlace(), InterleaveVirtualThreads())
SCRATCHPADS = {
    Scope.INPUT: MemoryType.INP,
    Scope.WEIGHT: MemoryType.WGT,
    Scope.ACCUMULATOR: MemoryType.ACC,
    Scope.PARAMETERS: MemoryType.ACC,
}


def pipeline(config: AcceleratorConfig) -> tuple[LoopPass, ...]:
    """Return the passes before emission for `config`, in order."""
    target = accelerator(config)
    products = tuple(
        pair
        for adding, starting in ((target.gemm, target.gemm_from), (target.slide, target.slide_from))
        for pair in zip(adding, starting, strict=False)
    )
    return (StartSums(products, target.gemm[-1]), *BEFORE_EMISSION) if products else BEFORE_EMISSION


def lower_to_calls(func: Func, config: AcceleratorConfig, *, verify_each: bool = False) -> Func:
    """Run the passes before emission on `func` and verify the result.

    Args:
        verify_each: verify after each pass, too.

    Raises:
        IrError: the verifier rejects the program.
    """
    for item in pipeline(config):
        func = item.run(func)
        if verify_each:
            verify(func)
    verify(func)
    return func


@lru_cache(maxsize=CACHED_PROGRAMS)
def lowered_task(task: Task, choice: Choice, config: AcceleratorConfig) -> Func:
    """Return the loop program of a task, ready for emission: every leaf statement calls an intrinsic.

    Raises:
        IrError: the choice is not in the task's space.
    """
    return lower_to_calls(task.program(choice, config), config)


def emit(func: Func, builder: StreamBuilder, operands: Mapping[str, Operand] | None = None) -> None:
    """Append the instructions of a program of intrinsics to a stream.

    Args:
        operands: positions of the program's parameters in DRAM, by name. By default a parameter is the tensor
            of the same name. A tensor has the same name in all programs that access it, so that programs wait
            for each other only on conflicts.

    Raises:
        IrError: a statement is not an intrinsic, a buffer does not fit its memory, or a subscript is not
            affine.
    """
    emit_calls(lower_to_calls(func, builder.config), builder, operands or {})


def emit_calls(
    func: Func,
    builder: StreamBuilder,
    operands: Mapping[str, Operand],
    epilogue: Epilogue = NO_EPILOGUE,
    lasting: tuple[str, ...] = (),
) -> None:
    """Append the instructions of a program that `lower_to_calls` returned; otherwise like `emit`.

    Args:
        epilogue: epilogue of the STOREs. `operands` has the positions of its tensors.
        lasting: tensors of weights that stay on chip for further programs. Programs with the same
            statements and the same weights have the same place in WGT.

    Raises:
        IrError: residuals are added, and both they and the result have an address map.
    """
    scaled = None
    if epilogue.normal is not None:
        first = _first_parameter(func, builder.config, epilogue)
        normalising = NormalisingStores(builder, operands, epilogue.normal, first)
        normalising.begin()
        scaled = normalising.scaled
    elif epilogue != NO_EPILOGUE:
        planned = _planned_stores(func, builder.config, operands, epilogue) if epilogue.adds else []
        stores = EpilogueStores(builder, operands, epilogue, planned)
        stores.begin()
        scaled = stores.scaled
    tables = {inner.kept: inner.number for inner in epilogue.inner}
    emission = Emission(builder, operands, scaled, tables)
    _StreamEmitter(builder, func, emission, epilogue, lasting).statement(func.body)({})


def _planned_stores(
    func: Func, config: AcceleratorConfig, operands: Mapping[str, Operand], epilogue: Epilogue
) -> list[PlannedStore]:
    """Return the STOREs that requantise, in the order in which the program records them. Each has the element
    numbers of the residuals that it adds: the residuals lie in DRAM in the order of the result's elements,
    after the address map of the result."""
    places = residual_place, result_place = [operands.get(name, Operand(name)) for name in (RESIDUAL, RESULT)]
    residual, result = (place.address_map for place in places)
    if DENSE not in (residual, result):
        raise IrError(
            f"operand {RESIDUAL} has the address map {residual} and operand {RESULT} of {func.name} has "
            f"{result}, so the elements of the residuals would be mapped twice; "
            f"omit one of the two maps, or copy {RESIDUAL} into a separate dense tensor"
        )
    stores: list[PlannedStore] = []

    def note(chip: int, tensor: str, element: int, rows: Rows) -> None:
        stores.append(PlannedStore(element + residual_place.begin - result_place.begin, rows))

    builder = StreamBuilder(config)
    emission = Emission(builder, operands, lambda parameters: note)
    _StoreEmitter(builder, func, emission, epilogue).statement(func.body)({})
    return stores


def compile_stream(func: Func, config: AcceleratorConfig) -> Stream:
    """Return the stream of a single program; see `emit`."""
    builder = StreamBuilder(config)
    emit(func, builder)
    return builder.finish()


class _StreamEmitter:
    """Compiler from statements to actions that record instructions.

    Attributes:
        used: number of elements in use, from 0 on, in each scope.
    """

    def __init__(
        self,
        builder: StreamBuilder,
        func: Func,
        emission: Emission,
        epilogue: Epilogue,
        lasting: tuple[str, ...] = (),
    ) -> None:
        self.config = builder.config
        self.emission = emission
        self.used = dict.fromkeys(SCRATCHPADS, 0)
        weights = _most_elements(func.body, Scope.WEIGHT)
        self.used[Scope.WEIGHT] = builder.next_place(
            MemoryType.WGT, weights, (func, lasting), lasts=bool(lasting)
        )
        first = _first_parameter(func, self.config, epilogue)
        self.used[Scope.PARAMETERS] = first + epilogue.reserved
        self.used[Scope.ACCUMULATOR] = self._first_sum(func, first + epilogue.reserved)

    def _first_sum(self, func: Func, reserved: int) -> int:
        """Return the first accumulator of the sums: behind the parameters, or in the upper half if all sums
        fit there, so that LOADs of parameters run beside them."""
        parameters = _parameters(func)
        half = self.config.depth(MemoryType.ACC) // 2
        apart = parameters and self.config.has(Extension.ACC_HALVES)
        apart = apart and _most_elements(func.body, Scope.ACCUMULATOR) <= half
        return max(reserved + parameters, half if apart else 0)

    def statement(self, stmt: Stmt) -> Action:
        """Return the action that records the instructions of a statement; raises the errors of `emit`."""
        nest = nest_of(stmt)
        if nest is not None:
            return self.nest(nest)
        match stmt:
            case Block(statements):
                return sequence([self.statement(part) for part in statements])
            case For(var, extent, body):
                return repeated(var.name, extent, self.statement(body))
            case Let(var, value, body):
                return bound(var.name, value_of(value), self.statement(body))
            case If(condition, body):
                return conditional(conditions_of(condition), self.statement(body))
            case Alloc(buffer, body):
                return self.allocated(buffer, body)
        raise IrError(f"no intrinsic has been put in place of\n{print_stmt(stmt)}")

    def allocated(self, buffer: Buffer, body: Stmt) -> Action:
        """Allocate a buffer on chip for the lifetime of its statement.

        Raises:
            IrError: the buffer does not fit the memory.
        """
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
        """Return the capacity of a scope, in elements."""
        depth = self.config.depth(SCRATCHPADS[scope])
        return min(depth, isa.MOST_PARAMETER_SETS * len(Parameter)) if scope is Scope.PARAMETERS else depth

    def nest(self, nest: Nest) -> Action:
        """Return the action that records the instructions of a nest around a call.

        Raises:
            IrError: the accelerator has no such instruction.
        """
        intrinsic = nest.call.intrinsic
        if not isinstance(intrinsic, HardwareIntrinsic):
            names = ", ".join(instruction.name for instruction in accelerator(self.config).every)
            raise IrError(f"{intrinsic.name} is not an instruction of the accelerator; it has {names}")
        return intrinsic.emit(self.emission, nest)


class _StoreEmitter(_StreamEmitter):
    """Compiler of a program's STOREs alone."""

    def nest(self, nest: Nest) -> Action:
        """Return the action that records the STOREs of a nest around a call; nothing for other calls."""
        scopes = [operand.buffer.scope for operand in nest.call.operands if isinstance(operand, Read)]
        stores = scopes[0] is not Scope.ACCUMULATOR and scopes[1:2] == [Scope.ACCUMULATOR]
        return super().nest(nest) if stores else sequence([])


def _first_parameter(func: Func, config: AcceleratorConfig, epilogue: Epilogue) -> int:
    """Return the first accumulator of the parameters of an epilogue. Those of a normalisation, which are read
    until its last STORE, stand as far behind the first parameters of the next program as the sums leave room
    for."""
    if epilogue.normal is None:
        return 0
    parameters, sums = epilogue.reserved + _parameters(func), _most_elements(func.body, Scope.ACCUMULATOR)
    end = min(isa.MOST_PARAMETER_SETS * len(Parameter), config.depth(MemoryType.ACC) - sums)
    return max(0, (end - parameters) // len(Parameter) * len(Parameter))


def _parameters(func: Func) -> int:
    """Return the accumulators that the parameters of a program's STOREs take."""
    return sum(
        _elements(part.buffer)
        for part in walk_statements(func.body)
        if isinstance(part, Alloc) and part.buffer.scope is Scope.PARAMETERS
    )


def _most_elements(stmt: Stmt, scope: Scope) -> int:
    """Return the peak size of the live buffers of a scope, in elements."""
    match stmt:
        case Block(statements):
            return max((_most_elements(part, scope) for part in statements), default=0)
        case For(body=body) | If(body=body) | Let(body=body):
            return _most_elements(body, scope)
        case Alloc(buffer, body):
            return _most_elements(body, scope) + (_elements(buffer) if buffer.scope is scope else 0)
    return 0


def _elements(buffer: Buffer) -> int:
    """Return the size of an on-chip buffer, in elements."""
    return prod(buffer.shape[:-TILE_RANK])
