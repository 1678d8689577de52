"""Lowering of a task with a choice to a loop program of intrinsics."""

from functools import lru_cache

from vdla.compiler.codegen.stream import lower_to_calls
from vdla.compiler.ir.nodes import Func
from vdla.compiler.tasks.base import Choice, Task
from vdla.hw.spec.config import AcceleratorConfig

CACHED_PROGRAMS = 256  # per process: a simulated candidate is not lowered again for emission


@lru_cache(maxsize=CACHED_PROGRAMS)
def lowered_task(task: Task, choice: Choice, config: AcceleratorConfig) -> Func:
    """Return the loop program of a task, ready for emission: every leaf statement calls an intrinsic.

    Raises:
        IrError: the choice is not in the task's space.
    """
    return lower_to_calls(task.program(choice, config), config)
