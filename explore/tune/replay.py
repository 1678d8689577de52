"""What a log says of the cost model: how well it orders the points of a task that it has not seen.

For every task the model learns from the first trials of all other tasks on the same target. Its scores of the
task's own trials are then compared with the cycles that these have.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from vdla.compiler.codegen.choices import choice_from_json
from vdla.compiler.codegen.space import ChoiceSpace
from vdla.compiler.codegen.tuned.record import TuningRecord
from vdla.explore.tune.features import SpacePoints
from vdla.explore.tune.model import Analytic, CostModel, Learned, Measured, rank_correlation

FIRST = 64  # trials of each other task that the model learns from
LEAST = 8  # trials of a task: fewer have no order to speak of


@dataclass(frozen=True, eq=False)
class Trials:
    """What was measured of a space.

    Attributes:
        cycles: by place, in the order of the trials; inf: the choice is illegal.
    """

    points: SpacePoints
    cycles: Mapping[int, float]

    def first(self, count: int) -> Measured | None:
        """Return the legal ones among the first trials; None where there are fewer than two."""
        return Measured.of(self.points, dict(list(self.cycles.items())[:count]))


@dataclass(frozen=True, slots=True)
class Ranks:
    """Rank correlations of scores with speed, from -1 to 1.

    Attributes:
        count: of points.
        learned: by the model; None where no other task was measured.
        analytic: by the compiler's estimate alone.
    """

    count: int
    learned: float | None
    analytic: float


def trials_of(records: Iterable[TuningRecord], space: ChoiceSpace) -> Trials:
    """Return what records of one task say of a space; choices that it does not have are left out."""
    found: dict[int, float] = {}
    for record in sorted(records, key=lambda one: (one.trial, one.order)):
        place = _place(record, space)
        if place is not None:
            found.setdefault(place, inf if record.cycles is None else float(record.cycles))
    return Trials(SpacePoints(space), found)


def ranks_of(tasks: Sequence[Trials]) -> list[Ranks | None]:
    """Return the rank correlations for each task; None where it has fewer than LEAST legal points.

    Raises:
        ToolError: xgboost is not installed.
    """
    firsts = [one.first(FIRST) for one in tasks]
    found = []
    for place, task in enumerate(tasks):
        others = [one for other, one in enumerate(firsts) if other != place and one is not None]
        found.append(_ranks(task, others))
    return found


def _ranks(task: Trials, others: Sequence[Measured]) -> Ranks | None:
    legal = [place for place, cycles in task.cycles.items() if cycles < inf]
    if len(legal) < LEAST:
        return None
    cycles = np.array([task.cycles[place] for place in legal])

    def correlation(model: CostModel) -> float:
        return rank_correlation(model.scores(task.points)[legal], cycles)

    learned = correlation(Learned(tuple(others))) if others else None
    return Ranks(len(legal), learned, correlation(Analytic()))


def _place(record: TuningRecord, space: ChoiceSpace) -> int | None:
    try:
        return space.place(choice_from_json(record.choice))
    except (KeyError, TypeError, ValueError):  # another version's choice
        return None
