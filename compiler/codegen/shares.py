"""Tiles of the tasks that are no convolutions: the largest that fit so many times."""

from typing import assert_never

from vdla.compiler.codegen.heads import rows_at_a_time, turn_tile
from vdla.compiler.codegen.maxima import maxima_tile
from vdla.compiler.codegen.planes import (
    diagonal_tile,
    factors_tile,
    mean_tile,
    repeat_tile,
    scaling_tile,
)
from vdla.compiler.codegen.schedules import elements_at_a_time, pooling_tile
from vdla.compiler.codegen.sums import elements_of_a_sum
from vdla.compiler.codegen.tasks import (
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
    SharedTask,
    SumTask,
    TurnTask,
)
from vdla.hw.spec.config import AcceleratorConfig

OPERANDS = {Elements.ADD: 2, Elements.COPY: 1, Elements.MULTIPLY: 2, Elements.REQUANTISE: 1}


def shared_tile(task: SharedTask, config: AcceleratorConfig, times: int) -> object | None:
    """Return the largest tile of a task that fits the memories `times` times and can be shared by so many
    virtual threads; None where none does. Tiles can be compared."""
    match task:
        case PoolingTask(size):
            return pooling_tile(size, config, times)
        case ElementsTask(kind):
            sets = 0 if kind is Elements.COPY else 1
            return max(elements_at_a_time(config, sets, OPERANDS[kind], times), 0) or None
        case MaximumTask(size):
            return maxima_tile(size, config, times)
        case SumTask():
            return max(elements_of_a_sum(config, times), 0) or None
        case FactorsTask():
            return factors_tile(task, config, times)
        case ScalingTask():
            return scaling_tile(task, config, times)
        case DiagonalTask():
            return diagonal_tile(task, config, times)
        case MeanTask():
            return mean_tile(task, config, times)
        case RepeatTask():
            return repeat_tile(task, config, times)
        case RowsTask(count):
            return (rows_at_a_time(config, times) or None) if count % times == 0 else None
        case TurnTask():
            return turn_tile(task, config, times)
        case _:
            assert_never(task)


def smallest_part(task: SharedTask) -> str:
    """Return what must fit at least, for people."""
    match task:
        case PoolingTask(size) | MaximumTask(size):
            return f"a window of {size.kernel}"
        case ElementsTask(kind):
            return f"one element of {kind}"
        case SumTask():
            return "one element of a sum"
        case FactorsTask() | ScalingTask():
            return "one element of a product"
        case DiagonalTask():
            return "one block of factors"
        case MeanTask():
            return "one sum for each channel"
        case RepeatTask():
            return "one row of a repeated image"
        case RowsTask():
            return "one block of rows"
        case TurnTask():
            return "one block of weights"
        case _:
            assert_never(task)
