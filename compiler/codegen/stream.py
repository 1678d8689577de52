"""Loop programs of intrinsics to instruction streams: outer loops are walked here, inner ones folded into instructions."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from operator import itemgetter
from typing import TypeVar

from vdla.compiler.codegen.fold import Dimension, Kernel, Steps, Transfer, fold_sum, fold_transfer, folded_kernels
from vdla.compiler.codegen.intrinsics import FILL, LEAST_PADDED, LOADS, PADDED, SCALED_STORE, STORE
from vdla.compiler.codegen.kernel import TILE_RANK, Form, Nest, Ranges, boxes, conditions_of, element_form, evaluated, inside_box, nest_of
from vdla.compiler.ir.nodes import Alloc, Block, Buffer, Call, Const, For, Func, If, IrError, Read, Scope, Stmt
from vdla.compiler.ir.rewrite import walk
from vdla.compiler.ir.text import print_stmt
from vdla.compiler.ir.verify import verify
from vdla.compiler.passes.inplace import InPlace
from vdla.compiler.passes.start_sums import PRODUCT, RESET, STARTED, StartSums
from vdla.compiler.passes.virtual_threads import InterleaveVirtualThreads
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType, Parameter
from vdla.runtime.builder import Loop, Rows, Stream, StreamBuilder
from vdla.runtime.micro_kernels import MicroKernel

BEFORE_EMISSION = (InPlace(), InterleaveVirtualThreads())
SCRATCHPADS = {Scope.INPUT: MemoryType.INP, Scope.WEIGHT: MemoryType.WGT, Scope.ACCUMULATOR: MemoryType.ACC, Scope.PARAMETERS: MemoryType.ACC}
ALU = {f"{opcode.name.lower()}{end}": opcode for opcode in AluOpcode for end in ("", "_imm")}

Found = TypeVar("Found")
Values = dict[str, int]
Action = Callable[[Values], None]
Base = tuple[int, int, int]  # elements of a step's operands
Move = Callable[[int, str, int, Rows], None]  # records a transfer: element on chip, tensor, its element, rows
Record = Callable[[MicroKernel, Loop, Loop], None]
Recorded = list[tuple[Record, Kernel]]


def pipeline(config: AcceleratorConfig) -> tuple:
    """Return the passes that come before emission for `config`."""
    return (StartSums(), *BEFORE_EMISSION) if config.has(Extension.OVERWRITE) else BEFORE_EMISSION


def lower_to_calls(func: Func, config: AcceleratorConfig) -> Func:
    """Return `func` after the passes that come before emission."""
    for item in pipeline(config):
        func = item.run(func)
        verify(func)
    return func


def emit(func: Func, builder: StreamBuilder, tensors: Mapping[str, str] | None = None, begins: Mapping[str, int] | None = None) -> None:
    """Record the instructions of a program whose every statement is an intrinsic's, behind those that are recorded already.

    Args:
        tensors: what the stream calls the program's parameters, where that is not their own name. A tensor that one program writes and another
            reads has one name; programs then wait for each other only where they meet.
        begins: the element of its tensor at which a parameter begins, where that is not the first.

    Raises:
        IrError: a statement is none, a buffer does not fit its memory, or a subscript does not move evenly.
    """
    lowered = lower_to_calls(func, builder.config)
    _Emitter(builder, lowered, tensors or {}, begins or {}).statement(lowered.body)({})


def compile_stream(func: Func, config: AcceleratorConfig) -> Stream:
    """Return the stream of one program alone; see `emit`."""
    builder = StreamBuilder(config)
    emit(func, builder)
    return builder.finish()


@dataclass(frozen=True)
class _Operand:
    """An operand's memory and the form of its element's index."""

    buffer: Buffer
    form: Form


class _Emitter:
    """Turns statements into actions that record instructions; what can be known before is computed once."""

    def __init__(self, builder: StreamBuilder, func: Func, tensors: Mapping[str, str], begins: Mapping[str, int]) -> None:
        self.builder, self.tensors = builder, tensors
        self.config = builder.config
        self.bases = dict(begins)
        self.used = dict.fromkeys(SCRATCHPADS, 0)
        self.used[Scope.ACCUMULATOR] = sum(_elements(part.buffer) for part in walk(func.body)
                                           if isinstance(part, Alloc) and part.buffer.scope is Scope.PARAMETERS)

    def statement(self, stmt: Stmt) -> Action:
        nest = nest_of(stmt)
        if nest is not None:
            return self.nest(nest)
        match stmt:
            case Block(statements):
                return _in_turn([self.statement(part) for part in statements])
            case For(var, extent, body):
                return _repeated(var.name, extent, self.statement(body))
            case If(condition, body):
                return _conditional(conditions_of(condition), self.statement(body))
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
            raise IrError(f"buffer {buffer.name} of {elements} elements does not fit the {buffer.scope.value} memory: it holds {depth}, "
                          f"and {first} are taken; use smaller tiles or fewer virtual threads")
        self.bases[buffer.name], self.used[buffer.scope] = first, first + elements
        action = self.statement(body)
        self.used[buffer.scope] = first
        return action

    def capacity(self, scope: Scope) -> int:
        """Return the elements that buffers in a scope can take."""
        depth = self.config.depth(SCRATCHPADS[scope])
        return min(depth, isa.MOST_PARAMETER_SETS * len(Parameter)) if scope is Scope.PARAMETERS else depth

    def nest(self, nest: Nest) -> Action:
        name = nest.call.name
        if _load_of(name) in LOADS:
            return self.load(nest)
        if name in (STORE, SCALED_STORE):
            return self.store(nest)
        if name == STARTED:
            return self.started_sum(nest)
        if name == FILL:
            return self.filled(nest)
        if name in ALU or name in (PRODUCT, RESET):
            return self.kernel(nest)
        own = (PRODUCT, RESET, FILL, STORE, SCALED_STORE, *LOADS, *ALU)
        raise IrError(f"{name} is no instruction of the accelerator; it has {', '.join(own)}")

    def operand(self, operand: Read) -> _Operand:
        return _Operand(operand.buffer, element_form(operand, self.bases.get(operand.buffer.name, 0)))

    # Transfers

    def load(self, nest: Nest) -> Action:
        name, (chip, dram, *inside) = nest.call.name, nest.call.operands
        record = partial(self.builder.load, LOADS[_load_of(name)], pad_minimum=name.endswith(LEAST_PADDED))
        return self.transfer(nest, self.operand(chip), self.operand(dram), conditions_of(inside[0]) if inside else [], lambda values: record)

    def store(self, nest: Nest) -> Action:
        """Record STOREs, one for each set of parameters: the loops over sets stand outside."""
        dram, chip, *kept = (self.operand(operand) for operand in nest.call.operands)
        if not kept:
            return self.transfer(nest, chip, dram, [], lambda values: self.builder.store)
        walked = {name: nest.loops[name] for name, _ in kept[0].form.terms if name in nest.loops}
        inner = replace(nest, loops={name: extent for name, extent in nest.loops.items() if name not in walked})
        first = evaluated(kept[0].form)
        action = self.transfer(inner, chip, dram, [], lambda values: partial(self.builder.store, parameters=_parameter_set(first(values))))
        for name, extent in walked.items():
            action = _repeated(name, extent, action)
        return action

    def transfer(self, nest: Nest, chip: _Operand, dram: _Operand, padding: list[Form], record_of: Callable[[Values], Move]) -> Action:
        """Record the transfers of a nest between its operands' memories; `padding` says what lies inside the tensor."""
        (here, on_chip), (there, in_dram) = (operand.form.parted(nest.loops) for operand in (chip, dram))
        first_on_chip, first_in_dram = evaluated(here), evaluated(there)
        tensor = self.tensors.get(dram.buffer.name, dram.buffer.name)

        def fold(values: Values) -> Iterator[Transfer]:
            for fixed, ranges in boxes(nest.conditions, nest.loops, values):
                yield from _transfers(on_chip, in_dram, padding, fixed, ranges)
        transfers = _once_each((*nest.conditions, *padding), nest.loops, fold)

        def act(values: Values) -> None:
            on, off, record = first_on_chip(values), first_in_dram(values), record_of(values)
            for part in transfers(values):
                first = off + part.dram if part.rows.height else 0  # nothing but padding: read from nowhere
                record(on + part.chip, tensor, first, part.rows)
        return act

    # Kernels

    def kernel(self, nest: Nest) -> Action:
        operands = [self.operand(operand) for operand in nest.call.operands if isinstance(operand, Read)]
        immediate = next((int(operand.value) for operand in nest.call.operands if isinstance(operand, Const)), None)
        if nest.call.name not in (PRODUCT, RESET):
            operands = self.in_place(nest.call, operands)
        record = self.recorder(nest.call.name, immediate)

        def fold(base: Base, steps: dict[str, Steps], values: Values) -> Recorded:
            return self.folded(record, steps.values(), base)
        return _stepped(nest, operands, fold)

    def started_sum(self, nest: Nest) -> Action:
        """Record products of which the first of each sum overwrites its accumulators; a condition says where sums start."""
        operands = [self.operand(operand) for operand in nest.call.operands[:3]]
        starts, = conditions_of(nest.call.operands[3])
        gemm = self.builder.gemm

        def fold(base: Base, steps: dict[str, Steps], values: Values) -> Recorded:
            passed, free = starts.at(values, steps)
            if passed < 0:
                return self.folded(gemm, steps.values(), base)
            summed = {name for name, _ in free}
            outer, inner = (tuple(step for name, step in steps.items() if (name in summed) is inside) for inside in (False, True))
            found = fold_sum(outer, inner, base, self.config)
            if found is None:
                return self.folded(partial(gemm, reset=True), outer, base) + self.folded(gemm, steps.values(), base)
            first, others = found
            return [(partial(gemm, overwrite=True), first)] + [(gemm, others)] * (others is not None)
        return _stepped(nest, operands, fold, starts)

    def folded(self, record: Record, steps: Iterable[Steps], base: Base) -> Recorded:
        return [(record, kernel) for kernel in folded_kernels(tuple(steps), base, self.config)]

    def filled(self, nest: Nest) -> Action:
        """Record accumulators set to a constant: to 0, and from there."""
        operand, constant = self.operand(nest.call.operands[0]), int(nest.call.operands[1].value)

        def fold(base: Base, steps: dict[str, Steps], values: Values) -> Recorded:
            to_zero = self.folded(partial(self.builder.gemm, reset=True), steps.values(), base)
            moved = self.folded(partial(self.builder.alu, AluOpcode.ADD, imm=constant), steps.values(), base)
            return to_zero + moved * (constant != 0)
        return _stepped(nest, [operand, operand], fold)

    def in_place(self, call: Call, operands: list[_Operand]) -> list[_Operand]:
        """Return destination and source of an operation whose first operand must be its destination."""
        dst, left, *right = operands
        if right and dst != left and dst == right[0]:
            left, right = right[0], [left]
        if dst != left:
            raise IrError(f"{call.name} changes accumulators in place, but its result {dst.buffer.name} and its operand {left.buffer.name} are kept "
                          f"apart: something else still reads {left.buffer.name}, or they are computed at different loops")
        return [dst, *right] if right else [dst, dst]

    def recorder(self, name: str, immediate: int | None) -> Record:
        if name in (PRODUCT, RESET):
            return partial(self.builder.gemm, reset=name == RESET)
        return partial(self.builder.alu, ALU[name], imm=immediate)


def _elements(buffer: Buffer) -> int:
    """Return the elements of a buffer on chip."""
    return prod(buffer.shape[:-TILE_RANK])


def _load_of(name: str) -> str:
    """Return the name of a load without what it says of borders."""
    return name.removesuffix(LEAST_PADDED).removesuffix(PADDED)


def _parameter_set(element: int) -> int:
    """Return the number of the set of parameters that begins with an accumulator."""
    number, rest = divmod(element, len(Parameter))
    if rest:
        raise IrError(f"parameters begin in accumulator {element}, which is no multiple of {len(Parameter)}; keep whole sets in a buffer")
    return number + 1


def _once_each(forms: Iterable[Form], loops: Mapping[str, int], find: Callable[[Values], Iterable[Found]]) -> Callable[[Values], tuple[Found, ...]]:
    """Return `find`, asked once for each set of values of the variables that `forms` have outside `loops`: it depends on nothing else."""
    names = sorted({name for form in forms for name, _ in form.terms if name not in loops})
    key_of = itemgetter(*names) if names else lambda values: None
    known: dict[object, tuple[Found, ...]] = {}

    def found(values: Values) -> tuple[Found, ...]:
        key = key_of(values)
        if key not in known:
            known[key] = tuple(find(values))
        return known[key]
    return found


def _transfers(chip: Form, dram: Form, padding: list[Form], values: Values, ranges: Ranges) -> Iterator[Transfer]:
    """Return what moves a box of a nest's iterations."""
    loops, start = _box(ranges)
    (here, on_chip), (there, in_dram) = (_moved(form, values, loops, start) for form in (chip, dram))
    box = inside_box(tuple(_shifted(form, start) for form in padding), loops, values)
    dimensions = [Dimension(trips, on_chip.get(name, 0), in_dram.get(name, 0), *(box[name] if box else (0, 0))) for name, trips in loops.items()]
    return fold_transfer(dimensions, here, there, inside=box is not None)


def _stepped(nest: Nest, operands: list[_Operand], fold: Callable[[Base, dict[str, Steps], Values], Recorded], *forms: Form) -> Action:
    """Return the action that records what `fold` makes of a nest: its first step's elements, and what each loop adds to them.

    Args:
        forms: what `fold` depends on besides.
    """
    def find(values: Values) -> Iterator[tuple[Record, Kernel]]:
        for fixed, ranges in boxes(nest.conditions, nest.loops, values):
            yield from fold(*_steps(operands, fixed, ranges), fixed)
    kernels = _once_each((*nest.conditions, *(operand.form for operand in operands), *forms), nest.loops, find)

    def act(values: Values) -> None:
        for record, kernel in kernels(values):
            record(kernel.uops, kernel.outer, kernel.inner)
    return act


def _steps(operands: list[_Operand], values: Values, ranges: Ranges) -> tuple[Base, dict[str, Steps]]:
    """Return the elements of a nest's first step, and what each loop adds to them."""
    loops, start = _box(ranges)
    moved = [_moved(operand.form, values, loops, start) for operand in operands]
    missing = (0,) * (3 - len(operands))
    base = (*(place for place, _ in moved), *missing)
    return base, {name: Steps(trips, (*(step.get(name, 0) for _, step in moved), *missing)) for name, trips in loops.items()}


def _box(ranges: Ranges) -> tuple[dict[str, int], Values]:
    """Return the extents of a box's loops, and their first iterations."""
    return {name: high - low for name, (low, high) in ranges.items()}, {name: low for name, (low, _) in ranges.items()}


def _in_turn(actions: list[Action]) -> Action:
    def act(values: Values) -> None:
        for action in actions:
            action(values)
    return act


def _repeated(name: str, extent: int, action: Action) -> Action:
    def act(values: Values) -> None:
        for value in range(extent):
            values[name] = value
            action(values)
        del values[name]
    return act


def _conditional(conditions: list[Form], action: Action) -> Action:
    def act(values: Values) -> None:
        if all(form.at(values, {})[0] >= 0 for form in conditions):
            action(values)
    return act


def _moved(form: Form, values: Values, loops: dict[str, int], start: Values) -> tuple[int, dict[str, int]]:
    """Return the first element of a nest's operand, and its step in each loop."""
    fixed, free = form.at(values, loops)
    return fixed + sum(factor * start[name] for name, factor in free), dict(free)


def _shifted(form: Form, start: Values) -> Form:
    """Return a condition's form for loops that begin at 0 instead of `start`."""
    return Form(form.constant + sum(factor * start.get(name, 0) for name, factor in form.terms), form.terms)
