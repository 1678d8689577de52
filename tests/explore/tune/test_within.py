"""Tuning within another job."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from tests.explore.tune.networks import LAYERS, SMALL, TARGET, here, tune
from vdla.compiler.codegen.choice_cache import cached
from vdla.compiler.codegen.choose import simulated_cycles
from vdla.compiler.codegen.space import space_of
from vdla.compiler.codegen.tuned.log import read_log
from vdla.compiler.tasks.base import choice_from_json
from vdla.explore.tune.explorers import EXPLORERS
from vdla.explore.tune.features import SpacePoints
from vdla.explore.tune.known import DEFAULT
from vdla.explore.tune.within import Tuning, taught


@pytest.fixture(scope="module")
def teaching(tmp_path_factory):
    """Return what a log teaches."""
    path = tmp_path_factory.mktemp("log") / "log"
    tune(path, here(), trials=40)
    lessons = taught(read_log(path).records, TARGET)
    assert lessons
    return lessons


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_the_choices_are_no_worse_than_the_compilers_own(explorer):
    tuned = Tuning(explorer, 0, 8).tuned(LAYERS, TARGET)
    assert 0 < tuned.trials <= 8 * len(LAYERS)
    better, choose = 0, tuned.chooser()
    for task in LAYERS:
        space = space_of(task, TARGET)
        default, best = (simulated_cycles(task, chooser(space), TARGET) for chooser in (cached(), choose))
        assert best == tuned.records.current[str(task), TARGET.timing_digest].cycles
        assert best <= default
        better += best < default
    assert tuned.tasks == better


def test_a_pickled_tuning_finds_the_same(teaching):
    tuning = Tuning("model", 3, 6, teaching)
    original, unpickled = (
        copy.tuned(LAYERS, TARGET) for copy in (tuning, pickle.loads(pickle.dumps(tuning)))
    )
    assert original.records.current == unpickled.records.current
    assert (original.tasks, original.trials) == (unpickled.tasks, unpickled.trials)


def test_a_network_without_tasks_needs_no_trials():
    tuned = Tuning("model", 0, 8).tuned({}, TARGET)
    assert (tuned.tasks, tuned.trials, tuned.records.current) == (0, 0, {})


def test_what_is_taught_are_features_and_cycles_of_the_legal_choices_of_a_log(tmp_path):
    tune(tmp_path / "log", here(), layers={SMALL: ["b"]}, trials=12)
    records = [record for record in read_log(tmp_path / "log").records if record.explorer != DEFAULT]
    records[3] = replace(records[3], cycles=None, status="it is Tuesday")
    (lesson,) = taught(records, TARGET)
    legal = sorted(
        (record for record in records if record.cycles is not None), key=lambda record: record.order
    )
    space = space_of(SMALL, TARGET)
    places = [space.place(choice_from_json(record.choice)) for record in legal]
    assert lesson.cycles.tolist() == [record.cycles for record in legal]
    assert np.array_equal(lesson.features, SpacePoints(space).features[places])
    assert taught(records[:2], TARGET) == ()
