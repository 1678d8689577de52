"""Loop programs of intrinsics to instruction streams: outer loops are walked here, inner ones folded into instructions."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from vdla.compiler.codegen.fold import Dimension, Steps, fold_sum, folded_kernels, folded_transfers
from vdla.compiler.codegen.intrinsics import FILL, LEAST_PADDED, LOADS, PADDED, SCALED_STORE, STORE
from vdla.compiler.codegen.kernel import TILE_RANK, Form, Nest, Ranges, boxes, conditions_of, element_form, inside_box, nest_of
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
from vdla.runtime.builder import Rows, Stream, StreamBuilder

BEFORE_EMISSION = (InPlace(), InterleaveVirtualThreads())
SCRATCHPADS = {Scope.INPUT: MemoryType.INP, Scope.WEIGHT: MemoryType.WGT, Scope.ACCUMULATOR: MemoryType.ACC, Scope.PARAMETERS: MemoryType.ACC}
ALU = {f"{opcode.name.lower()}{end}": opcode for opcode in AluOpcode for end in ("", "_imm")}

Values = dict[str, int]
Action = Callable[[Values], None]
Record = Callable[[int, str, int, Rows], None]  # of a transfer: element on chip, tensor, its element, rows
Base = tuple[int, int, int]  # elements of a step's operands


def pipeline(config: AcceleratorConfig) -> tuple:
    """Return the passes that come before emission for `config`."""
    return (StartSums(), *BEFORE_EMISSION) if config.has(Extension.OVERWRITE) else BEFORE_EMISSION


def lower_to_calls(func: Func, config: AcceleratorConfig) -> Func:
    """Return `func` after the passes that come before emission."""
    for item in pipeline(config):
        func = item.run(func)
        verify(func)
    return func


def emit(func: Func, builder: StreamBuilder) -> None:
    """Record the instructions of a program whose every statement is an intrinsic's.

    Raises:
        IrError: a statement is none, a buffer does not fit its memory, or a subscript does not move evenly.
    """
    lowered = lower_to_calls(func, builder.config)
    _Emitter(builder, lowered).statement(lowered.body)({})


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

    def __init__(self, builder: StreamBuilder, func: Func) -> None:
        self.builder = builder
        self.config = builder.config
        self.bases: dict[str, int] = {}
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
        if _load_of(name) in LOADS or name == STORE:
            return self.transfer(nest)
        if name == SCALED_STORE:
            return self.scaled_store(nest)
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

    def transfer(self, nest: Nest) -> Action:
        """Record a LOAD, or a STORE that keeps the low bits."""
        name, (one, other, *inside) = nest.call.name, nest.call.operands
        if name == STORE:
            return self.moved(nest, self.operand(other), self.operand(one), [], lambda values: self.builder.store)
        return self.moved(nest, self.operand(one), self.operand(other), conditions_of(inside[0]) if inside else [], self.record_load(name))

    def scaled_store(self, nest: Nest) -> Action:
        """Record STOREs, one for each set of parameters: the loops over sets stand outside."""
        dram, chip, kept = (self.operand(operand) for operand in nest.call.operands)
        walked = {name: nest.loops[name] for name, _ in kept.form.terms if name in nest.loops}
        inner = replace(nest, loops={name: extent for name, extent in nest.loops.items() if name not in walked})
        first = _first_element(kept.form, {})

        def record(values: Values) -> Record:
            return partial(self.builder.store, parameters=_parameter_set(first(values)))
        action = self.moved(inner, chip, dram, [], record)
        for name, extent in walked.items():
            action = _repeated(name, extent, action)
        return action

    def moved(self, nest: Nest, chip: _Operand, dram: _Operand, padding: list[Form], record: Callable[[Values], Record]) -> Action:
        """Record the transfers of a nest between its operands' memories; `padding` says what lies inside the tensor."""
        if not nest.conditions and not padding:
            return self.whole_transfer(nest.loops, chip, dram, record)

        def act(values: Values, ranges: Ranges) -> None:
            loops = {name: high - low for name, (low, high) in ranges.items()}
            start = {name: low for name, (low, _) in ranges.items()}
            here, on_chip = _moved(chip.form, values, loops, start)
            there, in_dram = _moved(dram.form, values, loops, start)
            box = inside_box(tuple(_shifted(form, start) for form in padding), loops, values)
            dimensions = tuple(Dimension(trips, on_chip.get(name, 0), in_dram.get(name, 0), *(box[name] if box else (0, 0)))
                               for name, trips in loops.items())
            write = record(values)
            for part in folded_transfers(dimensions, box is not None):
                first = there + part.dram if part.rows.height else 0  # nothing but padding: read from nowhere
                write(here + part.chip, dram.buffer.name, first, part.rows)
        return _boxed(nest, act)

    def whole_transfer(self, loops: dict[str, int], chip: _Operand, dram: _Operand, record: Callable[[Values], Record]) -> Action:
        """Record a transfer of which no iteration is ever cut off: the same instructions each time, at other elements."""
        on_chip, in_dram = (dict(form.at(_Zeros(), loops)[1]) for form in (chip.form, dram.form))
        parts = folded_transfers(tuple(Dimension(trips, on_chip.get(name, 0), in_dram.get(name, 0), 0, trips) for name, trips in loops.items()), True)
        here, there, tensor = _first_element(chip.form, loops), _first_element(dram.form, loops), dram.buffer.name

        def act(values: Values) -> None:
            on, off, write = here(values), there(values), record(values)
            for part in parts:
                write(on + part.chip, tensor, off + part.dram, part.rows)
        return act

    def record_load(self, name: str) -> Callable[[Values], Record]:
        write = partial(self.builder.load, LOADS[_load_of(name)], pad_minimum=name.endswith(LEAST_PADDED))
        return lambda values: write

    # Kernels

    def kernel(self, nest: Nest) -> Action:
        operands = [self.operand(operand) for operand in nest.call.operands if isinstance(operand, Read)]
        immediate = next((int(operand.value) for operand in nest.call.operands if isinstance(operand, Const)), None)
        if nest.call.name not in (PRODUCT, RESET):
            operands = self.in_place(nest.call, operands)
        record = self.recorder(nest.call.name, immediate)

        def act(base: Base, steps: dict[str, Steps], values: Values) -> None:
            for kernel in folded_kernels(tuple(steps.values()), base, self.config):
                record(kernel.uops, kernel.outer, kernel.inner)
        return _stepped(nest, operands, act)

    def started_sum(self, nest: Nest) -> Action:
        """Record products of which the first of each sum overwrites its accumulators; a condition says where sums start."""
        operands = [self.operand(operand) for operand in nest.call.operands[:3]]
        starts, = conditions_of(nest.call.operands[3])

        def act(base: Base, steps: dict[str, Steps], values: Values) -> None:
            passed, free = starts.at(values, steps)
            if passed < 0:
                self.record_products(steps.values(), base)
                return
            summed = {name for name, _ in free}
            outer, inner = (tuple(step for name, step in steps.items() if (name in summed) is inside) for inside in (False, True))
            folded = fold_sum(outer, inner, base, self.config)
            if folded is None:
                self.record_products(outer, base, reset=True)
                self.record_products(steps.values(), base)
                return
            self.builder.gemm(folded[0].uops, folded[0].outer, folded[0].inner, overwrite=True)
            if folded[1] is not None:
                self.builder.gemm(folded[1].uops, folded[1].outer, folded[1].inner)
        return _stepped(nest, operands, act)

    def record_products(self, steps: Iterable[Steps], base: Base, *, reset: bool = False) -> None:
        for kernel in folded_kernels(tuple(steps), base, self.config):
            self.builder.gemm(kernel.uops, kernel.outer, kernel.inner, reset=reset)

    def filled(self, nest: Nest) -> Action:
        """Record accumulators set to a constant: to 0, and from there."""
        operand, constant = self.operand(nest.call.operands[0]), int(nest.call.operands[1].value)

        def act(base: Base, steps: dict[str, Steps], values: Values) -> None:
            for kernel in folded_kernels(tuple(steps.values()), base, self.config):
                self.builder.gemm(kernel.uops, kernel.outer, kernel.inner, reset=True)
                if constant:
                    self.builder.alu(AluOpcode.ADD, kernel.uops, kernel.outer, kernel.inner, imm=constant)
        return _stepped(nest, [operand, operand], act)

    def in_place(self, call: Call, operands: list[_Operand]) -> list[_Operand]:
        """Return destination and source of an operation whose first operand must be its destination."""
        dst, left, *right = operands
        if right and dst != left and dst == right[0]:
            left, right = right[0], [left]
        if dst != left:
            raise IrError(f"{call.name} changes accumulators in place, but its result {dst.buffer.name} and its operand {left.buffer.name} are kept "
                          f"apart: something else still reads {left.buffer.name}, or they are computed at different loops")
        return [dst, *right] if right else [dst, dst]

    def recorder(self, name: str, immediate: int | None):
        if name in (PRODUCT, RESET):
            return lambda uops, outer, inner: self.builder.gemm(uops, outer, inner, reset=name == RESET)
        return lambda uops, outer, inner: self.builder.alu(ALU[name], uops, outer, inner, imm=immediate)


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


class _Zeros(dict):
    """Variables that are all 0."""

    def __missing__(self, name: str) -> int:
        return 0


def _first_element(form: Form, loops: dict[str, int]) -> Callable[[Values], int]:
    """Return the function that gives the element of a nest's first iteration."""
    constant, terms = form.constant, tuple((name, factor) for name, factor in form.terms if name not in loops)

    def element(values: Values) -> int:
        place = constant
        for name, factor in terms:
            place += factor * values[name]
        return place
    return element


def _stepped(nest: Nest, operands: list[_Operand], visit: Callable[[Base, dict[str, Steps], Values], None]) -> Action:
    """Return the action that visits a nest with its first step's elements and what each loop adds to them."""
    missing = (0,) * (3 - len(operands))
    if nest.conditions:
        return _boxed(nest, lambda values, ranges: visit(*_steps(operands, missing, values, ranges), values))
    _, steps = _steps(operands, missing, _Zeros(), {name: (0, extent) for name, extent in nest.loops.items()})
    firsts = [_first_element(operand.form, nest.loops) for operand in operands]

    def act(values: Values) -> None:
        visit((*(first(values) for first in firsts), *missing), steps, values)
    return act


def _steps(operands: list[_Operand], missing: tuple[int, ...], values: Values, ranges: Ranges) -> tuple[Base, dict[str, Steps]]:
    """Return the elements of a nest's first step, and what each loop adds to them."""
    loops = {name: high - low for name, (low, high) in ranges.items()}
    start = {name: low for name, (low, _) in ranges.items()}
    moved = [_moved(operand.form, values, loops, start) for operand in operands]
    base = (*(place for place, _ in moved), *missing)
    return base, {name: Steps(trips, (*(step.get(name, 0) for _, step in moved), *missing)) for name, trips in loops.items()}


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


def _boxed(nest: Nest, visit: Callable[[Values, Ranges], None]) -> Action:
    def act(values: Values) -> None:
        boxes(nest.conditions, nest.loops, values, visit)
    return act


def _moved(form: Form, values: Values, loops: dict[str, int], start: Values) -> tuple[int, dict[str, int]]:
    """Return the first element of a nest's operand, and its step in each loop."""
    fixed, free = form.at(values, loops)
    return fixed + sum(factor * start[name] for name, factor in free), dict(free)


def _shifted(form: Form, start: Values) -> Form:
    """Return a condition's form for loops that begin at 0 instead of `start`."""
    return Form(form.constant + sum(factor * start.get(name, 0) for name, factor in form.terms), form.terms)
