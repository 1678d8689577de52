"""Signal-to-noise ratios of outputs: by power, by equal elements, and stuck outputs."""

import numpy as np
import pytest

from vdla.compiler.graph.quantisation.judge import noise_of, ratio_db
from vdla.runtime.module.plan import OutputNoise


def of(wanted, actual, dtype=np.float32) -> OutputNoise:
    """Return the noise of an output, given by its elements on each sample."""
    return noise_of("y", *([np.array(each, dtype) for each in several] for several in (wanted, actual)))


@pytest.mark.parametrize(
    ("wanted", "found", "decibels"),
    [
        # the deviations from the mean 2 are -1 and 1
        ([[1, 3]], [[1.1, 2.9]], 20),
        ([[1], [3]], [[1.1], [2.9]], 20),
        ([[101, 103]], [[101.1, 102.9]], 20),
        ([[1, 3]], [[2, 2]], 0),
        ([[1, 3]], [[1, 3]], None),
        ([[4, 4]], [[4.4, 3.6]], 20),  # the same everywhere: its power counts
        ([[0, 0]], [[1, 0]], -400),
        ([[1, 3]], [[np.inf, 3]], -400),
        ([[np.inf, 1, 3]], [[np.inf, 1.1, 2.9]], 20),
    ],
)
def test_the_signal_is_the_deviation_of_the_float_output_from_its_mean(wanted, found, decibels):
    noise = of(wanted, found)
    assert noise.measure == "power"
    assert noise.decibels == (None if decibels is None else pytest.approx(decibels, abs=1e-3))


@pytest.mark.parametrize(
    ("found", "constant"),
    [([[2, 0], [2, 0]], True), ([[2, 0], [2, 1]], False), ([[2, 0]], False)],
)
def test_an_output_that_does_not_vary_with_the_samples_is_constant(found, constant):
    assert of([[1, 0], [3, 0]][: len(found)], found).constant == constant


@pytest.mark.parametrize(("second", "constant"), [(1.0, False), (1.005, False), (1.1, True)])
def test_a_constant_is_no_fault_where_the_float_output_hardly_varies(second, constant):
    noise = of([[1.0], [second]], [[1.0], [1.0]])
    assert noise.constant == constant
    assert noise.reaches(-400) != constant


def test_integers_are_judged_by_the_share_of_equal_elements():
    noise = of([[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]], [[1, 2, 3, 4, 5], [9, 2, 3, 4, 5]], np.int64)
    assert (noise.measure, noise.decibels) == ("equal", pytest.approx(10))
    assert of([[True]], [[True]], bool) == OutputNoise("y", None, measure="equal")


def test_outputs_whose_shape_depends_on_the_data_are_not_judged():
    assert of([[1, 2]], [[1, 2, 3]]) == OutputNoise("y", None, measure="none")
    assert of([[1, 2], [1]], [[1, 2], [1]]).measure == "none"


def test_ratios_are_in_decibels():
    assert ratio_db(100, 1) == pytest.approx(20)
    assert ratio_db(1, 0) == float("inf")
    assert ratio_db(0, 1) == float("-inf")
    assert ratio_db(1e-300, 1e300) == pytest.approx(-6000)
    assert ratio_db(1, float("inf")) == float("-inf")
