"""Lowering: from a task and a choice to the loop program of intrinsics."""

from functools import lru_cache
from typing import assert_never

from vdla.compiler.codegen.heads import rows_program, turn_program
from vdla.compiler.codegen.maxima import maximum_program
from vdla.compiler.codegen.planes import (
    diagonal_program,
    factors_program,
    mean_program,
    repeat_program,
    scaling_program,
)
from vdla.compiler.codegen.schedules import schedule_conv2d, schedule_elementwise, schedule_max_pool
from vdla.compiler.codegen.space import Choice
from vdla.compiler.codegen.stream import lower_to_calls
from vdla.compiler.codegen.sums import sum_program
from vdla.compiler.codegen.tasks import (
    ConvolutionTask,
    DiagonalTask,
    Elements,
    ElementsTask,
    FactorsTask,
    MaximumTask,
    MeanTask,
    PoolingTask,
    RepeatTask,
    RowsTask,
    ScalingTask,
    ScheduledTask,
    SumTask,
    Task,
    TransposedTask,
    TurnTask,
)
from vdla.compiler.ir.nodes import Func
from vdla.compiler.te.operators.convolution import conv2d
from vdla.compiler.te.operators.elementwise import Elementwise, add, copy, multiply, requantise
from vdla.compiler.te.operators.narrowing import Scale
from vdla.compiler.te.operators.pooling import max_pool
from vdla.compiler.te.operators.transposed import conv2d_transposed, one_phase
from vdla.compiler.te.operators.windows import conv2d_windows
from vdla.compiler.te.schedule import Schedule
from vdla.hw.spec.config import AcceleratorConfig

MOST_KEPT = 256  # programs of one process, so that a candidate that was simulated need not be lowered again


@lru_cache(maxsize=MOST_KEPT)
def calls_of(task: Task, choice: Choice, config: AcceleratorConfig) -> Func:
    """Return the loop program of a task, ready for emission: every statement is an intrinsic's.

    Raises:
        IrError: the choice is not in the task's space.
    """
    return lower_to_calls(_program(task, choice, config), config)


def _program(task: Task, choice: Choice, config: AcceleratorConfig) -> Func:
    shared = {"threads": choice.threads, "parts": choice.parts}
    match task:
        case SumTask(elements):
            return sum_program(elements, config, **shared)
        case MaximumTask(size):
            return maximum_program(size, config, **shared)
        case FactorsTask():
            return factors_program(task, config, **shared)
        case ScalingTask():
            return scaling_program(task, config, **shared)
        case DiagonalTask():
            return diagonal_program(task, config, **shared)
        case MeanTask():
            return mean_program(task, config, **shared)
        case RowsTask():
            return rows_program(task, config, **shared)
        case TurnTask():
            return turn_program(task, config, **shared)
        case RepeatTask():
            return repeat_program(task, config, **shared)
    return schedule_of(task, choice, config).lower(verified=False)


def schedule_of(task: ScheduledTask, choice: Choice, config: AcceleratorConfig) -> Schedule:
    """Return the schedule of a task."""
    match task:
        case ConvolutionTask(size, narrowing, border, slides=True):
            operator = conv2d_windows(size, config, narrowing, border=border)
            return schedule_conv2d(operator, size, config, threads=choice.threads, tiles=choice.tiles)
        case ConvolutionTask(size, narrowing, border, alike):
            operator = conv2d(size, config, narrowing, border=border, alike=alike)
            return schedule_conv2d(operator, size, config, threads=choice.threads, tiles=choice.tiles)
        case TransposedTask(size, narrowing):
            operator = conv2d_transposed(size, config, narrowing)
            return schedule_conv2d(
                operator, one_phase(size), config, threads=choice.threads, tiles=choice.tiles
            )
        case PoolingTask(size):
            return schedule_max_pool(
                max_pool(size, config), size, config, threads=choice.threads, parts=choice.parts
            )
        case ElementsTask():
            return schedule_elementwise(
                _elements(task, config), config, threads=choice.threads, parts=choice.parts
            )
    assert_never(task)


def _elements(task: ElementsTask, config: AcceleratorConfig) -> Elementwise:
    shape, narrowing = (1, task.elements), Scale(by_channel=False)
    match task.kind:
        case Elements.ADD:
            return add(shape, config, narrowing, factors=_two(task.constants))
        case Elements.COPY:
            return copy(shape, config)
        case Elements.MULTIPLY:
            return multiply(shape, config, narrowing, zeros=_two(task.constants))
        case Elements.REQUANTISE:
            return requantise(shape, config, narrowing)
    assert_never(task.kind)


def _two(constants: tuple[int, ...]) -> tuple[int, int]:
    left, right = constants
    return left, right
