"""Cost models, on spaces whose cycles are known."""

import numpy as np
import pytest

from tests.explore.tune.grid import Grid
from vdla.explore.tune.model import MODELS, Analytic, Learned, Linear, Measured, rank_correlation

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
    found = Measured.of(GRID, {0: np.inf, 1: 5.0, 2: 7.0})
    assert found is not None
    assert found.cycles.tolist() == [5, 7]


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
