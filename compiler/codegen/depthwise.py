"""Emission of DEPTHWISE instructions for loop nests."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from vdla.compiler.codegen.actions import Action, IndexedBuffer, Known, Values, memoized
from vdla.compiler.codegen.compute import Base, steps_of
from vdla.compiler.codegen.emission import Emission
from vdla.compiler.codegen.hardware_loops import Steps, fits_hardware_loop, iteration_elements
from vdla.compiler.codegen.nest import AffineSum, Nest, condition_boxes, conditions_of
from vdla.compiler.ir.nodes import Const, IrError
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import LOOP_BITS
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import Loop
from vdla.runtime.stream.micro_kernels import MicroKernel

LONGEST_ROW = (1 << LOOP_BITS) - 1
ALWAYS_ADDS = AffineSum(-1, ())


@dataclass(frozen=True, slots=True)
class WindowInstruction:
    """A DEPTHWISE instruction; its inner loop steps from column to column."""

    uops: MicroKernel
    outer: Loop
    inner: Loop
    stride_2: bool
    overwrite: bool


def window_sum(emission: Emission, nest: Nest) -> Action:
    """Emit sums over windows that are added to accumulators: slide(acc, left, middle, right, wgt)."""
    return _nest_action(emission, nest, ALWAYS_ADDS)


def started_window_sum(emission: Emission, nest: Nest) -> Action:
    """Emit sums over windows of which the first overwrites its accumulators: slide_from(acc, left, middle,
    right, wgt, first)."""
    condition = nest.call.operands[-1]
    if isinstance(condition, Const):
        return _nest_action(emission, nest, AffineSum(0 if condition.value else -1, ()))
    (starts,) = conditions_of(condition)
    return _nest_action(emission, nest, starts)


def _nest_action(emission: Emission, nest: Nest, starts: AffineSum) -> Action:
    """Return the action that records a nest. Accumulators are overwritten if `starts` is not negative."""
    operands, column = _operands_and_column(emission.tiles(nest.call))

    def find(values: Values) -> Iterator[WindowInstruction]:
        for fixed, ranges in condition_boxes(nest.conditions, nest.loops, values):
            base, steps = steps_of(operands, fixed, ranges)
            summed = _overwriting_loops(starts, steps, fixed)
            yield from window_instructions(steps, summed, base, column, emission.config)

    sums = (*nest.conditions, *(operand.index for operand in operands), starts)
    instructions = memoized(sums, nest.loops, find)

    def act(values: Values) -> None:
        for instruction in instructions(values):
            emission.builder.depthwise(
                instruction.uops,
                instruction.outer,
                instruction.inner,
                stride_2=instruction.stride_2,
                overwrite=instruction.overwrite,
            )

    return act


def _operands_and_column(tiles: list[IndexedBuffer]) -> tuple[list[IndexedBuffer], int]:
    """Return accumulators, first column and weights, and the step from column to column.

    Raises:
        IrError: the columns are not equidistant.
    """
    acc, left, middle, right, wgt = tiles
    step = middle.index.constant - left.index.constant
    for place, column in enumerate((middle, right), 1):
        moved = AffineSum(left.index.constant + place * step, left.index.terms)
        if column.buffer != left.buffer or column.index != moved:
            raise IrError(f"the columns of a window in {left.buffer.name} are not equidistant")
    return [acc, left, wgt], step


def _overwriting_loops(starts: AffineSum, steps: dict[str, Steps], values: Known) -> frozenset[str] | None:
    """Return the loops in whose first iteration accumulators are overwritten; None if they never are."""
    fixed, free = starts.at(values, steps)
    return None if fixed < 0 else frozenset(name for name, _ in free)


def window_instructions(
    loops: dict[str, Steps], summed: frozenset[str] | None, base: Base, column: int, config: AcceleratorConfig
) -> Iterator[WindowInstruction]:
    """Yield the instructions that iterate over `loops` from `base` on.

    The longest loop with a step of one or two columns becomes the inner hardware loop. The longest remaining
    loop that is not a sum becomes the outer hardware loop. All other loops are unrolled into micro-ops.

    Args:
        summed: loops over the terms of a sum, whose first step overwrites; None: every step accumulates.
        column: step from column to column.

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
    others = [steps for name, steps in moving.items() if name not in (summed or ())]
    _check_room([*of_sums, *others], config)
    uops = iteration_elements([*of_sums, *others], base)
    first = prod(steps.trips for steps in others) if summed is not None else 0
    loop = Loop(outer.trips, *outer.steps), Loop(inner.trips, inner.steps[0], column)
    for part, overwrite in ((uops[:first], True), (uops[first:], False)):
        if part:
            yield WindowInstruction(MicroKernel(part), *loop, inner.steps[1] == 2 * column, overwrite)


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
    return slides and steps.trips <= LONGEST_ROW


def _check_room(loops: Sequence[Steps], config: AcceleratorConfig) -> None:
    count, most = prod(steps.trips for steps in loops), config.depth(MemoryType.UOP) // 2
    if count > most:
        raise IrError(
            f"the windows of a tile take {count} micro-ops, and {config.name} has room for {most}; use "
            "smaller tiles"
        )
