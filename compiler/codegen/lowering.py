"""Lowering: from a task and a choice to the loop program of intrinsics."""

from functools import lru_cache

from vdla.compiler.codegen.stream import lower_to_calls
from vdla.compiler.ir.nodes import Func
from vdla.compiler.tasks.base import Choice, Task
from vdla.hw.spec.config import AcceleratorConfig

MOST_KEPT = 256  # programs per process, so that a candidate that was simulated is not lowered again


@lru_cache(maxsize=MOST_KEPT)
def calls_of(task: Task, choice: Choice, config: AcceleratorConfig) -> Func:
    """Return the loop program of a task, ready for emission: every statement calls an intrinsic.

    Raises:
        IrError: the choice is not in the task's space.
    """
    return lower_to_calls(task.program(choice, config), config)
