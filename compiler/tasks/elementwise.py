"""Element-wise operators by the ALU. Operands are loaded into the accumulators."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from vdla.compiler.codegen.intrinsics import accelerator
from vdla.compiler.ir.nodes import Expr, Func, Scope, cast
from vdla.compiler.tasks.base import Choice, PartedTask
from vdla.compiler.tasks.scheduling import narrow, tensorize, virtual_threads
from vdla.compiler.te.operators.narrowing import Narrowed, Narrowing, Scale
from vdla.compiler.te.operators.narrowing import narrow as narrowed_sum
from vdla.compiler.te.operators.sizes import blocks
from vdla.compiler.te.schedule import Schedule, create_schedule
from vdla.compiler.te.tensor import Tensor, compute, placeholder
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import MOST_PARAMETER_SETS
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType, Parameter


@dataclass(frozen=True)
class ElementwiseTensors:
    """The tensors of an element-wise operator with one or two operands, producers first.

    Attributes:
        inputs: placeholders of the operands, int8.
        wide: the operands, widened to accumulators.
        passes: results of the ALU passes; the last is the total. Without passes, `wide` is the total.
        narrowed: the total after narrowing.
    """

    inputs: tuple[Tensor, ...]
    wide: tuple[Tensor, ...]
    passes: tuple[Tensor, ...]
    narrowed: Narrowed

    @property
    def out(self) -> Tensor:
        """The result."""
        return self.narrowed.out


AXES = ("c", "e", "b", "j")
NAMES = ("A", "B")
Step: TypeAlias = Callable[[Expr, Any], Expr]
Shape = tuple[int, int]  # blocks of channels, and elements of a block


def requantise(shape: Shape, config: AcceleratorConfig, narrowing: Narrowing) -> ElementwiseTensors:
    """Define the requantisation of int8[channels, elements, batch, block_out], with ReLU and Clip as bounds.

    Source: ONNX operators Relu, Clip, QuantizeLinear of DequantizeLinear.
    """
    (source,), (wide,) = _operands(shape, config, 1)
    return ElementwiseTensors((source,), (wide,), (), narrowed_sum(wide, narrowing, config, ("c",)))


def copy(shape: Shape, config: AcceleratorConfig) -> ElementwiseTensors:
    """Define a copy of int8[channels, elements, batch, block_out].

    Source: ONNX operators Concat, Identity.
    """
    (source,), (wide,) = _operands(shape, config, 1)
    return ElementwiseTensors(
        (source,),
        (wide,),
        (),
        Narrowed((), None, compute(wide.shape, lambda *at: cast("int8", wide[at]), "Z", AXES)),
    )


def add(
    shape: Shape, config: AcceleratorConfig, narrowing: Narrowing, *, factors: tuple[int, int] = (1, 1)
) -> ElementwiseTensors:
    """Define narrow(A * factors[0] + B * factors[1]) for int8[channels, elements, batch, block_out].

    Args:
        factors: signed 16-bit factors of the operands.

    Source: ONNX operator Add.
    """
    return of_two(shape, config, narrowing, factors, 1, operator.mul, operator.add)


def multiply(
    shape: Shape, config: AcceleratorConfig, narrowing: Narrowing, *, zeros: tuple[int, int] = (0, 0)
) -> ElementwiseTensors:
    """Define narrow((A - zeros[0]) * (B - zeros[1])) for int8[channels, elements, batch, block_out].

    Source: ONNX operator Mul.
    """
    left, right = zeros
    return of_two(shape, config, narrowing, (-left, -right), 0, operator.add, operator.mul)


def of_two(
    shape: Shape,
    config: AcceleratorConfig,
    narrowing: Narrowing,
    constants: tuple[int, int],
    neutral: int,
    prepare: Step,
    combine: Step,
) -> ElementwiseTensors:
    """Define narrow(combine(prepare(A, constants[0]), prepare(B, constants[1]))).

    Args:
        neutral: constant that does not change an operand, for which there is no ALU pass.
    """
    inputs, wide = _operands(shape, config, 2)
    left, right = prepared = [
        _alu_pass(f"{source.name[0]}S", lambda value, constant=constant: prepare(value, constant), source)
        if constant != neutral
        else source
        for source, constant in zip(wide, constants, strict=True)
    ]
    total = _alu_pass("S", combine, left, right)
    passes = (*(part for part in prepared if part not in wide), total)
    return ElementwiseTensors(inputs, wide, passes, narrowed_sum(total, narrowing, config, ("c",)))


def _operands(
    shape: Shape, config: AcceleratorConfig, count: int
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the placeholders of the operands, and the operands widened to accumulators."""
    whole, acc = (*shape, config.batch, config.block_out), f"int{config.acc_bits}"
    inputs = tuple(placeholder(whole, name, "int8") for name in NAMES[:count])
    return inputs, tuple(
        compute(whole, lambda *at, source=source: cast(acc, source[at]), f"{source.name}L", AXES)
        for source in inputs
    )


def _alu_pass(name: str, step: Callable[..., Expr], *sources: Tensor) -> Tensor:
    return compute(sources[0].shape, lambda *at: step(*(source[at] for source in sources)), name, AXES)


class Elements(StrEnum):
    """The element-wise operators."""

    ADD = "add"
    COPY = "copy"
    MULTIPLY = "multiply"
    REQUANTISE = "requantise"


class ElementsForm(NamedTuple):
    """What distinguishes an element-wise operator.

    Attributes:
        operands: number of operands.
        define: returns the tensor expression from shape, configuration, and if it requantises, narrowing and
            constants.
        requantises: results are requantised by parameters; else the total is the int8 result.
        constants: parameter of `define` with the constants of the task; "" if it has none.
        alu: ALU operations that it needs.
    """

    operands: int
    define: Callable[..., ElementwiseTensors]
    requantises: bool = True
    constants: str = ""
    alu: tuple[AluOpcode, ...] = ()


FORMS = {
    Elements.ADD: ElementsForm(2, add, constants="factors", alu=(AluOpcode.ADD, AluOpcode.MUL)),
    Elements.COPY: ElementsForm(1, copy, requantises=False),
    Elements.MULTIPLY: ElementsForm(2, multiply, constants="zeros", alu=(AluOpcode.ADD, AluOpcode.MUL)),
    Elements.REQUANTISE: ElementsForm(1, requantise),
}


@dataclass(frozen=True, slots=True)
class ElementsTask(PartedTask[int]):
    """An element-wise operator.

    Attributes:
        elements: number of elements, of `batch x block_out` numbers each.
        constants: factors of ADD, zero points of MULTIPLY.
    """

    kind: Elements
    elements: int
    constants: tuple[int, ...] = ()

    @property
    def smallest(self) -> str:
        """The smallest tile."""
        return f"one element of {self.kind}"

    def tile(self, config: AcceleratorConfig, copies: int) -> int | None:
        """Return the maximum number of elements of a tile; see `PartedTask.tile`."""
        sets = 1 if FORMS[self.kind].requantises else 0
        return elements_at_a_time(config, sets, FORMS[self.kind].operands, copies) or None

    def tiled(self, tile: int, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program with a tile size, which is reduced so that every thread gets a tile."""
        elements = min(tile, blocks(self.elements, choice.copies))
        schedule = schedule_elementwise(self.operator(config), elements, config, threads=choice.threads)
        return schedule.lower(verified=False)

    def operator(self, config: AcceleratorConfig) -> ElementwiseTensors:
        """Return the tensor expression of the operator."""
        shape, narrowing = (1, self.elements), Scale(by_channel=False)
        form = FORMS[self.kind]
        if not form.requantises:
            return form.define(shape, config)
        constants = {form.constants: self.constants} if form.constants else {}
        return form.define(shape, config, narrowing, **constants)


def schedule_elementwise(
    operator: ElementwiseTensors, tile: int, config: AcceleratorConfig, *, threads: int = 2
) -> Schedule:
    """Return the schedule of an element-wise operator with tiles of `tile` elements and `threads` virtual
    threads."""
    schedule, intrinsics = create_schedule(operator.out), accelerator(config)
    parameters = operator.narrowed.parameters
    keeps = _keeps_parameters(0 if parameters is None else parameters.shape[0], config)
    handle = schedule[operator.out]
    c, e, b, j = handle.axis
    outer, inner = handle.split(e, tile)
    outer, thread = virtual_threads(handle, outer, threads)
    handle.reorder(c, outer, *thread, inner, b, j)
    place = [outer, *thread][-1]
    narrow(schedule, operator.narrowed, place, None if keeps else c, intrinsics)
    for tensor in (*reversed(operator.passes), *reversed(operator.wide)):
        schedule[tensor].set_scope(Scope.ACCUMULATOR)
        schedule[tensor].compute_at(operator.out, place)
    tensorize(
        schedule,
        [(tensor, intrinsics.load_acc) for tensor in operator.wide]
        + [(tensor, intrinsics.alu) for tensor in operator.passes],
    )
    return schedule


def elements_at_a_time(config: AcceleratorConfig, sets: int, operands: int, copies: int) -> int:
    """Return the maximum number of elements per tile such that `copies` tiles of each operand, and `sets`
    sets of parameters, fit the accumulators; 0 if none fits."""
    kept = sets if _keeps_parameters(sets, config) else 1
    return max((config.depth(MemoryType.ACC) - len(Parameter) * kept) // (operands * copies), 0)


def _keeps_parameters(sets: int, config: AcceleratorConfig) -> bool:
    """Whether all sets of parameters of an element-wise operator are on chip at once."""
    return sets <= min(MOST_PARAMETER_SETS, config.depth(MemoryType.ACC) // (4 * len(Parameter)))
