"""Which points of a space are alike."""

import numpy as np
import pytest

from tests.explore.tune.grid import Grid
from vdla.explore.tune import points
from vdla.explore.tune.points import Neighbours

GRID = Grid()


def test_every_point_is_found_by_its_digits_and_no_other():
    neighbours = Neighbours(GRID)
    assert np.array_equal(neighbours.places(neighbours.digits), np.arange(len(GRID)))
    missing = np.array([[1, 0, 0], [0, 0, 6]])  # whose sum is 1 modulo 5
    assert np.array_equal(neighbours.places(missing), [-1, -1])


def test_neighbours_are_other_points_that_differ_in_few_knobs():
    neighbours, rng = Neighbours(GRID), np.random.default_rng(0)
    places = rng.integers(len(GRID), size=200)
    moved = neighbours.mutated(places, rng)
    differing = (GRID.knobs[moved] != GRID.knobs[places]).sum(axis=1)
    assert set(differing) <= {0, 1, 2}
    assert (differing > 0).mean() > 0.95
    assert len(set(moved.tolist())) > 100


def test_a_crossed_point_has_each_knob_of_one_of_two():
    neighbours, rng = Neighbours(GRID), np.random.default_rng(0)
    first, second = (int(neighbours.places(np.array([row]))[0]) for row in ([1, 1, 0], [0, 4, 6]))
    crossed = [neighbours.crossed(first, second, rng) for _ in range(60)]
    points = [place for place in crossed if place is not None]
    assert len(set(points)) > 2
    for place in points:
        assert all(GRID.knobs[place][knob] in GRID.knobs[[first, second], knob] for knob in range(3))
    assert None in crossed  # 0, 1, 0 is no point


def test_a_single_point_has_no_neighbours():
    class One:
        knobs = np.array([[4, 4]])

        def __len__(self):
            return 1

    assert Neighbours(One()).mutated(np.array([0, 0]), np.random.default_rng(0)).tolist() == [0, 0]


@pytest.mark.parametrize(("both", "far"), [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)])
def test_one_knob_or_two_change_by_a_step_or_to_any_value(monkeypatch, both, far):
    monkeypatch.setattr(points, "BOTH", both)
    monkeypatch.setattr(points, "FAR", far)
    neighbours, rng = Neighbours(GRID), np.random.default_rng(0)
    digits = neighbours.digits[rng.integers(len(GRID), size=2000)]
    change = neighbours._changed(digits.copy(), rng) - digits
    assert (change != 0).sum(axis=1).max() == (2 if both else 1)
    for knob, count in enumerate(neighbours.counts):
        most = 2 if both else 1  # a knob may be drawn twice
        reach = count - 1 if far else min(most, count - 1)
        assert (change[:, knob].min(), change[:, knob].max()) == (-reach, reach)
