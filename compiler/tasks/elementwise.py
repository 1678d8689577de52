"""Element-wise operators by the ALU. Operands are loaded into the accumulators."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from vdla.compiler.codegen.intrinsics import accelerator
from vdla.compiler.ir.nodes import Func, Scope
from vdla.compiler.tasks.base import Choice, PartedTask
from vdla.compiler.tasks.scheduling import narrow, tensorize, virtual_threads
from vdla.compiler.te.operators.alu import ElementwiseTensors, add, copy, multiply, requantise
from vdla.compiler.te.operators.narrowing import Scale
from vdla.compiler.te.operators.sizes import blocks
from vdla.compiler.te.schedule import Schedule, create_schedule
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import MOST_PARAMETER_SETS
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType, Parameter


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
        define: returns the tensor expression from shape, configuration, narrowing and constants.
        op: the integer operator that it computes, whose last input is the parameters of requantisation; "" if
            there is none.
        constants: attribute of that operator with the constants of the task; "" if it has none.
        alu: ALU operations that it needs.
    """

    operands: int
    define: Callable[..., ElementwiseTensors]
    op: str = ""
    constants: str = ""
    alu: tuple[AluOpcode, ...] = ()


ADD_MUL = (AluOpcode.ADD, AluOpcode.MUL)
FORMS = {
    Elements.ADD: ElementsForm(2, add, "Int8Add", "factors", ADD_MUL),
    Elements.COPY: ElementsForm(1, copy),
    Elements.MULTIPLY: ElementsForm(2, multiply, "Int8Mul", "zeros", ADD_MUL),
    Elements.REQUANTISE: ElementsForm(1, requantise, "Int8Requantise"),
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
        sets = 0 if self.kind is Elements.COPY else 1
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
        if not form.op:
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
