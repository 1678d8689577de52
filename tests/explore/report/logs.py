"""A synthetic tuning log, for tests of its page: tasks and choices of a real log, cycles from a formula."""

from functools import cache
from pathlib import Path

import numpy as np

from tests.explore.tune.networks import LARGE, POOLING, SMALL, TARGET
from vdla.compiler.codegen.space import space_of
from vdla.compiler.codegen.tuned.log import LogContents, write_log
from vdla.compiler.codegen.tuned.record import OK, TuningRecord
from vdla.compiler.codegen.version import task_version
from vdla.compiler.tasks.base import choice_to_json
from vdla.explore.tune.features import SpacePoints
from vdla.explore.tune.known import DEFAULT

TASKS = (LARGE, POOLING, SMALL)
SEEDS, TRIALS = 2, 20
EXPLORERS = ("model", "random")
REASON = "the stream is not safe"
points = cache(lambda task: SpacePoints(space_of(task, TARGET)))


def cycles_of(task, place):
    """Return the cycles of a choice: the compiler's estimate, and cycles that it does not see."""
    if isinstance(task, type(POOLING)):
        return 900 - 20 * place
    return int(points(task).estimates[place]) + 7 * (place % 5)


def record(task, place, explorer, seed=0, trial=0, **changes):
    """Return the record of a trial; `changes` are values of others."""
    values = {
        "task": str(task), "timing": TARGET.timing_digest, "target": TARGET.name, "choice": choice_to_json(points(task).choice(place)),
        "cycles": cycles_of(task, place), "version": task_version(), "explorer": explorer, "seed": seed, "trial": trial, "status": OK,
    }  # fmt: skip
    return TuningRecord(**(values | changes))


def places_of(task, seed):
    """Return the places that a tuning tries: at most TRIALS."""
    count = min(len(points(task)), TRIALS)
    return np.random.default_rng(seed).permutation(len(points(task)))[:count].tolist()


def slow_of(task):
    """Return the place of the default choice, which is not the best."""
    every = [cycles_of(task, place) for place in range(len(points(task)))]
    return int(np.argsort(every, kind="stable")[len(every) * 3 // 4])


def trials_of(task):
    """Return the records of a task: each explorer and seed tries the same number of choices."""
    trials = [record(task, slow_of(task), DEFAULT)]
    for explorer in EXPLORERS:
        for seed in range(SEEDS):
            places = places_of(task, seed + 10 * len(explorer))
            trials += [record(task, place, explorer, seed, trial) for trial, place in enumerate(places, 1)]
    return trials


def records(**changes):
    """Return the records of all tasks; the last of the first task is illegal."""
    trials = [trial for task in TASKS for trial in trials_of(task)]
    illegal = record(LARGE, 0, "random", 1, 999, cycles=None, status=REASON)
    return [changed(trial, **changes) for trial in (*trials, illegal)]


def settlement(cycles=5000, network="ab" * 32):
    """Return the records of a settlement of a network with all tasks: the first has another choice than the
    default choice."""
    places = [0, *map(slow_of, TASKS[1:])]
    settled = {"cycles": cycles, "network": network, "model": "net.onnx", "before": 6250}
    return [
        changed(record(task, place, "model", 0, 20), **settled, layers=(f"conv{number}", "again"))
        for number, (task, place) in enumerate(zip(TASKS, places, strict=True))
    ]


def changed(record, **changes):
    """Return a record with changes."""
    return TuningRecord(
        **({name: getattr(record, name) for name in TuningRecord.__dataclass_fields__} | changes)
    )


def contents(log_records=None, torn=False):
    """Return what a log of some records holds."""
    return LogContents(Path("net.jsonl"), tuple(records() if log_records is None else log_records), torn)


def write(path, log_records=None):
    """Write a log."""
    write_log(records() if log_records is None else log_records, path)
    return path
