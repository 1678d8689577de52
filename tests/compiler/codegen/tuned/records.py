"""Records for the tests."""

from vdla.compiler.codegen.space import ChoiceSpace, space_of
from vdla.compiler.codegen.tuned.record import OK, TuningRecord
from vdla.compiler.codegen.version import task_version
from vdla.compiler.tasks.base import Choice, choice_to_json
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.te.operators.sizes import Convolution
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target

TARGET = Target(TINY)
TASK = ConvolutionTask(Convolution(16, 8, 8, 16, padding=(1, 1, 1, 1)))


def space(target: Target = TARGET) -> ChoiceSpace:
    """Return the choices for TASK."""
    return space_of(TASK, target)


def record(cycles: int | None = 1000, place: int = 0, target: Target = TARGET, **changes) -> TuningRecord:
    """Return a record of a choice for TASK, with changes."""
    values = {
        "task": str(TASK),
        "timing": target.timing_digest,
        "target": target.name,
        "choice": choice_to_json(space(target).choice(place)),
        "cycles": cycles,
        "version": task_version(),
        "explorer": "random",
        "seed": 0,
        "trial": place,
        "status": OK if cycles is not None else "it does not fit",
    }
    return TuningRecord(**(values | changes))


def choice(place: int) -> Choice:
    """Return the choice for TASK at a place of its space."""
    return space().choice(place)
