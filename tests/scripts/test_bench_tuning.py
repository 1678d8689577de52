"""What `scripts/bench_tuning.py` makes of searches, on small tasks and made-up results."""

import msgspec
import numpy as np
import pytest
from bench_tuning import gains, plan_for
from tuning.figures import correlations, curves, gain, trials_to_reach, tuned
from tuning.picture import draw
from tuning.subjects import drawn, targets, tasks_on
from tuning.trials import Searched, Subject, TaskOutcome, search_task

from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.te.operators.sizes import Convolution
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY
from vdla.hw.spec.target import Target

TARGET = Target(TINY)
TASKS = {
    "a": ConvolutionTask(Convolution(32, 8, 8, 32, (1, 1))),
    "b": ConvolutionTask(Convolution(16, 8, 8, 32, padding=(1, 1, 1, 1))),
}


def searched(explorer="model", seed=0, cycles=(120, 90, 95)):
    return Searched(explorer, seed, list(range(len(cycles))), list(cycles))


def task_result(task="C1", default=100, floor=80, roofline=60, searches=()):
    searches = searches or (searched(),)
    best = min(default, *(min(search.cycles) for search in searches))
    return TaskOutcome("default", task, 500, default, roofline, floor, best, 0, list(searches))


def test_a_search_knows_the_default_choice():
    assert tuned(task_result(), searched()) == 90
    assert tuned(task_result(), searched(cycles=(150, 120))) == 100
    assert gain(task_result(), "model") == pytest.approx(100 / 90)


def test_curves_are_of_the_best_so_far():
    (curve,) = curves([task_result()], "model", 5)
    assert curve == pytest.approx(np.array([120, 90, 90, 90, 90]) / 90)


def test_trials_until_another_explorer_is_reached():
    searches = (
        searched("random", cycles=(100, 97, 95)),
        searched(cycles=(120, 95, 90)),
        searched(seed=1, cycles=(99, 98)),
    )
    needed = trials_to_reach([task_result(searches=searches)], "model", "random", 8)
    assert needed == {"C1": pytest.approx((2 * 8) ** 0.5)}


@pytest.mark.parametrize(
    ("floor", "required", "holds"),
    [
        pytest.param(80, 1.05, True, id="gained"),
        pytest.param(85, 1.20, True, id="no more is there"),
        pytest.param(80, 1.20, False, id="missed"),
    ],
)
def test_a_gain_is_reached_or_proven_not_to_be_there(floor, required, holds):
    lines = [*gains({"C1": task_result(floor=floor)}, required)]
    assert all(reached for _, reached in lines) is holds


def test_a_task_is_searched_and_what_is_left_is_bounded():
    result = search_task("a", TASKS["a"], TARGET, [("model", 0), ("random", 0)], 20, 30)
    assert [len(search.cycles) for search in result.searched] == [20, 20]
    assert result.roofline <= result.floor <= result.best <= result.default
    assert msgspec.json.decode(msgspec.json.encode(result), type=TaskOutcome) == result


@pytest.mark.parametrize("name", TASKS)
def test_no_choice_is_below_its_bound(name):
    subject = Subject(TASKS[name], TARGET)
    bounds = subject.bounds()
    near = np.argsort(subject.points.estimates)[:30]
    for place in (*near, *np.random.default_rng(0).integers(len(bounds), size=20)):
        assert bounds[place] <= subject.cycles(int(place)), subject.points.choice(int(place))


def test_models_are_judged_on_tasks_that_they_have_not_seen():
    results = {name: search_task(name, task, TARGET, [("random", 0)], 40, 0) for name, task in TASKS.items()}
    judged = correlations(results, TASKS, TARGET, "linear", 40)
    assert set(judged) == set(TASKS)
    assert min(judged.values()) > 0.5


def test_targets_are_presets_and_drawn_ones():
    assert drawn(1) == drawn(1) != drawn(2)
    assert [target.config for target in targets(0).values()] == [DEFAULT, SMALL]
    assert drawn(1).config.block_in == DEFAULT.block_in
    assert {explorer for explorer, _ in plan_for(drawn(1), 5)} == {"model"}
    assert len(plan_for(Target(DEFAULT), 5)) > 5


def test_tasks_are_those_of_the_target():
    tasks = tasks_on(Target(DEFAULT))
    assert len(tasks) == len(set(tasks.values())) == 36
    assert {name[0] for name in tasks} == set("CPDME")


def test_curves_are_drawn(tmp_path):
    draw({"model": np.array([[2.0, 1.5], [1.9, 1.4]]), "random": np.array([[3.0, 2.0]])}, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert "<svg" in text
