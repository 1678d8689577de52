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
    found = taught(read_log(path).records, TARGET)
    assert found
    return found


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_the_choices_are_no_worse_than_the_compilers_own(explorer):
    found = Tuning(explorer, 0, 8).tuned(LAYERS, TARGET)
    assert 0 < found.trials <= 8 * len(LAYERS)
    better, choose = 0, found.chooser()
    for task in LAYERS:
        space = space_of(task, TARGET)
        default, best = (simulated_cycles(task, one(space), TARGET) for one in (cached(), choose))
        assert best == found.records.current[str(task), TARGET.timing_digest].cycles
        assert best <= default
        better += best < default
    assert found.tasks == better


def test_a_pickled_tuning_finds_the_same(teaching):
    tuning = Tuning("model", 3, 6, teaching)
    one, other = (found.tuned(LAYERS, TARGET) for found in (tuning, pickle.loads(pickle.dumps(tuning))))
    assert one.records.current == other.records.current
    assert (one.tasks, one.trials) == (other.tasks, other.trials)


def test_a_network_without_tasks_needs_no_trials():
    found = Tuning("model", 0, 8).tuned({}, TARGET)
    assert (found.tasks, found.trials, found.records.current) == (0, 0, {})


def test_what_is_taught_are_features_and_cycles_of_the_legal_choices_of_a_log(tmp_path):
    tune(tmp_path / "log", here(), layers={SMALL: ["b"]}, trials=12)
    records = [one for one in read_log(tmp_path / "log").records if one.explorer != DEFAULT]
    records[3] = replace(records[3], cycles=None, status="it is Tuesday")
    (found,) = taught(records, TARGET)
    legal = sorted((one for one in records if one.cycles is not None), key=lambda one: one.order)
    space = space_of(SMALL, TARGET)
    places = [space.place(choice_from_json(one.choice)) for one in legal]
    assert found.cycles.tolist() == [one.cycles for one in legal]
    assert np.array_equal(found.features, SpacePoints(space).features[places])
    assert taught(records[:2], TARGET) == ()
