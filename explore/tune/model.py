"""Cost models: which points of a space are faster. All learn from what was measured, of any task and target.

Scores order the points of one space: the higher, the faster. They cannot be compared between spaces. A log
shows how well a model orders a task that it has not seen. For every task the model learns from the first
trials of all other tasks on the same target. Its scores of the trials of the task are then compared with the
cycles of these trials.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.space import ChoiceSpace
from vdla.compiler.codegen.tuned.record import TuningRecord
from vdla.compiler.tasks.base import choice_from_json
from vdla.explore.tune.features import SpacePoints
from vdla.explore.tune.points import Points
from vdla.hw.spec.extras import require_package

FloatArray = NDArray[np.float64]
TREES = 80
PARAMETERS = {
    "objective": "rank:pairwise",
    "lambdarank_pair_method": "mean",
    "lambdarank_num_pair_per_sample": 8,
    "max_depth": 5,
    "eta": 0.15,
    "min_child_weight": 0.1,
    "nthread": 1,
    "seed": 0,
}
STEEPNESS = (
    40.0  # of the analytic model's scores, in which trees are added: per unit of the logarithm of cycles
)
RIDGE = 1.0  # regularisation of the linear model
FIRST = 64  # trials of each other task that the model learns from
LEAST = 8  # trials of a task: fewer have no order to speak of


@dataclass(frozen=True, eq=False)
class Measured:
    """What was measured of one space.

    Attributes:
        features: float64[n, f].
        estimates: float64[n], cycles of the analytic model.
        cycles: float64[n].
    """

    features: FloatArray
    estimates: FloatArray
    cycles: FloatArray

    @staticmethod
    def of(points: Points, cycles: Mapping[int, float]) -> "Measured | None":
        """Return the legal points among the measured points; None where there are fewer than two."""
        legal = [place for place, count in cycles.items() if np.isfinite(count)]
        if len(legal) < 2:
            return None
        return Measured(
            points.features[legal], points.estimates[legal], np.array([cycles[place] for place in legal])
        )


class CostModel(Protocol):
    """A model that orders points."""

    def learn(self, measured: Measured) -> None:
        """Learn from all that was measured of the space that is searched, in place of what it knew of it."""
        ...

    def scores(self, points: Points) -> FloatArray:
        """Return float64[n]: the higher, the faster."""
        ...


@dataclass
class Analytic:
    """The compiler's estimate, which never learns.

    Attributes:
        others: what was measured of other spaces; it is not used.
    """

    others: tuple[Measured, ...] = ()

    def learn(self, measured: Measured) -> None:
        """Do nothing: estimates do not change."""

    def scores(self, points: Points) -> FloatArray:
        """Return float64[n] that follows from the estimates alone."""
        return _margins(points.estimates)


@dataclass
class Linear:
    """Ridge regression of the logarithm of cycles on the features, relative to the mean of each space.

    Attributes:
        others: what was measured of other spaces.
    """

    others: tuple[Measured, ...] = ()
    weights: FloatArray | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._fit(self.others)

    def learn(self, measured: Measured) -> None:
        """Fit the weights anew, to other spaces and to this space."""
        self._fit((*self.others, measured))

    def _fit(self, spaces: Iterable[Measured]) -> None:
        spaces = tuple(spaces)
        if not spaces:
            return
        left = np.concatenate([space.features - space.features.mean(axis=0) for space in spaces])
        right = np.concatenate([np.log(space.cycles) - np.log(space.cycles).mean() for space in spaces])
        self.weights = np.linalg.solve(left.T @ left + RIDGE * np.eye(left.shape[1]), left.T @ right)

    def scores(self, points: Points) -> FloatArray:
        """Return float64[n]: the expected logarithm of cycles, negated; as `Analytic` if it knows none."""
        if self.weights is None:
            return _margins(points.estimates)
        scores: FloatArray = -points.features @ self.weights
        return scores


@dataclass
class Learned:
    """Gradient-boosted trees by XGBoost with a ranking objective, on top of the analytic model.

    What was measured of other tasks and targets lets a search start warm.

    Attributes:
        others: what was measured of other spaces.

    Raises, when it learns:
        ToolError: xgboost is not installed.
    """

    others: tuple[Measured, ...] = ()
    booster: Any = field(default=None, init=False, repr=False)
    matrix: tuple[Points, Any] | None = field(
        default=None, init=False, repr=False
    )  # of the points scored last

    def __post_init__(self) -> None:
        if self.others:
            self._fit(self.others)

    def learn(self, measured: Measured) -> None:
        """Train the trees anew, on other spaces and on this space."""
        self._fit((*self.others, measured))

    def _fit(self, spaces: tuple[Measured, ...]) -> None:
        require_package("xgboost", "tuning with a learned model")
        import xgboost

        matrix = xgboost.DMatrix(
            np.concatenate([space.features for space in spaces]),
            label=np.concatenate([_relevance(space.cycles) for space in spaces]),
            base_margin=np.concatenate([_margins(space.estimates) for space in spaces]),
            qid=np.repeat(np.arange(len(spaces)), [len(space.cycles) for space in spaces]),
        )
        self.booster = xgboost.train(PARAMETERS, matrix, TREES)

    def scores(self, points: Points) -> FloatArray:
        """Return float64[n]: scores of the analytic model, to which trees add if there are any."""
        margins = _margins(points.estimates)
        if self.booster is None:
            return margins
        import xgboost

        scores = self.booster.predict(
            xgboost.DMatrix(points.features, base_margin=margins), output_margin=True
        )
        return np.asarray(scores, np.float64)


MODELS = {"learned": Learned, "linear": Linear, "analytic": Analytic}


def _relevance(cycles: FloatArray) -> FloatArray:
    """Return float64[n] from 0 to 1: 1 for the fastest."""
    relevance: FloatArray = cycles.min() / cycles
    return relevance


def _margins(estimates: FloatArray) -> FloatArray:
    """Return float64[n]: scores of estimates, 0 for the best."""
    margins: FloatArray = -STEEPNESS * np.log(estimates / estimates.min())
    return margins


def rank_correlation(scores: FloatArray, cycles: FloatArray) -> float:
    """Return Spearman's rank correlation of scores with the speed, from -1 to 1; ties take mean ranks."""
    left, right = _ranks(scores), _ranks(-cycles)
    if min(float(left.std()), float(right.std())) == 0:
        return 0.0
    return float(np.corrcoef(left, right)[0, 1])


def _ranks(values: FloatArray) -> FloatArray:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(count)
    ranks: FloatArray = (ends - (count - 1) / 2)[place]
    return ranks


@dataclass(frozen=True, eq=False)
class Trials:
    """What was measured of a space.

    Attributes:
        cycles: by place, in the order of the trials; inf: the choice is illegal.
    """

    points: SpacePoints
    cycles: Mapping[int, float]

    def first(self, count: int) -> Measured | None:
        """Return the legal points among the first trials; None where there are fewer than two."""
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
    cycles: dict[int, float] = {}
    for record in sorted(records, key=lambda each: (each.trial, each.order)):
        place = _place(record, space)
        if place is not None:
            cycles.setdefault(place, inf if record.cycles is None else float(record.cycles))
    return Trials(SpacePoints(space), cycles)


def ranks_of(tasks: Sequence[Trials]) -> list[Ranks | None]:
    """Return the rank correlations for each task; None where it has fewer than LEAST legal points.

    Raises:
        ToolError: xgboost is not installed.
    """
    firsts = [task.first(FIRST) for task in tasks]
    ranks = []
    for place, task in enumerate(tasks):
        others = [first for index, first in enumerate(firsts) if index != place and first is not None]
        ranks.append(_task_ranks(task, others))
    return ranks


def _task_ranks(task: Trials, others: Sequence[Measured]) -> Ranks | None:
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
