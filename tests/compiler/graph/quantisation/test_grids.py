"""Grids of int8 tensors."""

import numpy as np
import pytest

from vdla.compiler.graph.quantisation.grids import Case, Criterion, Grid, covering, grid_of, within_percentile
from vdla.compiler.graph.quantisation.observe import Observed


def case(array: np.ndarray, **options: object) -> Case:
    """Return a tensor of these elements."""
    seen = Observed()
    seen.add(array.astype(np.float32), None)
    return Case(seen, **options)


def error(grid: Grid, array: np.ndarray) -> float:
    """Return the mean squared error of elements on a grid."""
    whole = np.clip(np.rint(array / grid.scale) + grid.zero, -128, 127) - grid.zero
    return float(np.square(whole * grid.scale - array).mean())


def test_ranges_of_one_sign_use_all_integers_and_others_are_symmetric_unless_lopsided():
    assert covering(0, 255, False) == Grid(np.float32(1), -128)
    assert covering(-255, 0, False) == Grid(np.float32(1), 127)
    assert covering(-127, 120, False) == Grid(np.float32(1), 0)
    assert covering(-10, 245, False) == Grid(np.float32(1), -118)
    assert covering(0, 254, False, -127) == Grid(np.float32(1), -127)
    assert covering(-254, 0, False, -127) == Grid(np.float32(1), 127)
    assert covering(0, 127, True) == Grid(np.float32(1), 0)
    assert covering(0, 0, False).scale > 0


def test_a_far_element_is_clipped_where_that_costs_less():
    array = np.append(np.random.default_rng(0).standard_normal(100_000), 100.0)
    best = grid_of(case(array), Criterion.SQUARED_ERROR)
    others = [grid_of(case(array), criterion) for criterion in Criterion]
    assert error(best, array) <= 1.01 * min(error(other, array) for other in others)
    assert error(best, array) < 0.9 * error(covering(array.min(), array.max(), False), array)
    assert float(grid_of(case(array), Criterion.EXTREMES).scale) == pytest.approx(
        (100 - array.min()) / 255, rel=1e-6
    )


def test_errors_count_behind_the_function_that_reads():
    array = np.random.default_rng(0).uniform(-50, 50, 10_000)
    plain = grid_of(case(array), Criterion.SQUARED_ERROR)
    rectified = grid_of(case(array, function=lambda x: [np.maximum(x, 0)]), Criterion.SQUARED_ERROR)
    assert float(rectified.scale) == pytest.approx(float(plain.scale) / 2, rel=0.05)
    assert rectified.zero < -120


def test_percentiles_are_of_magnitudes():
    array = np.append(np.linspace(-1, 1, 9999), 50)
    assert float(within_percentile(case(array), 99.9).scale) * 127 == pytest.approx(1, rel=0.02)
    assert float(within_percentile(case(array), 100).scale) * 255 == pytest.approx(51)


def test_entropy_keeps_the_body_of_the_distribution():
    array = np.append(np.random.default_rng(0).standard_normal(100_000), [80.0, 90.0])
    assert float(grid_of(case(array), Criterion.ENTROPY).scale) * 127 < 20
