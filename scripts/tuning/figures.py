"""Figures of the outcomes of searches."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import geometric_mean, median

import numpy as np
from numpy.typing import NDArray

from tuning.trials import Searched, TaskOutcome
from vdla.compiler.codegen.space import space_of
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import Task
from vdla.explore.tune.features import SpacePoints
from vdla.explore.tune.model import MODELS, Measured, rank_correlation
from vdla.hw.spec.target import Target

FloatArray = NDArray[np.float64]
LESSONS = 64  # measurements from which a model learns
FEW = 8  # layers that they come from


def tuned(outcome: TaskOutcome, searched: Searched) -> int:
    """Return the fewest cycles of a search, which knows the default choice."""
    return min(outcome.default, *searched.cycles)


def gain(outcome: TaskOutcome, explorer: str) -> float:
    """Return the default's cycles over the tuned cycles, the geometric mean over seeds."""
    return geometric_mean(
        outcome.default / tuned(outcome, search) for search in outcome.searched if search.explorer == explorer
    )


def curves(outcomes: Iterable[TaskOutcome], explorer: str, trials: int) -> FloatArray:
    """Return float64[seeds, trials]: best cycles so far over the best that is known, the geometric mean over
    tasks."""
    rows = []
    for outcome in outcomes:
        of_seeds = [search.cycles for search in outcome.searched if search.explorer == explorer]
        rows.append([np.log(_so_far(cycles, trials) / outcome.best) for cycles in of_seeds])
    means: FloatArray = np.exp(np.array(rows).mean(axis=0))
    return means


def _so_far(cycles: Sequence[int], trials: int) -> FloatArray:
    """Return float64[trials]: the fewest cycles after each trial; the last stays where a space is small."""
    best = np.minimum.accumulate(np.array(cycles, np.float64))
    return np.concatenate([best, np.full(max(0, trials - len(best)), best[-1])])[:trials]


def trials_to_reach(
    outcomes: Iterable[TaskOutcome], explorer: str, rival: str, trials: int
) -> dict[str, float]:
    """Return for each task the number of trials in which an explorer gets as few cycles as another explorer
    in all of its trials. It is a geometric mean over seeds. A search that does not get there counts as
    `trials`."""
    needed = {}
    for outcome in outcomes:
        aim = geometric_mean(min(search.cycles) for search in outcome.searched if search.explorer == rival)
        counts = []
        for search in outcome.searched:
            if search.explorer == explorer:
                (reached,) = np.nonzero(np.array(search.cycles) <= aim)
                counts.append(int(reached[0]) + 1 if len(reached) else trials)
        needed[outcome.task] = geometric_mean(counts)
    return needed


def correlations(
    outcomes: Mapping[str, TaskOutcome],
    tasks: Mapping[str, Task],
    target: Target,
    model: str,
    each: int | None,
) -> dict[str, float]:
    """Return for each task the rank correlation of a model on the points of random search.

    Args:
        each: measurements of every other task that the model learns from; None: LESSONS in all, of FEW tasks.
    """
    points, lessons = {}, {}
    for name, outcome in outcomes.items():
        space = space_of(tasks[name], target)
        assert not isinstance(space, Unfit), "it was searched"
        points[name] = SpacePoints(space)
        lessons[name] = _simulated(next(search for search in outcome.searched if search.explorer == "random"))
    names, result = [name for name in outcomes if len(points[name]) >= LESSONS], {}
    for place, name in enumerate(names):
        others = [other for other in names if other != name]
        if each is None:
            others = [others[(place + step * len(others) // FEW) % len(others)] for step in range(FEW)]
        count = LESSONS // FEW if each is None else each
        learned = MODELS[model](tuple(_lesson(points[other], lessons[other], count) for other in others))
        lesson = lessons[name]
        scores = learned.scores(points[name])[lesson.places]
        result[name] = rank_correlation(scores, np.array(lesson.cycles, np.float64))
    return result


def _simulated(searched: Searched) -> Searched:
    """Return a search without the trials that were not simulated."""
    kept = [number for number in range(len(searched.places)) if number not in set(searched.guessed)]
    return Searched(
        searched.explorer,
        searched.seed,
        [searched.places[number] for number in kept],
        [searched.cycles[number] for number in kept],
    )


def _lesson(points: SpacePoints, searched: Searched, count: int) -> Measured:
    measured = Measured.of(
        points, dict(zip(searched.places[:count], map(float, searched.cycles), strict=False))
    )
    assert measured is not None, "every choice is legal"
    return measured


def summary(values: Iterable[float]) -> str:
    """Return the median and the least of some figures, for people."""
    values = list(values)
    return f"median {median(values):.3f}, least {min(values):.3f}"
