"""GEMM and ALU instructions of nests of loops."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from vdla.compiler.codegen.actions import Action, Operand, Values, box_of, moved, once_each
from vdla.compiler.codegen.fold import Kernel, Steps, fold_sum, folded_kernels
from vdla.compiler.codegen.kernel import Form, Nest, Ranges, boxes, conditions_of
from vdla.compiler.ir.nodes import Call, Const, IrError, Read
from vdla.compiler.passes.start_sums import PRODUCT, RESET
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode
from vdla.runtime.builder import Loop, StreamBuilder
from vdla.runtime.micro_kernels import MicroKernel

ALU = {f"{opcode.name.lower()}{end}": opcode for opcode in AluOpcode for end in ("", "_imm")}

Base = tuple[int, int, int]  # elements of a step's operands
Record = Callable[[MicroKernel, Loop, Loop], None]
Recorded = list[tuple[Record, Kernel]]


@dataclass(frozen=True)
class Kernels:
    """Records kernels; `operand` finds the memory and the index of an operand."""

    builder: StreamBuilder
    operand: Callable[[Read], Operand]

    @property
    def config(self) -> AcceleratorConfig:
        """The accelerator."""
        return self.builder.config

    def kernel(self, nest: Nest) -> Action:
        """Record one operation on every step."""
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

    def filled(self, nest: Nest) -> Action:
        """Record accumulators set to a constant: to 0, and from there."""
        operand, constant = self.operand(nest.call.operands[0]), int(nest.call.operands[1].value)

        def fold(base: Base, steps: dict[str, Steps], values: Values) -> Recorded:
            to_zero = self.folded(partial(self.builder.gemm, reset=True), steps.values(), base)
            away = self.folded(partial(self.builder.alu, AluOpcode.ADD, imm=constant), steps.values(), base)
            return to_zero + away * (constant != 0)
        return _stepped(nest, [operand, operand], fold)

    def folded(self, record: Record, steps: Iterable[Steps], base: Base) -> Recorded:
        """Return the instructions that walk `steps` from `base` on, each with what records it."""
        return [(record, kernel) for kernel in folded_kernels(tuple(steps), base, self.config)]

    def in_place(self, call: Call, operands: list[Operand]) -> list[Operand]:
        """Return destination and source of an operation whose first operand must be its destination."""
        dst, left, *right = operands
        if right and dst != left and dst == right[0]:
            left, right = right[0], [left]
        if dst != left:
            raise IrError(f"{call.name} changes accumulators in place, but its result {dst.buffer.name} and its operand {left.buffer.name} are kept "
                          f"apart: something else still reads {left.buffer.name}, or they are computed at different loops")
        return [dst, *right] if right else [dst, dst]

    def recorder(self, name: str, immediate: int | None) -> Record:
        """Return what records an operation by its name, with a constant where it has one."""
        if name in (PRODUCT, RESET):
            return partial(self.builder.gemm, reset=name == RESET)
        return partial(self.builder.alu, ALU[name], imm=immediate)


def _stepped(nest: Nest, operands: list[Operand], fold: Callable[[Base, dict[str, Steps], Values], Recorded], *forms: Form) -> Action:
    """Return the action that records what `fold` makes of a nest: its first step's elements, and what each loop adds to them.

    Args:
        forms: what `fold` depends on besides.
    """
    def find(values: Values) -> Iterator[tuple[Record, Kernel]]:
        for fixed, ranges in boxes(nest.conditions, nest.loops, values):
            yield from fold(*_steps(operands, fixed, ranges), fixed)
    kernels = once_each((*nest.conditions, *(operand.form for operand in operands), *forms), nest.loops, find)

    def act(values: Values) -> None:
        for record, kernel in kernels(values):
            record(kernel.uops, kernel.outer, kernel.inner)
    return act


def _steps(operands: list[Operand], values: Values, ranges: Ranges) -> tuple[Base, dict[str, Steps]]:
    """Return the elements of a nest's first step, and what each loop adds to them."""
    loops, start = box_of(ranges)
    places = [moved(operand.form, values, loops, start) for operand in operands]
    missing = (0,) * (3 - len(operands))
    base = (*(place for place, _ in places), *missing)
    return base, {name: Steps(trips, (*(step.get(name, 0) for _, step in places), *missing)) for name, trips in loops.items()}
