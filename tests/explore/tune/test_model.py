"""Cost models, on spaces whose cycles are known, and how well they order what they have not seen."""

import numpy as np
import pytest

from tests.explore.report.logs import LARGE, POOLING, SMALL, TARGET, changed, points, record, trials_of
from tests.explore.tune.grid import Grid
from vdla.compiler.codegen.space import space_of
from vdla.explore.tune.model import (
    FIRST,
    LEAST,
    MODELS,
    Analytic,
    Learned,
    Linear,
    Measured,
    Ranks,
    Trials,
    rank_correlation,
    ranks_of,
)
from vdla.explore.tune.model import trials_of as replayed

GRID = Grid()


def measured(points, places):
    return Measured.of(points, {int(place): float(points.cycles[place]) for place in places})


@pytest.mark.parametrize("name", ["learned", "linear"])
def test_a_model_orders_points_it_has_not_seen(name):
    places = np.random.default_rng(0).permutation(len(GRID))
    model = MODELS[name]()
    model.learn(measured(GRID, places[:64]))
    rest = places[64:]
    assert rank_correlation(model.scores(GRID)[rest], GRID.cycles[rest]) > 0.85


@pytest.mark.parametrize("name", ["learned", "linear"])
def test_a_model_starts_warm_with_what_was_measured_of_other_spaces(name):
    other = Grid(best=(4, 6, 5))
    places = np.random.default_rng(0).permutation(len(other))[:200]
    warm = MODELS[name]((measured(other, places),))
    assert rank_correlation(warm.scores(GRID), GRID.cycles) > 0.8


@pytest.mark.parametrize("model", [Analytic(), Learned(), Linear()], ids=["analytic", "learned", "linear"])
def test_without_measurements_a_model_orders_by_estimates(model):
    points = Grid(skew=5.0)
    assert np.array_equal(
        np.argsort(model.scores(points), kind="stable"), np.argsort(-points.estimates, kind="stable")
    )


def test_illegal_points_teach_nothing():
    assert Measured.of(GRID, {0: np.inf, 1: 5.0}) is None
    measured = Measured.of(GRID, {0: np.inf, 1: 5.0, 2: 7.0})
    assert measured is not None
    assert measured.cycles.tolist() == [5, 7]


@pytest.mark.parametrize(
    ("scores", "cycles", "expected"),
    [
        ([3, 2, 1], [10, 20, 30], 1),
        ([1, 2, 3], [10, 20, 30], -1),
        ([1, 1, 1], [10, 20, 30], 0),
        ([4, 4, 1, 0], [10, 10, 20, 30], 1),
    ],
)
def test_rank_correlation(scores, cycles, expected):
    assert rank_correlation(np.array(scores, float), np.array(cycles, float)) == pytest.approx(expected)


pytest.importorskip("xgboost")


def trials(task, log_records=None):
    return replayed(trials_of(task) if log_records is None else log_records, space_of(task, TARGET))


def test_trials_are_in_their_order_whatever_the_order_of_the_log():
    task_records = trials_of(LARGE)
    forwards, backwards = trials(LARGE, task_records), trials(LARGE, reversed(task_records))
    assert list(forwards.cycles.items()) == list(backwards.cycles.items())
    assert set(forwards.cycles) == {
        points(LARGE).space.place(points(LARGE).choice(p)) for p in forwards.cycles
    }
    illegal = changed(task_records[3], cycles=None, status="no")
    assert list(trials(LARGE, [illegal]).cycles.values()) == [float("inf")]


def test_choices_that_the_space_has_not_are_left_out():
    other = record(LARGE, 0, "random", choice={"threads": 2})
    foreign = record(LARGE, 0, "random", choice={"threads": 7, "tiles": None, "parts": 1})
    assert trials(LARGE, [other, foreign]).cycles == {}


def test_the_model_learns_from_the_first_trials_of_the_others_alone():
    large, small = trials(LARGE), trials(SMALL)
    ranks = ranks_of([large, small])
    assert [rank.count for rank in ranks] == [len(large.cycles), len(small.cycles)]
    assert all(rank.learned > 0.5 for rank in ranks)
    listed = list(small.cycles.items())
    assert len(listed) > FIRST
    late = dict(listed[:FIRST]) | {place: 1e9 / cycles for place, cycles in listed[FIRST:]}
    early = {place: 1e9 / cycles for place, cycles in listed[:FIRST]} | dict(listed[FIRST:])
    assert ranks_of([large, Trials(small.points, late)])[0] == ranks[0]
    assert ranks_of([large, Trials(small.points, early)])[0].learned < ranks[0].learned


def test_its_own_cycles_teach_the_model_nothing_of_a_task():
    large, small = trials(LARGE), trials(SMALL)
    turned = Trials(large.points, {place: 1e9 / cycles for place, cycles in large.cycles.items()})
    straight, reverse = ranks_of([large, small])[0], ranks_of([turned, small])[0]
    assert reverse.learned == pytest.approx(-straight.learned)
    assert reverse.analytic == pytest.approx(-straight.analytic)


def test_a_task_alone_has_the_estimate_s_correlation_and_few_points_have_none():
    (alone,) = ranks_of([trials(LARGE)])
    assert isinstance(alone, Ranks)
    assert alone.learned is None
    assert alone.analytic > 0.5
    few = trials(POOLING, trials_of(POOLING)[: LEAST - 1])
    assert ranks_of([few]) == [None]
