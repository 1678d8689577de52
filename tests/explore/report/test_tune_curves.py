"""Curves of a tuning, on cycles that are written out."""

import pytest

from tests.explore.report.logs import LARGE, record
from vdla.explore.report.tune_curves import Curve, best_so_far, curves_of, mean_curves
from vdla.explore.tune.known import DEFAULT


def trials(explorer, seed, cycles):
    return [
        record(LARGE, trial, explorer, seed, trial, cycles=count, status="ok" if count else "no")
        for trial, count in enumerate(cycles, 1)
    ]


def test_the_best_so_far_never_rises_and_starts_at_the_compiler_s_own_choice():
    default = record(LARGE, 0, DEFAULT, cycles=50)
    best = best_so_far([default, *reversed(trials("random", 3, [120, None, 80, 90, 60]))], 100)
    assert list(best) == ["random"]
    assert best["random"][3].tolist() == [1, 1, 1, 0.8, 0.8, 0.6]


def test_a_curve_has_the_spread_over_seeds_where_it_changes_and_at_its_end():
    records = [
        *trials("model", 0, [80, 80, 80, 80]),
        *trials("model", 1, [100, 60]),
        *trials("random", 0, [90]),
    ]
    model, other = curves_of(best_so_far(records, 100))
    assert model == Curve("model", 2, (0, 1, 2, 4), (1, 0.9, 0.7, 0.7), (1, 0.8, 0.6, 0.6), (1, 1, 0.8, 0.8))
    assert other == Curve("random", 1, (0, 1), (1, 0.9), (1, 0.9), (1, 0.9))


def test_the_mean_is_geometric_and_tasks_without_trials_stay_at_1():
    first_task = best_so_far([*trials("model", 0, [50, 50, 25]), *trials("model", 1, [100])], 100)
    second_task = best_so_far(trials("model", 0, [200, 50]), 200)
    (mean,) = mean_curves([first_task, second_task])
    assert (mean.explorer, mean.seeds, mean.trials) == ("model", 2, (0, 1, 2, 3))
    assert mean.least == pytest.approx((1, 0.5**0.5, (0.5 * 0.25) ** 0.5, 0.25))
    assert mean.most == (1, 1, 1, 1)


def test_without_trials_there_are_no_curves():
    assert curves_of(best_so_far([record(LARGE, 0, DEFAULT)], 100)) == []
    assert mean_curves([{}]) == []
