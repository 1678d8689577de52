"""Softmax and layer normalisation in integers are within one of the operators between conversions."""

import numpy as np
import pytest

from vdla.compiler.graph.integer_forms.normalisation import (
    finest_scales,
    normal_parameters,
    softmax_parameters,
)
from vdla.compiler.graph.integers import Quantisation
from vdla.compiler.rules import Unfit
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.host.normalisation import layer_normalization, rms_normalization, softmax, softmax_powers
from vdla.runtime.host.quantise import dequantize_linear, quantize_linear

RNG = np.random.default_rng(0)
RESULTS = [
    Quantisation(1 / 256, -128),
    Quantisation(0.02, 0),
    Quantisation(1 / 2000, -128),
    Quantisation(0.3, 7),
]


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Give each test the same random numbers, whichever tests ran before it."""
    RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state


def scalar(value: float) -> np.ndarray:
    return np.asarray(value, np.float32)


def quantised(real: np.ndarray, out: Quantisation) -> np.ndarray:
    return quantize_linear(real, scalar(out.scale), np.asarray(out.zero, np.int8), axis=0).astype(int)


def dequantised(x: np.ndarray, scale: float) -> np.ndarray:
    return dequantize_linear(x, scalar(scale), np.asarray(0, np.int8), axis=0)


def rows_of_two_values(count: int) -> np.ndarray:
    """Return int8[2560, count]: one greatest value, and all others at each distance from it, or some."""
    rows = np.full((256, 10, count), 127, np.int8)
    for others in range(10):
        rows[:, others, 1 + count * others // 10 :] = -128
        rows[:, others, 1 : 1 + count * (others + 1) // 10] = (127 - np.arange(256)).astype(np.int8)[:, None]
    return rows.reshape(-1, count)


@pytest.mark.parametrize("out", RESULTS)
@pytest.mark.parametrize("scale", [0.002, 0.05, 0.3, 9.0])
@pytest.mark.parametrize("count", [1, 7, 65, 197, 480])
def test_softmax_is_that_between_conversions(count, scale, out):
    powers = softmax_powers(scalar(scale))
    parameters = softmax_parameters(powers, count, out)
    assert not isinstance(parameters, Unfit)
    for x in (RNG.integers(-128, 128, (99, count), np.int8), rows_of_two_values(count)):
        (result,) = evaluate("Int8Softmax", [x, *parameters], {"axis": 1})
        expected = quantised(softmax(dequantised(x, scale), axis=1), out)
        assert np.abs(result.astype(int) - expected).max() <= 1
    assert np.mean(result == expected) > 0.9


def test_rows_without_a_bound_of_four_steps_are_not_computed_in_integers():
    powers, out = softmax_powers(scalar(0.05)), RESULTS[0]
    unfit = softmax_parameters(powers, 4000, out)
    assert isinstance(unfit, Unfit)
    assert unfit.reason == "its rows have 4000 values, and powers of 16 bits may change a result by 7.3 steps"
    assert not isinstance(softmax_parameters(powers, 4000, Quantisation(1 / 64, 0)), Unfit)


def test_powers_are_exact_to_16_bits():
    parameters = softmax_parameters(softmax_powers(scalar(0.1)), 5, Quantisation(1 / 256, -128))
    assert not isinstance(parameters, Unfit)
    assert parameters.powers.tolist() == [
        round(65535 * np.exp(-np.float64(scalar(0.1)) * d)) for d in range(256)
    ]
    assert (parameters.factor, parameters.addend) == (1024, -128 * 2**18 + 2**17 + 512)


@pytest.mark.parametrize("scale", [1e-4, 1e-5])
def test_factors_of_a_softmax_have_16_bits(scale):
    unfit = softmax_parameters(softmax_powers(scalar(0.1)), 5, Quantisation(scale, 0))
    assert isinstance(unfit, Unfit)
    assert "whose reciprocal is more than 16 bits hold" in unfit.reason


def rows_of_values(count: int, least: float) -> np.ndarray:
    """Return int8[800, count] of all means, and of deviations from `least` steps on."""
    rows = RNG.normal(size=(800, count))
    rows *= np.geomspace(0.5, 80, 800)[:, None]
    x = np.clip(np.rint(rows + RNG.uniform(-128, 127, (800, 1))), -128, 127).astype(np.int8)
    return x[x.std(axis=1) >= least]


@pytest.mark.parametrize("out", [Quantisation(0.05, 3), Quantisation(1 / 41, -128), Quantisation(2.0, 127)])
@pytest.mark.parametrize("scale", [1e-4, 0.04, 9.0])
@pytest.mark.parametrize("count", [2, 3, 8, 100, 768, 1024])
@pytest.mark.parametrize("biased", [False, True])
def test_layer_normalisation_is_that_between_conversions(count, scale, out, biased):
    weights, bias = RNG.normal(size=(2, count)).clip(-1.5, 1.5).astype(np.float32)
    bias *= biased
    epsilon = 1e-3 * scale**2
    parameters = normal_parameters(weights, bias, epsilon, scale, out)
    assert not isinstance(parameters, Unfit)
    *vectors, added = parameters
    x = rows_of_values(count, 1)
    attributes = {"centred": 1, "epsilon": added}
    (result,) = evaluate("Int8LayerNormalization", [x, *vectors], attributes)
    normal, *_ = layer_normalization(dequantised(x, scale), weights, bias, axis=-1, epsilon=epsilon)
    expected = quantised(normal, out)
    assert np.abs(result.astype(int) - expected).max() <= 1
    assert np.mean(result == expected) > 0.8


@pytest.mark.parametrize("out", [Quantisation(0.05, 3), Quantisation(1 / 41, -128), Quantisation(2.0, 127)])
@pytest.mark.parametrize("scale", [1e-4, 0.04, 9.0])
@pytest.mark.parametrize("count", [1, 2, 3, 8, 100, 768, 4096])
def test_a_root_mean_square_is_that_between_conversions(count, scale, out):
    """Rows of any deviation and any mean, with rows whose only value other than 0 is 1."""
    weights, epsilon = RNG.normal(size=count).clip(-1.5, 1.5).astype(np.float32), 1e-3 * scale**2
    parameters = normal_parameters(weights, np.zeros(1), epsilon, scale, out, centred=False)
    assert not isinstance(parameters, Unfit)
    *vectors, added = parameters
    x = np.concatenate([rows_of_values(count, 0), np.eye(1, count, dtype=np.int8)])
    (result,) = evaluate("Int8LayerNormalization", [x, *vectors], {"centred": 0, "epsilon": added})
    normal = rms_normalization(dequantised(x, scale), weights, axis=-1, epsilon=epsilon)
    expected = quantised(normal, out)
    assert np.abs(result.astype(int) - expected).max() <= 1
    assert np.mean(result == expected) > 0.8


@pytest.mark.parametrize("count", [1, 5, 64, 100])
def test_the_finest_scales_are_those_whose_factors_16_bits_hold(count):
    weights = RNG.uniform(0.5, 2, count)
    finest = finest_scales(weights).max()
    fine, finer = (
        normal_parameters(weights, np.zeros(1), 1e-5, 0.1, Quantisation(scale, 0))
        for scale in (finest, finest * 0.999)
    )
    assert not isinstance(fine, Unfit)
    assert np.abs(fine.factors).max() == 32767
    assert isinstance(finer, Unfit)
    assert "its weights or biases are large" in finer.reason


def test_a_row_of_equal_elements_is_the_bias():
    bias = np.arange(5, dtype=np.float32)
    parameters = normal_parameters(np.ones(5, np.float32), bias, 1e-5, 0.5, Quantisation(0.5, 1))
    assert not isinstance(parameters, Unfit)
    given = [np.full((2, 5), 77, np.int8), *parameters[:2]]
    (result,) = evaluate("Int8LayerNormalization", given, {"centred": 1, "epsilon": parameters.epsilon})
    assert result.tolist() == [[1, 3, 5, 7, 9]] * 2


ONES, ZEROS = np.ones(4, np.float32), np.zeros(4, np.float32)
OUT = Quantisation(0.05, 0)
UNFIT = {
    "values; integers hold 1 to 16384": (np.ones(16385), np.zeros(16385), 1e-5, 0.05, OUT),
    "its rows have 0 values": (np.ones(0), np.zeros(0), 1e-5, 0.05, OUT),
    "its epsilon of 0.001 does not suit": (ONES, ZEROS, 1e-3, 1e-6, OUT),
    "its epsilon of nan does not suit": (ONES, ZEROS, float("nan"), 0.1, OUT),
    "its weights or biases are large": (ONES * 7, ZEROS, 1e-5, 0.05, OUT),
    "its weights or biases": (ONES, ONES * 1000, 1e-5, 0.05, OUT),
    "its epsilon of -1 does not suit": (ONES, ZEROS, -1.0, 0.1, OUT),
    "its weights or": (ONES * np.nan, ZEROS, 1e-5, 0.05, OUT),
    "integers may change a result by 8.9 steps": (np.ones(2), np.zeros(2), 0.12, 1.0, Quantisation(0.01, 0)),
}


@pytest.mark.parametrize("reason", UNFIT)
def test_parameters_beyond_their_widths_are_refused(reason):
    unfit = normal_parameters(*UNFIT[reason])
    assert isinstance(unfit, Unfit)
    assert reason in unfit.reason
