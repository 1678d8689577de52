"""How well the model orders what it has not seen, replayed from records."""

import pytest

from tests.explore.report.logs import LARGE, POOLING, SMALL, TARGET, changed, points, record, trials_of
from vdla.compiler.codegen.space import space_of
from vdla.explore.tune.replay import FIRST, LEAST, Ranks, Trials, ranks_of
from vdla.explore.tune.replay import trials_of as replayed

pytest.importorskip("xgboost")


def trials(task, found=None):
    return replayed(trials_of(task) if found is None else found, space_of(task, TARGET))


def test_trials_are_in_their_order_whatever_the_order_of_the_log():
    found = trials_of(LARGE)
    forwards, backwards = trials(LARGE, found), trials(LARGE, reversed(found))
    assert list(forwards.cycles.items()) == list(backwards.cycles.items())
    assert set(forwards.cycles) == {
        points(LARGE).space.place(points(LARGE).choice(p)) for p in forwards.cycles
    }
    illegal = changed(found[3], cycles=None, status="no")
    assert list(trials(LARGE, [illegal]).cycles.values()) == [float("inf")]


def test_choices_that_the_space_has_not_are_left_out():
    other = record(LARGE, 0, "random", choice={"threads": 2})
    foreign = record(LARGE, 0, "random", choice={"threads": 7, "tiles": None, "parts": 1})
    assert trials(LARGE, [other, foreign]).cycles == {}


def test_the_model_learns_from_the_first_trials_of_the_others_alone():
    one, other = trials(LARGE), trials(SMALL)
    found = ranks_of([one, other])
    assert [rank.count for rank in found] == [len(one.cycles), len(other.cycles)]
    assert all(rank.learned > 0.5 for rank in found)
    listed = list(other.cycles.items())
    assert len(listed) > FIRST
    late = dict(listed[:FIRST]) | {place: 1e9 / cycles for place, cycles in listed[FIRST:]}
    early = {place: 1e9 / cycles for place, cycles in listed[:FIRST]} | dict(listed[FIRST:])
    assert ranks_of([one, Trials(other.points, late)])[0] == found[0]
    assert ranks_of([one, Trials(other.points, early)])[0].learned < found[0].learned


def test_its_own_cycles_teach_the_model_nothing_of_a_task():
    one, other = trials(LARGE), trials(SMALL)
    turned = Trials(one.points, {place: 1e9 / cycles for place, cycles in one.cycles.items()})
    straight, reverse = ranks_of([one, other])[0], ranks_of([turned, other])[0]
    assert reverse.learned == pytest.approx(-straight.learned)
    assert reverse.analytic == pytest.approx(-straight.analytic)


def test_a_task_alone_has_the_estimate_s_correlation_and_few_points_have_none():
    (alone,) = ranks_of([trials(LARGE)])
    assert isinstance(alone, Ranks)
    assert alone.learned is None
    assert alone.analytic > 0.5
    few = trials(POOLING, trials_of(POOLING)[: LEAST - 1])
    assert ranks_of([few]) == [None]
