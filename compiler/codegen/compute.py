"""Emission of GEMM, ALU and DEPTHWISE instructions for loop nests."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from vdla.compiler.codegen.emission import (
    Action,
    Emission,
    IndexedBuffer,
    Known,
    Values,
    box_of,
    first_and_steps,
    immediate,
    memoized,
)
from vdla.compiler.codegen.hardware_loops import (
    ComputeInstruction,
    Steps,
    compute_instructions,
    fits_hardware_loop,
    iteration_elements,
    sum_instructions,
)
from vdla.compiler.codegen.nest import AffineSum, Nest, Ranges, condition_boxes, conditions_of
from vdla.compiler.ir.calls import Call
from vdla.compiler.ir.nodes import IrError, Read
from vdla.hw.spec import encoding, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType
from vdla.runtime.stream.builder import Loop
from vdla.runtime.stream.micro_kernels import MicroKernel

Base = tuple[int, int, int]  # elements of the operands (dst, src, wgt)
Record = Callable[[MicroKernel, Loop, Loop], None]
Recorded = list[tuple[Record, ComputeInstruction]]
LoopSteps = Mapping[str, Steps]  # trips and operand steps of each loop


def reset(emission: Emission, nest: Nest) -> Action:
    """Emit resets of accumulators to 0: reset(acc)."""
    return _operation(emission, nest, emission.tiles(nest.call), partial(emission.builder.gemm, reset=True))


def product(emission: Emission, nest: Nest) -> Action:
    """Emit products that are added to accumulators: gemm(acc, inp, wgt). The products of gemm_from(acc, inp,
    wgt, first) for which `first` holds overwrite them."""
    starts, gemm = _starts_of(nest.call), emission.builder.gemm

    def mapped(base: Base, steps: LoopSteps, values: Known) -> Recorded:
        summed = _overwriting_loops(starts, steps, values)
        if summed is None:
            return _instructions_over(gemm, steps.values(), base, emission.config)
        outer, inner = (
            tuple(step for name, step in steps.items() if (name in summed) is inside)
            for inside in (False, True)
        )
        pair = sum_instructions(outer, inner, base, emission.config)
        if pair is None:
            resets = _instructions_over(partial(gemm, reset=True), outer, base, emission.config)
            return resets + _instructions_over(gemm, steps.values(), base, emission.config)
        first, further = pair
        started: Recorded = [(partial(gemm, overwrite=True), first)]
        return started if further is None else [*started, (gemm, further)]

    return _nest_action(nest, emission.tiles(nest.call), mapped, starts)


def _starts_of(call: Call) -> AffineSum:
    """Return an affine sum that is at least 0 exactly if the call overwrites its accumulators. It expresses
    the condition in the last operand; without a condition it is -1."""
    if isinstance(call.operands[-1], Read):  # the call has no condition
        return AffineSum(-1, ())
    (starts,) = conditions_of(call.operands[-1]) or [AffineSum(0, ())]
    return starts


def _overwriting_loops(starts: AffineSum, steps: LoopSteps, values: Known) -> frozenset[str] | None:
    """Return the loops in whose first iteration accumulators are overwritten; None if they never are."""
    fixed, free = starts.at(values, steps)
    return None if fixed < 0 else frozenset(name for name, _ in free)


def fill(emission: Emission, nest: Nest) -> Action:
    """Emit fills of accumulators with a constant, by a reset and an addition: fill(dst, imm)."""
    (operand,) = emission.tiles(nest.call)
    constant = immediate(nest.call.operands[-1])
    builder, config = emission.builder, emission.config

    def mapped(base: Base, steps: LoopSteps, values: Known) -> Recorded:
        to_zero = _instructions_over(partial(builder.gemm, reset=True), steps.values(), base, config)
        additions = _instructions_over(
            partial(builder.alu, AluOpcode.ADD, imm=constant), steps.values(), base, config
        )
        return to_zero + additions * (constant != 0)

    return _nest_action(nest, [operand, operand], mapped)


def alu(opcode: AluOpcode, emission: Emission, nest: Nest) -> Action:
    """Emit an ALU operation on accumulators: dst = left op right, where dst is left or right, or dst = left
    op imm."""
    right = nest.call.operands[-1]
    constant = None if isinstance(right, Read) else immediate(right)
    operands = _in_place(nest.call, emission.tiles(nest.call))
    return _operation(emission, nest, operands, partial(emission.builder.alu, opcode, imm=constant))


def _in_place(call: Call, operands: list[IndexedBuffer]) -> list[IndexedBuffer]:
    """Return destination and source of an ALU operation.

    Raises:
        IrError: neither operand is the destination.
    """
    dst, left, *right = operands
    if right and dst != left and dst == right[0]:
        left, right = right[0], [left]
    if dst != left:
        raise IrError(
            f"{call.name} changes accumulators in place, but its result {dst.buffer.name} and its operand "
            f"{left.buffer.name} have separate buffers: {left.buffer.name} has another reader, or they are "
            "computed at different loops"
        )
    return [dst, *right] if right else [dst, dst]


def _instructions_over(
    record: Record, steps: Iterable[Steps], base: Base, config: AcceleratorConfig
) -> Recorded:
    """Return the instructions that iterate over `steps` from `base` on, each with its recorder."""
    return [(record, instruction) for instruction in compute_instructions(tuple(steps), base, config)]


def _operation(emission: Emission, nest: Nest, operands: list[IndexedBuffer], record: Record) -> Action:
    """Return the action that records a single operation for every step of a nest."""
    return _nest_action(
        nest,
        operands,
        lambda base, steps, values: _instructions_over(record, steps.values(), base, emission.config),
    )


def _nest_action(
    nest: Nest,
    operands: list[IndexedBuffer],
    mapped: Callable[[Base, LoopSteps, Known], Recorded],
    *sums: AffineSum,
) -> Action:
    """Return the action that records the instructions of a nest.

    Args:
        mapped: returns the instructions of a box of iterations, given the operands of its first step, the
            steps of its loops, and the values of all other variables.
        sums: further sums that `mapped` depends on.
    """

    def find(values: Values) -> Iterator[tuple[Record, ComputeInstruction]]:
        for fixed, ranges in condition_boxes(nest.conditions, nest.loops, values):
            yield from mapped(*steps_of(operands, fixed, ranges), fixed)

    instructions = memoized(
        (*nest.conditions, *(operand.index for operand in operands), *sums), nest.loops, find
    )

    def act(values: Values) -> None:
        for record, instruction in instructions(values):
            record(instruction.uops, instruction.outer, instruction.inner)

    return act


def steps_of(operands: list[IndexedBuffer], values: Known, ranges: Ranges) -> tuple[Base, dict[str, Steps]]:
    """Return the operands of the first step of a box of iterations, and the steps of its loops."""
    loops, start = box_of(ranges)
    places = [first_and_steps(operand.index, values, loops, start) for operand in operands]
    base = _by_operand(place for place, _ in places)
    return base, {
        name: Steps(trips, _by_operand(step.get(name, 0) for _, step in places))
        for name, trips in loops.items()
    }


def _by_operand(numbers: Iterable[int]) -> Base:
    """Return a number per operand (dst, src, wgt); 0 for missing operands."""
    dst, src, wgt, *_ = (*numbers, 0, 0)
    return dst, src, wgt


@dataclass(frozen=True, slots=True)
class WindowInstruction(ComputeInstruction):
    """A DEPTHWISE instruction; its inner loop steps from column to column.

    Attributes:
        window: rows, columns, and elements from row to row.
    """

    window: tuple[int, int, int]
    stride_2: bool
    overwrite: bool


def window_sum(columns: int, emission: Emission, nest: Nest) -> Action:
    """Emit sums over windows that are added to accumulators: slide_RxC(acc, inp_0_0, inp_0_1, ..., wgt). The
    sums of slide_RxC_from(acc, inp_0_0, ..., wgt, first) for which `first` holds overwrite them."""
    operands, column, window = _operands_and_window(emission.tiles(nest.call), columns)
    starts = _starts_of(nest.call)

    def mapped(base: Base, steps: LoopSteps, values: Known) -> Recorded:
        summed = _overwriting_loops(starts, steps, values)
        return [
            (
                partial(
                    emission.builder.depthwise,
                    window=part.window,
                    stride_2=part.stride_2,
                    overwrite=part.overwrite,
                ),
                part,
            )
            for part in window_instructions(steps, summed, base, column, window, emission.config)
        ]

    return _nest_action(nest, operands, mapped, starts)


def _operands_and_window(
    tiles: list[IndexedBuffer], columns: int
) -> tuple[list[IndexedBuffer], int, tuple[int, int, int]]:
    """Return accumulators, first element and weights; the step from column to column; rows, columns, and the
    step from row to row.

    Raises:
        IrError: the columns or the rows are not equidistant, or the step from row to row is not odd.
    """
    acc, *elements, wgt = tiles
    first, name = elements[0], elements[0].buffer.name
    rows, step = len(elements) // columns, elements[1].index.constant - first.index.constant
    apart = elements[columns].index.constant - first.index.constant if rows > 1 else 1
    for place, element in enumerate(elements):
        added = place // columns * apart + place % columns * step
        moved = AffineSum(first.index.constant + added, first.index.terms)
        if element.buffer != first.buffer or element.index != moved:
            raise IrError(f"the elements of a window in {name} are not equidistant")
    if apart < 0 or apart % 2 == 0:
        raise IrError(
            f"the rows of a window in {name} are {apart} elements apart; a DEPTHWISE needs an odd number"
        )
    return [acc, first, wgt], step, (rows, columns, apart)


def window_instructions(
    loops: LoopSteps,
    summed: frozenset[str] | None,
    base: Base,
    column: int,
    window: tuple[int, int, int],
    config: AcceleratorConfig,
) -> Iterator[WindowInstruction]:
    """Yield the instructions that iterate over `loops` from `base` on.

    The longest loop with a step of one or two columns becomes the inner hardware loop. The longest remaining
    loop that is not a sum becomes the outer hardware loop. All other loops are unrolled into micro-ops.

    Args:
        summed: loops over the terms of a sum, whose first step overwrites; None: every step accumulates.
        column: step from column to column.
        window: rows, columns, and the step from row to row.

    Raises:
        IrError: the micro-ops do not fit their memory.
    """
    moving = {name: steps for name, steps in loops.items() if steps.trips > 1}
    rows = {name for name, steps in moving.items() if _is_row(steps, column, config)}
    inner = _pop_longest(moving, rows, Steps(1, (0, column, 0)))
    repeated = {
        name
        for name, steps in moving.items()
        if name not in (summed or ()) and fits_hardware_loop(steps, config)
    }
    outer = _pop_longest(moving, repeated, Steps(1, (0, 0, 0)))
    of_sums = [steps for name, steps in moving.items() if name in (summed or ())]
    of_results = [steps for name, steps in moving.items() if name not in (summed or ())]
    _check_room([*of_sums, *of_results], config)
    uops = iteration_elements([*of_sums, *of_results], base)
    first = prod(steps.trips for steps in of_results) if summed is not None else 0
    loop = Loop(outer.trips, *outer.steps), Loop(inner.trips, inner.steps[0], column)
    for part, overwrite in ((uops[:first], True), (uops[first:], False)):
        if part:
            yield WindowInstruction(MicroKernel(part), *loop, window, inner.steps[1] == 2 * column, overwrite)


def _pop_longest(loops: dict[str, Steps], names: Collection[str], absent: Steps) -> Steps:
    """Remove the longest of the loops `names`, the first of several; return its steps, or `absent`."""
    candidates = [name for name in loops if name in names]
    if not candidates:
        return absent
    return loops.pop(max(candidates, key=lambda name: loops[name].trips))


def _is_row(steps: Steps, column: int, config: AcceleratorConfig) -> bool:
    """Whether a loop can be the inner hardware loop: a step of one or two columns, and constant weights."""
    dst, src, wgt = steps.steps
    slides = src in (column, 2 * column) and wgt == 0 and 0 <= dst < config.depth(MemoryType.ACC)
    return slides and steps.trips <= encoding.field_of(isa.Depthwise, "iter_in", config).high


def _check_room(loops: Sequence[Steps], config: AcceleratorConfig) -> None:
    count, most = prod(steps.trips for steps in loops), config.depth(MemoryType.UOP) // 2
    if count > most:
        raise IrError(
            f"the windows of a tile take {count} micro-ops, and {config.name} has room for {most}; use "
            "smaller tiles"
        )
