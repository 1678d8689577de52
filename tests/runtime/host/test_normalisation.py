"""Normalisation and softmax, against their formulas channel by channel."""

import numpy as np
import pytest

from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.host.normalisation import softmax_powers

RNG = np.random.default_rng(0)


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


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, -2, -4])
def test_layers_are_divided_by_the_root_of_their_mean_square_from_an_axis_on(axis):
    scale = np.random.default_rng(2).uniform(0.5, 2, X.shape[axis:]).astype(np.float32)
    (y,) = evaluate("RMSNormalization", [X, scale], {"axis": axis, "epsilon": 0.25})
    rows = X.reshape(*X.shape[:axis], -1).astype(np.float64)
    expected = (rows / np.sqrt(np.square(rows).mean(-1, keepdims=True) + 0.25)).reshape(X.shape) * scale
    np.testing.assert_allclose(y, expected, rtol=1e-5)
    assert y.dtype == np.float32


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


@pytest.mark.parametrize("scale", [0.002, 0.05, 1.0])
@pytest.mark.parametrize(("shape", "axis"), [((3, 4, 5), 0), ((3, 4, 5), -1), ((2, 1000), 1)])
def test_softmax_of_dequantised_integers(scale, shape, axis):
    x = RNG.integers(-128, 128, shape, np.int8)
    (result,) = evaluate("DequantizedSoftmax", [x, softmax_powers(np.float32(scale))], {"axis": axis})
    powers = np.exp(np.float64(np.float32(scale)) * x)
    assert (result.dtype, result.shape, result.flags.c_contiguous) == (np.float32, shape, True)
    np.testing.assert_allclose(result, powers / powers.sum(axis=axis, keepdims=True), rtol=1e-6, atol=1e-37)


def test_the_order_of_elements_does_not_change_their_softmax():
    x = RNG.integers(-128, 128, (1, 5000), np.int8)
    order = RNG.permutation(x.shape[1])
    powers = softmax_powers(np.float32(0.07))
    (result,), (permuted,) = (
        evaluate("DequantizedSoftmax", [y, powers], {"axis": 1}) for y in (x, x[:, order])
    )
    np.testing.assert_array_equal(permuted, result[:, order])
