"""GEMM and ALU instructions of nests of loops."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from vdla.compiler.codegen.actions import Action, IndexedBuffer, Known, Values, box_of, moved, once_each
from vdla.compiler.codegen.emission import Emission
from vdla.compiler.codegen.hardware_loops import (
    ComputeInstruction,
    Steps,
    cached_instructions,
    sum_instructions,
)
from vdla.compiler.codegen.nest import AffineSum, Nest, Ranges, boxes, conditions_of
from vdla.compiler.ir.nodes import Call, Const, Expr, IrError
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode
from vdla.runtime.stream.builder import Loop
from vdla.runtime.stream.micro_kernels import MicroKernel

Base = tuple[int, int, int]  # elements of a step's operands
Record = Callable[[MicroKernel, Loop, Loop], None]
Recorded = list[tuple[Record, ComputeInstruction]]
Walk = Mapping[str, Steps]  # what each loop adds to the operands


def product(emission: Emission, nest: Nest) -> Action:
    """Record products that are added to accumulators: gemm(acc, inp, wgt)."""
    return _each_step(emission, nest, emission.tiles(nest.call), emission.builder.gemm)


def reset(emission: Emission, nest: Nest) -> Action:
    """Record accumulators set to 0: reset(acc)."""
    return _each_step(emission, nest, emission.tiles(nest.call), partial(emission.builder.gemm, reset=True))


def started_sum(emission: Emission, nest: Nest) -> Action:
    """Record products of which the first of each sum overwrites its accumulators: gemm_from(acc, inp, wgt,
    first)."""
    (starts,) = conditions_of(nest.call.operands[-1])
    gemm = emission.builder.gemm

    def mapped(base: Base, steps: Walk, values: Known) -> Recorded:
        passed, free = starts.at(values, steps)
        if passed < 0:
            return _walked(gemm, steps.values(), base, emission.config)
        summed = {name for name, _ in free}
        outer, inner = (
            tuple(step for name, step in steps.items() if (name in summed) is inside)
            for inside in (False, True)
        )
        found = sum_instructions(outer, inner, base, emission.config)
        if found is None:
            resets = _walked(partial(gemm, reset=True), outer, base, emission.config)
            return resets + _walked(gemm, steps.values(), base, emission.config)
        first, others = found
        started: Recorded = [(partial(gemm, overwrite=True), first)]
        return started if others is None else [*started, (gemm, others)]

    return _stepped(nest, emission.tiles(nest.call), mapped, starts)


def filled(emission: Emission, nest: Nest) -> Action:
    """Record accumulators set to a constant, to 0 and from there: fill(dst, imm)."""
    (operand,) = emission.tiles(nest.call)
    constant = _constant(nest.call.operands[-1])
    builder, config = emission.builder, emission.config

    def mapped(base: Base, steps: Walk, values: Known) -> Recorded:
        to_zero = _walked(partial(builder.gemm, reset=True), steps.values(), base, config)
        away = _walked(partial(builder.alu, AluOpcode.ADD, imm=constant), steps.values(), base, config)
        return to_zero + away * (constant != 0)

    return _stepped(nest, [operand, operand], mapped)


def alu(opcode: AluOpcode, emission: Emission, nest: Nest) -> Action:
    """Record an operation on accumulators, of which one is the result: dst = left op right."""
    operands = _in_place(nest.call, emission.tiles(nest.call))
    return _each_step(emission, nest, operands, partial(emission.builder.alu, opcode, imm=None))


def alu_immediate(opcode: AluOpcode, emission: Emission, nest: Nest) -> Action:
    """Record an operation on accumulators and a constant: dst = left op imm."""
    operands = _in_place(nest.call, emission.tiles(nest.call))
    constant = _constant(nest.call.operands[-1])
    return _each_step(emission, nest, operands, partial(emission.builder.alu, opcode, imm=constant))


def _constant(operand: Expr) -> int:
    assert isinstance(operand, Const), "the verifier lets only constants be immediate"
    return int(operand.value)


def _in_place(call: Call, operands: list[IndexedBuffer]) -> list[IndexedBuffer]:
    """Return destination and source of an operation whose first operand must be its destination."""
    dst, left, *right = operands
    if right and dst != left and dst == right[0]:
        left, right = right[0], [left]
    if dst != left:
        raise IrError(
            f"{call.name} changes accumulators in place, but its result {dst.buffer.name} and its operand "
            f"{left.buffer.name} are kept "
            f"apart: something else still reads {left.buffer.name}, or they are computed at different loops"
        )
    return [dst, *right] if right else [dst, dst]


def _walked(record: Record, steps: Iterable[Steps], base: Base, config: AcceleratorConfig) -> Recorded:
    """Return the instructions that walk `steps` from `base` on, each with what records it."""
    return [(record, instruction) for instruction in cached_instructions(tuple(steps), base, config)]


def _each_step(emission: Emission, nest: Nest, operands: list[IndexedBuffer], record: Record) -> Action:
    """Return the action that records one operation on every step of a nest."""
    return _stepped(
        nest, operands, lambda base, steps, values: _walked(record, steps.values(), base, emission.config)
    )


def _stepped(
    nest: Nest,
    operands: list[IndexedBuffer],
    mapped: Callable[[Base, Walk, Known], Recorded],
    *sums: AffineSum,
) -> Action:
    """Return the action that records what `mapped` makes of a nest: its first step's elements, and what each
    loop adds to them.

    Args:
        sums: what `mapped` depends on besides.
    """

    def find(values: Values) -> Iterator[tuple[Record, ComputeInstruction]]:
        for fixed, ranges in boxes(nest.conditions, nest.loops, values):
            yield from mapped(*steps_of(operands, fixed, ranges), fixed)

    instructions = once_each(
        (*nest.conditions, *(operand.index for operand in operands), *sums), nest.loops, find
    )

    def act(values: Values) -> None:
        for record, instruction in instructions(values):
            record(instruction.uops, instruction.outer, instruction.inner)

    return act


def steps_of(operands: list[IndexedBuffer], values: Known, ranges: Ranges) -> tuple[Base, dict[str, Steps]]:
    """Return the elements of a nest's first step, and what each loop adds to them."""
    loops, start = box_of(ranges)
    places = [moved(operand.index, values, loops, start) for operand in operands]
    base = _by_operand(place for place, _ in places)
    return base, {
        name: Steps(trips, _by_operand(step.get(name, 0) for _, step in places))
        for name, trips in loops.items()
    }


def _by_operand(numbers: Iterable[int]) -> Base:
    """Return a number for each of a step's operands; 0 for those that it does not have."""
    dst, src, wgt, *_ = (*numbers, 0, 0)
    return dst, src, wgt
