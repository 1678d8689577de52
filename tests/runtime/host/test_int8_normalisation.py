"""Softmax and layer normalisation from int8 to int8: as the operators between conversions make them."""

import numpy as np
import pytest

from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.host.normalisation import layer_normalization, softmax
from vdla.runtime.host.quantise import dequantize_linear, quantize_linear

RNG = np.random.default_rng(0)
SCALES = [(0.04, 0.003, 0), (0.5, 1 / 256, -128), (9.0, 0.01, 127), (1e-4, 1e-5, 3)]


def numbers(*values: float) -> list[np.ndarray]:
    return [np.asarray(value, np.float32) for value in values]


@pytest.mark.parametrize(("scale", "y_scale", "zero"), SCALES)
@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 50), 2), ((5, 4, 3), 0), ((1, 7), -1), ((9, 1), 1)])
def test_softmax_is_that_between_conversions(scale, y_scale, zero, shape, axis):
    x = RNG.integers(-128, 128, shape, np.int8)
    s, t = numbers(scale, y_scale)
    point = np.asarray(zero, np.int8)
    (made,) = evaluate("Int8Softmax", [x, s, t, point], {"axis": axis})
    real = softmax(dequantize_linear(x, s, np.asarray(-7, np.int8), axis=0), axis=axis)
    expected = quantize_linear(real, t, point, axis=0)
    assert (made.dtype, made.shape, made.flags.c_contiguous) == (np.int8, shape, True)
    assert np.abs(made.astype(int) - expected).max() <= 1


@pytest.mark.parametrize(("scale", "y_scale", "zero"), SCALES)
@pytest.mark.parametrize("shape", [(2, 3, 50), (4, 8), (6,)])
@pytest.mark.parametrize("biased", [False, True])
def test_layer_normalisation_is_that_between_conversions(scale, y_scale, zero, shape, biased):
    x = RNG.integers(-128, 128, shape, np.int8)
    weights, bias = RNG.normal(size=(2, shape[-1])).astype(np.float32)
    s, t = numbers(scale, y_scale)
    point = np.asarray(zero, np.int8)
    shift = bias if biased else None
    (made,) = evaluate("Int8LayerNormalization", [x, s, weights, shift, t, point], {"epsilon": 1e-5})
    real = dequantize_linear(x, s, np.asarray(11, np.int8), axis=0)
    normal, *_ = layer_normalization(real, weights, shift, axis=-1, epsilon=1e-5)
    assert made.dtype == np.int8
    assert np.abs(made.astype(int) - quantize_linear(normal, t, point, axis=0)).max() <= 1


def test_a_row_of_equal_elements_is_the_bias():
    x, bias = np.full((2, 5), 77, np.int8), np.arange(5, dtype=np.float32)
    s, t = numbers(0.5, 0.5)
    inputs = [x, s, np.ones(5, np.float32), bias, t, np.asarray(1, np.int8)]
    (made,) = evaluate("Int8LayerNormalization", inputs, {"epsilon": 1e-5})
    assert made.tolist() == [[1, 3, 5, 7, 9]] * 2


@pytest.mark.parametrize("zero", [-100, -128])
def test_results_saturate(zero):
    x, point = np.array([[-128, 127]], np.int8), np.asarray(zero, np.int8)
    s, t = numbers(1.0, 1e-3)
    (made,) = evaluate("Int8Softmax", [x, s, t, point], {"axis": 1})
    assert made.tolist() == [[zero, 127]]
    inputs = [x, s, np.ones(2, np.float32), None, t, point]
    (made,) = evaluate("Int8LayerNormalization", inputs, {"epsilon": 1e-5})
    assert made.tolist() == [[-128, 127]]


@pytest.mark.parametrize(("steps", "expected"), [(126, 126), (127, 127), (128, 127)])
def test_the_greatest_result_is_that_of_int8(steps, expected):
    x = np.array([[-128, 127]], np.int8)
    s, t = numbers(1.0, 1 / steps)
    (made,) = evaluate("Int8Softmax", [x, s, t, np.asarray(0, np.int8)], {"axis": 1})
    assert made.tolist() == [[0, expected]]
