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
from vdla.hw.spec.vocabulary import Extension

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


RESETS = TINY.with_changes(
    name="resets", extensions=(Extension.REQUANTISE, Extension.PAD_MINIMUM), acc_ports=2
)
SLOW = MemoryParameters(90, cycles_per_beat=2)
PINNED = {  # means: features in hundredths, and cycles
    ("convolution", "tiny"): (1248, 979, 0, 1219, 759, 652, 510, 365, 561, 350, 30, 435, 665, 144, 1028, 1115, 0, 864, 16, 8, 4, 176, 93, 8872),
    ("convolution", "resets"): (1258, 983, 0, 1219, 759, 652, 510, 365, 561, 350, 31, 439, 665, 142, 1028, 1115, 0, 864, 16, 8, 4, 176, 93, 9526),
    ("addition", "tiny"): (1222, 0, 1000, 946, 791, 488, 454, 338, 340, 340, 133, 681, 628, 38, 0, 0, 891, 708, 0, 0, 8, 191, 99, 6005),
    ("addition", "resets"): (1231, 0, 991, 946, 791, 488, 454, 338, 340, 340, 128, 673, 628, 40, 0, 0, 891, 708, 0, 0, 8, 191, 99, 6657),
    ("largest", "tiny"): (1305, 0, 1117, 1078, 765, 638, 470, 369, 544, 374, 124, 583, 545, 37, 0, 0, 1078, 0, 0, 0, 13, 181, 82, 10894),
    ("largest", "resets"): (1298, 0, 1085, 1078, 765, 638, 470, 369, 544, 374, 107, 552, 545, 45, 0, 0, 1078, 0, 0, 0, 13, 181, 82, 10637),
    ("sum_of_squares", "tiny"): (1360, 0, 1250, 1105, 634, 735, 480, 297, 588, 298, 190, 668, 527, 18, 0, 0, 1091, 693, 0, 0, 22, 221, 99, 15943),
    ("sum_of_squares", "resets"): (1351, 0, 1224, 1105, 634, 735, 480, 297, 588, 298, 171, 642, 527, 21, 0, 0, 1091, 693, 0, 0, 22, 221, 99, 15345),
}  # fmt: skip


def spread(make, config) -> Work:
    """Return what legal points from all over a space do."""
    (kernel,) = kernels_of(make(config).output, config)
    found = Points(kernel, Target(config, SLOW), most=1)
    number, places = np.arange(3000)[:, None], np.arange(len(found.space))
    rows = (number * (2 * places + 3) + number // (places + 2)) % [len(knob.values) for knob in found.space]
    table = found.table.of(rows)
    return Work(table.of(rows[table.legal()]), SLOW)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("config", [TINY, RESETS], ids=lambda config: config.name)
def test_estimates_are_those_that_were_compared_with_simulations(make, config):
    """Whoever changes them looks at how they rank points, and then changes these figures."""
    work = spread(make, config)
    figures = *(round(100 * column.mean()) for column in features_of(work).T), round(work.cycles().mean())
    assert figures == PINNED[make.__name__, config.name]
