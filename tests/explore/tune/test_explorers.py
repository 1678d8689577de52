"""Explorers of a space whose best point is known."""

from statistics import mean
from types import SimpleNamespace

import numpy as np
import pytest

from tests.explore.tune.grid import Grid
from vdla.explore.tune.explorers import EXPLORERS
from vdla.explore.tune.model import Analytic, Learned

GRID = Grid()


def searched(name, points, seed, trials, batch=16):
    """Return the cycles of the points that an explorer asks for, in order."""
    explorer, searched_cycles = EXPLORERS[name](points, seed, Learned()), []
    while len(searched_cycles) < trials:
        places = explorer.ask(min(batch, trials - len(searched_cycles)))
        if not places:
            break
        cycles = points.cycles[places].tolist()
        explorer.tell(places, cycles)
        searched_cycles += cycles
    return searched_cycles


@pytest.mark.parametrize("name", EXPLORERS)
def test_every_point_is_asked_for_once(name):
    points = Grid()
    points.__dict__["knobs"] = GRID.knobs[:90]
    assert sorted(searched(name, points, 0, 1000)) == sorted(points.cycles.tolist())


@pytest.mark.parametrize("name", EXPLORERS)
def test_what_was_told_is_not_asked_for(name):
    explorer = EXPLORERS[name](GRID, 0, Learned())
    known = list(range(0, len(GRID), 2))
    explorer.tell(known, GRID.cycles[known].tolist())
    asked = [place for _ in range(5) for place in explorer.ask(20)]
    assert len(set(asked)) == 100
    assert not set(asked) & set(known)


@pytest.mark.parametrize("name", EXPLORERS)
def test_a_seed_decides_what_is_asked_for(name):
    assert searched(name, GRID, 3, 100) == searched(name, Grid(), 3, 100)
    if name != "exhaustive":
        assert searched(name, GRID, 3, 100) != searched(name, GRID, 4, 100)


def test_derived_points_beat_random_ones_and_learned_points_beat_both():
    best = {
        name: mean(min(searched(name, GRID, seed, 120)) for seed in range(3))
        for name in ("random", "evolutionary", "model")
    }
    assert best["model"] < best["evolutionary"] < best["random"]
    assert best["model"] == GRID.cycles.min()


@pytest.mark.parametrize("name", EXPLORERS)
def test_illegal_points_are_told_as_infinite(name):
    explorer = EXPLORERS[name](GRID, 0, Learned())
    for _ in range(6):
        places = explorer.ask(10)
        legal = [float(GRID.cycles[place]) if place % 3 else np.inf for place in places]
        explorer.tell(places, legal)
    assert len(explorer.ask(10)) == 10


def test_the_exhaustive_explorer_begins_with_the_best_estimates():
    points = Grid(skew=10.0)
    assert set(points.knobs[EXPLORERS["exhaustive"](points, 0, Learned()).ask(50), 0]) == {0}


PROPOSED = {
    "model": [6, 14, 26, 35, 47, 51, 58, 67, 76, 88, 100, 109, 90, 71, 1342, 523],
    "evolutionary": [386, 1336, 751, 263, 308, 562, 301, 302, 454, 405, 656, 388, 749, 445, 424, 635],
    "random": [814, 450, 521, 458, 1297, 1139, 669, 180, 1213, 3, 880, 886, 281, 88, 795, 975],
    "exhaustive": [*range(80, 96)],
}
"""The sixth batch of seed 5. A log resumes a tuning only while its explorer proposes what it proposed before:
change these with the explorers, and say that old tunings start anew."""


@pytest.mark.parametrize("name", EXPLORERS)
def test_a_tuning_of_an_earlier_version_resumes(name):
    points = Grid(skew=10.0)
    explorer = EXPLORERS[name](points, 5, Analytic())
    for _ in range(6):
        places = explorer.ask(16)
        explorer.tell(places, points.cycles[places].tolist())
    assert places == PROPOSED[name]


def test_knobs_that_the_batch_has_already_cost_a_share_of_the_spread():
    points = Grid()
    points.__dict__["knobs"] = np.array([[0, 0], [0, 1], [5, 6], [0, 0]])
    explorer = EXPLORERS["model"](points, 0, Analytic())
    explorer.annealed = lambda scores: np.array([0, 1, 2])
    for far, order in ((3.9, [0, 1, 2]), (3.97, [0, 2, 1])):
        explorer.model = SimpleNamespace(scores=lambda points, far=far: np.array([6.0, 4.0, far, 6.0]))
        explorer.seen[:] = False
        assert explorer.chosen(3) == order
