"""Grids of int8 tensors."""

import numpy as np
import pytest

from tests.compiler.graph.quantisation.graphs import (
    attention,
    attention_samples,
    residual,
    rows,
    samples,
    samples_of_rows,
    unrolled,
    unrolled_samples,
)
from vdla.compiler.graph.interpret import all_values
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.quantisation.grids import (
    Calibration,
    Criterion,
    Grid,
    calibrations_of,
    covering,
    error_weights,
    grid_of,
    input_power,
    within_percentile,
)
from vdla.compiler.graph.quantisation.observe import Observed, observe
from vdla.compiler.graph.quantisation.roles import Roles
from vdla.compiler.graph.text import print_graph


def calibration(array: np.ndarray, **options: object) -> Calibration:
    """Return a tensor of these elements."""
    seen = Observed()
    seen.add(array.astype(np.float32), None)
    return Calibration(seen, **options)


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
    best = grid_of(calibration(array), Criterion.SQUARED_ERROR)
    others = [grid_of(calibration(array), criterion) for criterion in Criterion]
    assert error(best, array) <= 1.01 * min(error(other, array) for other in others)
    assert error(best, array) < 0.9 * error(covering(array.min(), array.max(), False), array)
    assert float(grid_of(calibration(array), Criterion.EXTREMES).scale) == pytest.approx(
        (100 - array.min()) / 255, rel=1e-6
    )


def test_errors_count_after_the_function_of_the_readers():
    array = np.random.default_rng(0).uniform(-50, 50, 10_000)
    plain = grid_of(calibration(array), Criterion.SQUARED_ERROR)
    rectified = grid_of(calibration(array, function=lambda x: [np.maximum(x, 0)]), Criterion.SQUARED_ERROR)
    assert float(rectified.scale) == pytest.approx(float(plain.scale) / 2, rel=0.05)
    assert rectified.zero < -120


@pytest.mark.parametrize("criterion", Criterion)
def test_values_of_one_sign_use_all_integers_whatever_the_criterion(criterion):
    """A range always holds 0, from which on values of one sign are counted."""
    array = np.random.default_rng(0).uniform(5, 10, 20_000)
    above, below = (grid_of(calibration(sign * array), criterion) for sign in (1, -1))
    assert (above.zero, below.zero) == (-128, 127)
    assert float(above.scale) == pytest.approx(float(below.scale), rel=1e-6)
    assert 0.9 * 10 / 255 < float(above.scale) <= 10 / 255 * 1.001
    narrow = grid_of(calibration(array, lowest=-127), criterion)
    assert narrow.zero == -127
    assert grid_of(calibration(array, symmetric=True), criterion).zero == 0


@pytest.mark.parametrize("criterion", Criterion)
def test_a_tensor_of_zeros_has_a_grid(criterion):
    grid = grid_of(calibration(np.zeros(9)), criterion)
    assert float(grid.scale) > 0
    assert grid.zero == 0


def test_each_end_of_a_range_is_clipped_independently():
    """With a far element on one side, the error is nearly that of the best end of that side."""
    body = np.random.default_rng(0).uniform(-1, 3, 50_000)
    for sign in (1, -1):
        array = sign * np.append(body, -30.0)
        grid = grid_of(calibration(array), Criterion.SQUARED_ERROR)
        finest = min(
            error(covering(*sorted((sign * -least, sign * 3.0)), False), array)
            for least in np.linspace(0.8, 30, 200)
        )
        assert error(grid, array) <= 1.05 * finest


def test_percentiles_are_of_magnitudes():
    array = np.append(np.linspace(-1, 1, 9999), 50)
    assert float(within_percentile(calibration(array), 99.9).scale) * 127 == pytest.approx(1, rel=0.02)
    assert float(within_percentile(calibration(array), 100).scale) * 255 == pytest.approx(51)


def test_entropy_keeps_the_body_of_the_distribution():
    array = np.append(np.random.default_rng(0).standard_normal(100_000), [80.0, 90.0])
    assert float(grid_of(calibration(array), Criterion.ENTROPY).scale) * 127 < 20


BODY = np.linspace(-1, 3, 4001) ** 3
DISTRIBUTIONS = {
    "lopsided": BODY,
    "with a far element": np.append(BODY, -90.0),
    "with far elements on both sides": np.append(np.tile(BODY, 9), [-80.0, 200.0]),
    "of a long tail": 1 / (1 - np.linspace(0, 0.999999, 200_001)),
    "of few values": np.array([0.0, 1, 1, 2, 10, 10]),
    "of one sign": np.abs(BODY) + 1,
}
RANGES = {  # the extent of the grid, and its zero point
    ("lopsided", Criterion.SQUARED_ERROR, False): (28.0, -119),
    ("lopsided", Criterion.SQUARED_ERROR, True): (54.2126, 0),
    ("lopsided", Criterion.ENTROPY, False): (28.0, -119),
    ("with a far element", Criterion.SQUARED_ERROR, False): (117.0, 68),
    ("with a far element", Criterion.SQUARED_ERROR, True): (180.70867, 0),
    ("with a far element", Criterion.ENTROPY, False): (56.919661, 0),
    ("with far elements on both sides", Criterion.SQUARED_ERROR, False): (271.27191, -61),
    ("of a long tail", Criterion.PERCENTILE_9999, False): (9951.9999, -128),
    ("of a long tail", Criterion.PERCENTILE_99999, False): (90879.998, -128),
    ("of a long tail", Criterion.EXTREMES, False): (999999.99, -128),
    ("of few values", Criterion.SQUARED_ERROR, True): (20.07874, 0),
    ("of few values", Criterion.ENTROPY, False): (0.99212563, -128),
    ("of few values", Criterion.ENTROPY, True): (1.9920633, 0),
    ("of one sign", Criterion.ENTROPY, False): (28.0, -128),
    ("of one sign", Criterion.ENTROPY, True): (50.086746, 0),
}


@pytest.mark.parametrize("title", RANGES)
def test_the_range_of_a_distribution_is_the_one_that_was_chosen_before(title):
    name, criterion, symmetric = title
    grid = grid_of(calibration(DISTRIBUTIONS[name], symmetric=symmetric), criterion)
    assert (pytest.approx(float(grid.scale) * 255, rel=1e-5), grid.zero) == RANGES[title]


def test_clipping_leaves_a_128th_of_the_range():
    def flat(array: np.ndarray) -> list[np.ndarray]:
        return [np.clip(array, -0.25, 0.25)]

    grid = grid_of(calibration(np.linspace(-128, 128, 40_000), function=flat), Criterion.SQUARED_ERROR)
    assert grid == Grid(np.float32(1 / 127))


# Calibration data: the cost of errors in each tensor


def test_errors_count_by_the_weights_they_are_multiplied_by():
    roles = Roles(residual())
    weights = error_weights(roles)
    np.testing.assert_array_equal(weights["n"], [1 + 4, 1 + 9, 1 + 16, 25 + 1])
    assert weights["a"] is None
    assert weights["d"] is None


def test_the_errors_of_all_steps_count_alike():
    """One step is read by products alone; its weights count if they do for all steps."""
    roles = Roles(unrolled())
    weights = error_weights(roles)
    assert weights["h0"] is None
    np.testing.assert_array_equal(weights["s0"], weights["s1"])
    roles = Roles(parse_graph(print_graph(unrolled()).replace("return y", "return y, s1")))
    assert error_weights(roles)["s0"] is None


def test_the_range_of_a_step_covers_all_steps():
    roles, given = Roles(unrolled()), unrolled_samples(3)
    observed = observe(roles.graph, given, error_weights(roles), roles.leaders)
    values = [all_values(roles.graph, sample) for sample in given]
    steps = np.stack([each[name] for each in values for name in ("s0", "s1")])
    seen = observed[roles.leaders["s0"]]
    assert (seen.least, seen.greatest) == (steps.min(), steps.max())
    assert seen.counts.sum() == steps.size


def test_the_error_of_a_tensor_read_by_a_table_counts_after_the_table():
    roles = Roles(residual())
    calibrations = calibrations_of(roles, observe(roles.graph, samples(1), error_weights(roles)))
    x = np.array([-2.0, 0, 3])
    (silu,) = calibrations["a"].function(x)
    np.testing.assert_allclose(silu, x / (1 + np.exp(-x)), rtol=1e-6)
    assert calibrations["n"].function is None


def test_operands_of_products_of_activations_are_symmetric():
    roles = Roles(attention())
    calibrations = calibrations_of(roles, observe(roles.graph, attention_samples(1), error_weights(roles)))
    assert {name for name, case in calibrations.items() if case.symmetric} == {"a", "p"}


def test_rows_that_are_divided_by_their_root_mean_square_are_symmetric():
    roles = Roles(rows(), normalises=True)
    calibrations = calibrations_of(roles, observe(roles.graph, samples_of_rows(1), error_weights(roles)))
    assert {name for name, case in calibrations.items() if case.symmetric} == {"a", "b"}


def test_the_weights_of_a_normalisation_bound_its_scale():
    roles = Roles(rows(), normalises=True)
    calibrations = calibrations_of(roles, observe(roles.graph, samples_of_rows(1), error_weights(roles)))
    finest = {name: case.finest for name, case in calibrations.items() if case.finest}
    assert finest == {"n": pytest.approx(2 * 256 / 32767), "o": pytest.approx(2 * 256 / 32767)}


@pytest.mark.parametrize("criterion", Criterion)
def test_no_scale_is_finer_than_the_operator_before_it_computes(criterion):
    array = np.random.default_rng(0).uniform(0, 255, 1000)
    grid = grid_of(calibration(array, finest=4.0), criterion)
    assert grid == Grid(np.float32(4), -128)
    assert grid_of(calibration(array, finest=0.1), criterion) == grid_of(calibration(array), criterion)


def test_weights_of_convolutions_count_by_input_channel():
    text = """\
def f(x: float32[1, 2, 3, 3]):
    w: float32[2, GROUPED, 1, 1] = constant(VALUES)
    y: float32[1, 2, 3, 3] = Conv(x, w, dilations=(1, 1), group=GROUP, pads=(0, 0, 0, 0), strides=(1, 1))
    return y
"""
    dense = (
        text.replace("GROUPED", "2")
        .replace("GROUP", "1")
        .replace("VALUES", "[[[[1]], [[2]]], [[[3]], [[4]]]]")
    )
    single = text.replace("GROUPED", "1").replace("GROUP", "2").replace("VALUES", "[[[[1]]], [[[3]]]]")
    for source, wanted in ((dense, [10, 20]), (single, [1, 9])):
        graph = parse_graph(source)
        np.testing.assert_array_equal(input_power(graph, graph.nodes[0]).reshape(-1), wanted)


GATED = """\
def f(x: float32[1, 1, 2, 2]):
    w: float32[1, 1, 1, 1] = constant([[[[1]]]])
    c: float32[1, 1, 2, 2] = Conv(x, w, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    s: float32[1, 1, 2, 2] = Sigmoid(c)
    d: float32[1, 1, 2, 2] = Conv(x, w, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    m: float32[1, 1, 2, 2] = Mul(d, s)
    y: float32[1, 1, 2, 2] = Conv(m, w, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    return y
"""


def test_negative_zero_points_of_factors_fit_a_byte():
    roles = Roles(parse_graph(GATED))
    given = [{"x": np.ones((1, 1, 2, 2), np.float32)}]
    calibrations = calibrations_of(roles, observe(roles.graph, given, error_weights(roles)))
    assert {name: case.lowest for name, case in calibrations.items()} == {
        "x": -128,
        "c": -128,
        "s": -127,
        "d": -127,
        "m": -128,
        "y": -128,
    }
    assert grid_of(calibrations["s"], Criterion.EXTREMES).zero == -127


SCORES = """\
def f(x: float32[4, 4], m: float32[1, 4]):
    w: float32[4, 4] = constant([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    q: float32[4, 4] = MatMul(x, w)
    a: float32[4, 4] = Add(q, m)
    p: float32[4, 4] = Softmax(a, axis=1)
    y: float32[4, 4] = MatMul(p, w)
    return y
"""


def calibrations_of_scores(masked: float) -> dict[str, Calibration]:
    rng = np.random.default_rng(0)
    roles, masks = Roles(parse_graph(SCORES), normalises=True), np.float32([[0, 0, 0, masked]])
    given = [{"x": rng.normal(0, 2, (4, 4)).astype(np.float32), "m": masks} for _ in range(50)]
    return calibrations_of(roles, observe(roles.graph, given, error_weights(roles)))


@pytest.mark.parametrize("masked", [-100.0, -10000.0, float(np.finfo(np.float32).min)])
@pytest.mark.parametrize("criterion", Criterion)
def test_powers_of_masked_scores_are_nothing(masked, criterion):
    calibrations = calibrations_of_scores(masked)
    sums, mask = grid_of(calibrations["a"], criterion), grid_of(calibrations["m"], criterion)
    least = (-128 - sums.zero) * sums.scale
    assert -13 < least < -np.log(4 * 2**8)
    assert (127 - sums.zero) * sums.scale > 5
    assert calibrations["a"].observed.greatest + (-128 - mask.zero) * mask.scale <= least
    assert within_percentile(calibrations["a"], 50) == sums


def test_scores_of_which_none_is_masked_have_a_range_like_others():
    assert calibrations_of_scores(-3.0)["a"].bounds is None
