"""Normalisation and softmax, against their formulas channel by channel; from int8 to int8, as conversions make them."""

import numpy as np
import pytest

from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.host.normalisation import layer_normalization, softmax, softmax_powers
from vdla.runtime.host.quantise import dequantize_linear, quantize_linear

RNG = np.random.default_rng(0)
SCALES = [(0.04, 0.003, 0), (0.5, 1 / 256, -128), (9.0, 0.01, 127), (1e-4, 1e-5, 3)]


@pytest.mark.parametrize("channels", [1, 3, 8])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 20])
def test_sums_reach_half_a_size_to_both_sides_and_no_further_than_the_channels(channels, size):
    x = np.random.default_rng(0).normal(size=(2, channels, 3, 4)).astype(np.float32)
    (y,) = evaluate("LRN", [x], {"alpha": 0.5, "beta": 0.75, "bias": 2.0, "size": size})
    for c in range(channels):
        near = np.square(x[:, max(c - (size - 1) // 2, 0) : c + size // 2 + 1]).sum(axis=1)
        np.testing.assert_allclose(y[:, c], x[:, c] / (2 + 0.5 / size * near) ** 0.75, rtol=1e-6)


def test_a_size_beyond_all_channels_takes_no_longer():
    x = np.ones((1, 2, 1, 1), np.float32)
    (y,) = evaluate("LRN", [x], {"alpha": 0.0, "beta": 1.0, "bias": 2.0, "size": 1 << 62})
    assert y.reshape(-1).tolist() == [0.5, 0.5]


X = np.random.default_rng(1).normal(3, 2, (2, 3, 4, 5)).astype(np.float32)
SCALE, SHIFT, MEAN, VARIANCE = (
    np.random.default_rng(seed).uniform(0.5, 2, 3).astype(np.float32) for seed in range(4)
)


def test_batches_are_normalised_by_the_numbers_of_their_channels():
    (y,) = evaluate("BatchNormalization", [X, SCALE, SHIFT, MEAN, VARIANCE], {"epsilon": 0.25})
    for c in range(3):
        expected = (X[:, c] - MEAN[c]) / np.sqrt(VARIANCE[c] + 0.25) * SCALE[c] + SHIFT[c]
        np.testing.assert_allclose(y[:, c], expected, rtol=1e-5)
    assert y.dtype == np.float32


def test_channels_of_an_image_are_normalised_by_themselves():
    (y,) = evaluate("InstanceNormalization", [X, SCALE, SHIFT], {"epsilon": 0.25})
    for n, c in np.ndindex(2, 3):
        part = X[n, c].astype(np.float64)
        expected = (part - part.mean()) / np.sqrt(part.var() + 0.25) * SCALE[c] + SHIFT[c]
        np.testing.assert_allclose(y[n, c], expected, rtol=1e-4, atol=1e-5)
    assert y.dtype == np.float32


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, -2, -4])
def test_layers_are_normalised_over_the_dimensions_from_an_axis_on(axis, has_bias):
    rng = np.random.default_rng(2)
    scale, bias = (rng.uniform(0.5, 2, X.shape[axis:]).astype(np.float32) for _ in range(2))
    inputs = [X, scale, *([bias] if has_bias else [])]
    y, mean, inverse = evaluate("LayerNormalization", inputs, {"axis": axis, "epsilon": 0.25})
    kept = X.shape[:axis]
    rows = X.reshape(*kept, -1).astype(np.float64)
    means, deviations = rows.mean(-1, keepdims=True), np.sqrt(rows.var(-1, keepdims=True) + 0.25)
    expected = ((rows - means) / deviations).reshape(X.shape) * scale + (bias if has_bias else 0)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    reduced_shape = (*kept, *[1] * (X.ndim - len(kept)))
    np.testing.assert_allclose(mean, means.reshape(reduced_shape), rtol=1e-5)
    np.testing.assert_allclose(inverse, 1 / deviations.reshape(reduced_shape), rtol=1e-5)


@pytest.mark.parametrize("far", [0.0, 1000.0, -1000.0])
@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, -3])
def test_softmax_is_a_distribution_along_its_axis_wherever_its_numbers_lie(axis, far):
    x = (X + np.float32(far)).astype(np.float32)
    wide = x.astype(np.float64) - x.astype(np.float64).max()
    total = np.exp(wide).sum(axis=axis, keepdims=True)
    how = {"axis": axis}
    np.testing.assert_allclose(evaluate("Softmax", [x], how)[0], np.exp(wide) / total, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(
        evaluate("LogSoftmax", [x], how)[0], wide - np.log(total), rtol=1e-4, atol=1e-4
    )


def numbers(*values: float) -> list[np.ndarray]:
    return [np.asarray(value, np.float32) for value in values]


@pytest.mark.parametrize(("scale", "y_scale", "zero"), SCALES)
@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 50), 2), ((5, 4, 3), 0), ((1, 7), -1), ((9, 1), 1)])
def test_softmax_is_that_between_conversions(scale, y_scale, zero, shape, axis):
    x = RNG.integers(-128, 128, shape, np.int8)
    s, t = numbers(scale, y_scale)
    point = np.asarray(zero, np.int8)
    (result,) = evaluate("Int8Softmax", [x, softmax_powers(s), t, point], {"axis": axis})
    real = softmax(dequantize_linear(x, s, np.asarray(-7, np.int8), axis=0), axis=axis)
    expected = quantize_linear(real, t, point, axis=0)
    assert (result.dtype, result.shape, result.flags.c_contiguous) == (np.int8, shape, True)
    assert np.abs(result.astype(int) - expected).max() <= 1


@pytest.mark.parametrize("scale", [0.002, 0.05, 1.0])
@pytest.mark.parametrize(("shape", "axis"), [((3, 4, 5), 0), ((3, 4, 5), -1), ((2, 1000), 1)])
def test_softmax_of_dequantised_integers(scale, shape, axis):
    x = RNG.integers(-128, 128, shape, np.int8)
    (result,) = evaluate("DequantizedSoftmax", [x, softmax_powers(np.float32(scale))], {"axis": axis})
    powers = np.exp(np.float64(np.float32(scale)) * x)
    assert (result.dtype, result.shape, result.flags.c_contiguous) == (np.float32, shape, True)
    np.testing.assert_allclose(result, powers / powers.sum(axis=axis, keepdims=True), rtol=1e-6, atol=1e-37)


@pytest.mark.parametrize(
    ("op", "conversion"), [("DequantizedSoftmax", []), ("Int8Softmax", [np.float32(1 / 256), np.int8(-128)])]
)
def test_the_order_of_elements_does_not_change_their_softmax(op, conversion):
    x = RNG.integers(-128, 128, (1, 5000), np.int8)
    order = RNG.permutation(x.shape[1])
    powers = softmax_powers(np.float32(0.07))
    (result,), (permuted,) = (evaluate(op, [y, powers, *conversion], {"axis": 1}) for y in (x, x[:, order]))
    np.testing.assert_array_equal(permuted, result[:, order])


@pytest.mark.parametrize(("scale", "y_scale", "zero"), SCALES)
@pytest.mark.parametrize("shape", [(2, 3, 50), (4, 8), (6,)])
@pytest.mark.parametrize("biased", [False, True])
def test_layer_normalisation_is_that_between_conversions(scale, y_scale, zero, shape, biased):
    x = RNG.integers(-128, 128, shape, np.int8)
    weights, bias = RNG.normal(size=(2, shape[-1])).astype(np.float32)
    s, t = numbers(scale, y_scale)
    point = np.asarray(zero, np.int8)
    shift = bias if biased else None
    (result,) = evaluate("Int8LayerNormalization", [x, s, weights, shift, t, point], {"epsilon": 1e-5})
    real = dequantize_linear(x, s, np.asarray(11, np.int8), axis=0)
    normal, *_ = layer_normalization(real, weights, shift, axis=-1, epsilon=1e-5)
    assert result.dtype == np.int8
    assert np.abs(result.astype(int) - quantize_linear(normal, t, point, axis=0)).max() <= 1


def test_a_row_of_equal_elements_is_the_bias():
    x, bias = np.full((2, 5), 77, np.int8), np.arange(5, dtype=np.float32)
    s, t = numbers(0.5, 0.5)
    inputs = [x, s, np.ones(5, np.float32), bias, t, np.asarray(1, np.int8)]
    (result,) = evaluate("Int8LayerNormalization", inputs, {"epsilon": 1e-5})
    assert result.tolist() == [[1, 3, 5, 7, 9]] * 2


@pytest.mark.parametrize("zero", [-100, -128])
def test_results_saturate(zero):
    x, point = np.array([[-128, 127]], np.int8), np.asarray(zero, np.int8)
    s, t = numbers(1.0, 1e-3)
    (result,) = evaluate("Int8Softmax", [x, softmax_powers(s), t, point], {"axis": 1})
    assert result.tolist() == [[zero, 127]]
    inputs = [x, s, np.ones(2, np.float32), None, t, point]
    (result,) = evaluate("Int8LayerNormalization", inputs, {"epsilon": 1e-5})
    assert result.tolist() == [[-128, 127]]


@pytest.mark.parametrize(("steps", "expected"), [(126, 126), (127, 127), (128, 127)])
def test_the_greatest_result_is_that_of_int8(steps, expected):
    x = np.array([[-128, 127]], np.int8)
    s, t = numbers(1.0, 1 / steps)
    (result,) = evaluate("Int8Softmax", [x, softmax_powers(s), t, np.asarray(0, np.int8)], {"axis": 1})
    assert result.tolist() == [[0, expected]]
