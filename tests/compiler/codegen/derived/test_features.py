"""What points move and compute is what their streams do; estimates rank points."""

import numpy as np
import pytest
from generators.expressions import addition, convolution, largest, sum_of_squares

from vdla.compiler.codegen.derived.features import Work, features_of
from vdla.compiler.codegen.derived.kernels import kernels_of
from vdla.compiler.codegen.derived.points import Point, Points
from vdla.compiler.codegen.derived.trial import tried
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import SMALL, TINY
from vdla.hw.spec.target import Target

MAKERS = (convolution, addition, largest, sum_of_squares)


def points(make):
    (kernel,) = kernels_of(make(TINY).output, TINY)
    return Points(kernel, Target(TINY), most=400)


@pytest.mark.parametrize("make", MAKERS)
def test_features_are_finite_and_differ(make):
    found = points(make)
    assert found.features.shape[0] == len(found)
    assert np.isfinite(found.features).all()
    assert len(np.unique(found.features, axis=0)) > len(found) / 10


def test_all_kernels_have_the_same_features():
    assert len({points(make).features.shape[1] for make in MAKERS}) == 1


def test_weights_that_are_kept_are_moved_once():
    found = points(convolution)
    bytes_of_weights = 3 * 2 * 9 * 16
    for place in range(0, len(found), 37):
        moved = found.work.loads["W_weight"].bytes[place]
        assert moved >= bytes_of_weights
        if found.point(place).values["place W_weight"] == "first":
            assert moved == bytes_of_weights


def test_products_are_those_of_the_operator():
    """Each tile at the edge counts as far as it is filled."""
    found = points(convolution)
    sums = 3 * 4 * 4
    assert found.work.products.min() == sums * 2 * 9
    assert found.work.products.max() <= sums * (2 * 9 + 1)  # sums that are set to 0 first


def test_estimates_rank_points():
    """Spearman's coefficient of estimates and cycles, on points that are drawn uniformly; and the best estimates
    are of faster points."""
    (kernel,) = kernels_of(convolution(SMALL, side=28).output, SMALL)
    found = Points(kernel, Target(SMALL), most=1000)
    rng = np.random.default_rng(5)
    drawn = found.table.of(
        rng.integers(0, [len(knob.values) for knob in found.space], (400, len(found.space)))
    )
    drawn = drawn.of(drawn.rows[drawn.legal()][:40])
    points = [Point(found.digest, drawn.values(row)) for row in range(len(drawn))]
    cycles = [tried(lambda point=point: found.program(point), found.target).cycles for point in points]
    estimates = Work(drawn, found.target.memory).cycles()
    ranks = [np.argsort(np.argsort(values)) for values in (estimates, cycles)]
    assert np.corrcoef(ranks)[0, 1] > 0.8
    best = [found.measure(int(place)) for place in np.argsort(found.estimates, kind="stable")[:10]]
    assert np.median(best) < 0.8 * np.median(cycles)


def test_a_slower_memory_makes_estimates_greater():
    found = points(convolution)
    slow = Work(found.table, MemoryParameters(cycles_per_beat=4, latency=400))
    assert (slow.cycles() > found.estimates).all()
    assert features_of(slow).shape == found.features.shape
