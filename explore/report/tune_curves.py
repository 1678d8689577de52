"""Curves of a tuning: the best cycles so far against the trials, for each explorer, with spread over seeds.

Cycles are relative to the compiler's default choice, which is the best before the first trial. A tuning that
gave a task fewer trials than another keeps its best from there on.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.tuned.record import TuningRecord
from vdla.explore.tune.known import DEFAULT

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """The curve of an explorer, where it changes and at its end.

    Attributes:
        explorer: its name.
        seeds: how many tunings it joins.
        trials: of a task, from 0 on.
        middle, least, most: median, minimum and maximum over seeds of the best cycles after so many trials,
            relative to the compiler's default choice.
    """

    explorer: str
    seeds: int
    trials: tuple[int, ...]
    middle: tuple[float, ...]
    least: tuple[float, ...]
    most: tuple[float, ...]


BestSoFar = Mapping[str, Mapping[int, FloatArray]]
"""By explorer and seed: float64[n + 1], the best after 0 to n trials relative to the compiler's choice."""


def best_so_far(records: Iterable[TuningRecord], default: int) -> BestSoFar:
    """Return the best of each tuning of one task.

    Args:
        records: of the task.
        default: cycles of the compiler's default choice.
    """
    tunings: dict[str, dict[int, list[TuningRecord]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record.explorer != DEFAULT:
            tunings[record.explorer][record.seed].append(record)
    return {
        explorer: {seed: _best(tuning, default) for seed, tuning in sorted(seeds.items())}
        for explorer, seeds in sorted(tunings.items())
    }


def curves_of(task: BestSoFar) -> list[Curve]:
    """Return the curves of a task, one for each explorer."""
    return [_curve(explorer, list(seeds.values())) for explorer, seeds in task.items()]


def mean_curves(tasks: Sequence[BestSoFar]) -> list[Curve]:
    """Return the curves of the geometric mean over tasks. A task that a tuning gave no trial stays at 1."""
    explorers: dict[str, set[int]] = defaultdict(set)
    for task in tasks:
        for explorer, seeds in task.items():
            explorers[explorer] |= set(seeds)
    return [
        _curve(explorer, [_mean(tasks, explorer, seed) for seed in sorted(seeds)])
        for explorer, seeds in sorted(explorers.items())
    ]


def _best(records: Iterable[TuningRecord], default: int) -> FloatArray:
    ordered = sorted(records, key=lambda each: each.order)
    cycles = [float(default), *(inf if record.cycles is None else float(record.cycles) for record in ordered)]
    best: FloatArray = np.minimum.accumulate(cycles) / default
    return best


def _mean(tasks: Sequence[BestSoFar], explorer: str, seed: int) -> FloatArray:
    curves = [task.get(explorer, {}).get(seed, np.ones(1)) for task in tasks]
    mean: FloatArray = np.exp(np.log(_stacked(curves)).mean(axis=0))
    return mean


def _stacked(rows: Sequence[FloatArray]) -> FloatArray:
    """Return rows of different lengths as one array: shorter rows keep their last value."""
    length = max(map(len, rows))
    return np.stack([np.pad(row, (0, length - len(row)), mode="edge") for row in rows])


def _curve(explorer: str, rows: Sequence[FloatArray]) -> Curve:
    values = _stacked(rows)
    lines = np.stack([np.median(values, axis=0), values.min(axis=0), values.max(axis=0)])
    changes = (np.diff(lines, axis=1, prepend=np.inf) != 0).any(axis=0)
    changes[-1] = True
    middle, least, most = (tuple(line.tolist()) for line in lines[:, changes])
    return Curve(explorer, len(rows), tuple(np.flatnonzero(changes).tolist()), middle, least, most)
