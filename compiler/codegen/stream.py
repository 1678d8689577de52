"""Loop programs of intrinsics to instruction streams: outer loops are walked here, inner ones folded into instructions."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod

from vdla.compiler.codegen.fold import Dimension, Steps, fold_sum, folded_kernels, folded_transfers
from vdla.compiler.codegen.intrinsics import NARROW_NAME
from vdla.compiler.codegen.kernel import TILE_RANK, Form, Nest, Ranges, boxes, conditions_of, element_form, inside_box, nest_of
from vdla.compiler.ir.nodes import Alloc, Block, Buffer, Call, Const, For, Func, If, IrError, Read, Scope, Stmt
from vdla.compiler.ir.text import print_stmt
from vdla.compiler.ir.verify import verify
from vdla.compiler.passes.inplace import InPlace
from vdla.compiler.passes.start_sums import PRODUCT, RESET, STARTED, StartSums
from vdla.compiler.passes.virtual_threads import InterleaveVirtualThreads
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType
from vdla.runtime.builder import Stream, StreamBuilder

BEFORE_EMISSION = (InPlace(), InterleaveVirtualThreads())
SCRATCHPADS = {Scope.INPUT: MemoryType.INP, Scope.WEIGHT: MemoryType.WGT, Scope.ACCUMULATOR: MemoryType.ACC}
LOADS = {"load_inp": MemoryType.INP, "load_inp_padded": MemoryType.INP, "load_wgt": MemoryType.WGT,
         "load_acc": MemoryType.ACC, "load_acc8": MemoryType.ACC_8BIT}
ALU = {f"{opcode.name.lower()}{end}": opcode for opcode in AluOpcode for end in ("", "_imm")}

Values = dict[str, int]
Action = Callable[[Values], None]
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
    _Emitter(builder).statement(lower_to_calls(func, builder.config).body)({})


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

    def __init__(self, builder: StreamBuilder) -> None:
        self.builder = builder
        self.config = builder.config
        self.bases: dict[str, int] = {}
        self.used = dict.fromkeys(SCRATCHPADS, 0)

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
        elements, depth = prod(buffer.shape[:-TILE_RANK]), self.config.depth(SCRATCHPADS[buffer.scope])
        first = self.used[buffer.scope]
        if first + elements > depth:
            raise IrError(f"buffer {buffer.name} of {elements} elements does not fit the {buffer.scope.value} memory: it holds {depth}, "
                          f"and {first} are taken; use smaller tiles or fewer virtual threads")
        self.bases[buffer.name], self.used[buffer.scope] = first, first + elements
        action = self.statement(body)
        self.used[buffer.scope] = first
        return action

    def nest(self, nest: Nest) -> Action:
        call = nest.call
        if call.name in LOADS or call.name == "store":
            return self.transfer(nest)
        if call.name == STARTED:
            return self.started_sum(nest)
        if call.name in ALU or call.name in (PRODUCT, RESET) or call.name.startswith(NARROW_NAME):
            return self.kernel(nest)
        raise IrError(f"{call.name} is no instruction of the accelerator; it has gemm, reset, store, {', '.join((*LOADS, *ALU))}")

    def operand(self, operand: Read) -> _Operand:
        return _Operand(operand.buffer, element_form(operand, self.bases.get(operand.buffer.name, 0)))

    # Transfers

    def transfer(self, nest: Nest) -> Action:
        call = nest.call
        chip, dram = (self.operand(operand) for operand in call.operands[:2])
        if call.name == "store":
            chip, dram = dram, chip
        padding = conditions_of(call.operands[2]) if len(call.operands) > 2 else []
        record = self.record_store if call.name == "store" else self.record_load(LOADS[call.name])
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
            for part in folded_transfers(dimensions, box is not None):
                first = there + part.dram if part.rows.height else 0  # nothing but padding: read from nowhere
                record(here + part.chip, dram.buffer.name, first, part.rows)
        return _boxed(nest, act)

    def whole_transfer(self, loops: dict[str, int], chip: _Operand, dram: _Operand, record) -> Action:
        """Record a transfer of which no iteration is ever cut off: the same instructions each time, at other elements."""
        on_chip, in_dram = (dict(form.at(_Zeros(), loops)[1]) for form in (chip.form, dram.form))
        parts = folded_transfers(tuple(Dimension(trips, on_chip.get(name, 0), in_dram.get(name, 0), 0, trips) for name, trips in loops.items()), True)
        here, there, tensor = _first_element(chip.form, loops), _first_element(dram.form, loops), dram.buffer.name

        def act(values: Values) -> None:
            on, off = here(values), there(values)
            for part in parts:
                record(on + part.chip, tensor, off + part.dram, part.rows)
        return act

    def record_load(self, memory: MemoryType):
        def record(chip: int, tensor: str, dram: int, rows) -> None:
            self.builder.load(memory, chip, tensor, dram, rows)
        return record

    def record_store(self, chip: int, tensor: str, dram: int, rows) -> None:
        self.builder.store(chip, tensor, dram, rows)

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
        if name.startswith(NARROW_NAME):
            control = int(name.removeprefix(NARROW_NAME))
            return lambda uops, outer, inner: self.builder.alu(AluOpcode.NARROW, uops, outer, inner, imm=control)
        return lambda uops, outer, inner: self.builder.alu(ALU[name], uops, outer, inner, imm=immediate)


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
