"""Conversions between real numbers and integers, against formulas in integers and floats of 64 bits."""

import numpy as np
import pytest

from vdla.runtime.host.evaluate import evaluate

RNG = np.random.default_rng(0)
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32")
ENDS = np.array([0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3e9, -3e9, 3e38, -3e38, np.inf, -np.inf], np.float32)


def widely_quantised(x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
    limits = np.iinfo(zero_point.dtype)
    with np.errstate(over="ignore"):
        whole = np.rint(x / scale).astype(np.float64) + zero_point
    return np.clip(whole, limits.min, limits.max).astype(zero_point.dtype)


def widely_dequantised(x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
    return (x.astype(np.int64) - zero_point.astype(np.int64)).astype(np.float32) * scale


def points(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return zero points, the least of the type first."""
    least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
    found = RNG.integers(least, greatest, shape, dtype, endpoint=True)
    found.reshape(-1)[0] = least
    return found


def scales(shape: tuple[int, ...]) -> np.ndarray:
    return RNG.uniform(0.001, 0.1, shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(), (5,)])
@pytest.mark.parametrize("zero", [0, 3])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_what_is_not_a_number_becomes_the_least_integer(dtype, zero, shape):
    x, scale, point = np.ones(shape, np.float32), np.ones(1, np.float32), np.array([zero], dtype)
    x.reshape(-1)[0] = np.nan
    (y,) = evaluate("QuantizeLinear", [x, scale, point], {"axis": 0})
    assert y.reshape(-1).tolist() == [np.iinfo(dtype).min, *[1 + zero] * (x.size - 1)]


@pytest.mark.parametrize("along", [False, True])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_quantising_equals_the_formula_in_floats_of_64_bits(dtype, zero, along):
    x = RNG.normal(0, 10, (4, 500)).astype(np.float32)
    x[:, : len(ENDS)] = ENDS
    scale, point = scales((4, 1) if along else ()), points(dtype, (4, 1) if along else ())
    point = point * zero
    before = x.copy()
    (y,) = evaluate("QuantizeLinear", [x, scale.reshape(-1), point.reshape(-1)], {"axis": 0})
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(y, widely_quantised(x, scale, point))
    assert y.dtype == dtype


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_ties_go_to_even_wherever_they_lie(dtype):
    halves = (np.arange(-600, 600) / 2).astype(np.float32)
    point = np.array(3, dtype)
    (y,) = evaluate("QuantizeLinear", [halves, np.array(1, np.float32), point], {"axis": 0})
    limits = np.iinfo(dtype)
    expected = [min(max(round(float(half)) + 3, limits.min), limits.max) for half in halves]
    assert y.tolist() == expected


@pytest.mark.parametrize("along", [False, True])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_dequantising_equals_the_formula_in_integers_of_64_bits(dtype, zero, along):
    x = points(dtype, (4, 500))
    scale, point = scales((4, 1) if along else ()), points(dtype, (4, 1) if along else ()) * zero
    (y,) = evaluate("DequantizeLinear", [x, scale.reshape(-1), point.reshape(-1)], {"axis": 0})
    np.testing.assert_array_equal(y, widely_dequantised(x, scale, point))
    assert y.dtype == np.float32


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_single_numbers_and_wider_parameters_go_as_numpy_broadcasts(op):
    one = np.array(5, np.float32 if op == "QuantizeLinear" else np.int8)
    several = np.array([1, 2, 4], np.float32), np.array([0, 1, 0], np.int8)
    assert evaluate(op, [one, several[0][:1], several[1][:1]], {"axis": 0})[0].shape == ()
    (y,) = evaluate(op, [one.reshape(1, 1), *several], {"axis": 1})
    assert y.tolist() == ([[5, 3, 1]] if op == "QuantizeLinear" else [[5, 8, 20]])


@pytest.mark.parametrize(
    ("x", "scale", "point", "y"),
    [
        ([0, 2, -3, -2.5, 1.34, 0.5], 0.0196078438, 153, [153, 255, 0, 26, 221, 179]),  # ONNX's own example
        ([1, 2.1, 1.3, 2.5, 3.34, 4], 0.0156862754, 0, [64, 134, 83, 159, 213, 255]),
        ([-2.1, -1, -0.5], 0.0082352944, 255, [0, 134, 194]),
        ([0, 0], 1, 0, [0, 0]),
        ([], 1, 0, []),
    ],
)
def test_a_range_found_while_it_runs_holds_zero(x, scale, point, y):
    made = evaluate("DynamicQuantizeLinear", [np.float32(x)], {})
    assert [part.dtype for part in made] == [np.uint8, np.float32, np.uint8]
    assert [part.shape for part in made[1:]] == [(), ()]
    assert made[0].tolist() == y
    assert float(made[1]) == pytest.approx(scale)
    assert made[2] == point
