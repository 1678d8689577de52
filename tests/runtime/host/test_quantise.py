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
    zero_points = RNG.integers(least, greatest, shape, dtype, endpoint=True)
    zero_points.reshape(-1)[0] = least
    return zero_points


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


@pytest.mark.parametrize(("wide", "narrow"), [("int32", "int8"), ("int8", "int32")])
def test_differences_are_exact_where_only_one_operand_is_wide(wide, narrow):
    """Float32 does not hold the wide operand."""
    x, point = (np.array([(1 << 24) + 1 if dtype == "int32" else 1], dtype) for dtype in (wide, narrow))
    (y,) = evaluate("DequantizeLinear", [x, np.ones(1, np.float32), point], {"axis": 0})
    assert np.abs(y).tolist() == [1 << 24]


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_single_numbers_and_wider_parameters_go_as_numpy_broadcasts(op):
    single = np.array(5, np.float32 if op == "QuantizeLinear" else np.int8)
    several = np.array([1, 2, 4], np.float32), np.array([0, 1, 0], np.int8)
    assert evaluate(op, [single, several[0][:1], several[1][:1]], {"axis": 0})[0].shape == ()
    (y,) = evaluate(op, [single.reshape(1, 1), *several], {"axis": 1})
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
    results = evaluate("DynamicQuantizeLinear", [np.float32(x)], {})
    assert [part.dtype for part in results] == [np.uint8, np.float32, np.uint8]
    assert [part.shape for part in results[1:]] == [(), ()]
    assert results[0].tolist() == y
    assert float(results[1]) == pytest.approx(scale)
    assert results[2] == point


def rounded(real: np.ndarray, point: int) -> np.ndarray:
    return np.clip(np.rint(real) + point, -128, 127).astype(np.int8)


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
def test_a_quantised_convolution_is_that_of_the_real_numbers_rounded(has_bias, per_channel):
    x, w = RNG.integers(0, 256, (2, 3, 6, 5), np.uint8), RNG.integers(-128, 128, (4, 3, 2, 3), np.int8)
    points = np.int8([3, -2, 0, 7]) if per_channel else np.int8([5])
    sizes = np.float32([0.5, 0.25, 1, 2]) if per_channel else np.float32([0.25])
    bias = np.int32([500, -3000, 70, 9]) if has_bias else None
    x_scale, y_scale, x_point, y_point = np.float32(0.5), np.float32(512), np.uint8(9), np.int8(-4)
    inputs = [x, x_scale, x_point, w, sizes, points, y_scale, y_point, *([bias] if has_bias else [])]
    how = {"dilations": (1, 1), "group": 1, "pads": (1, 0, 0, 2), "strides": (2, 1)}
    (y,) = evaluate("QLinearConv", [np.asarray(operand) for operand in inputs], how)
    wide = np.pad(x.astype(int) - 9, [(0, 0), (0, 0), (1, 0), (0, 2)])
    kernels = w.astype(int) - points.astype(int)[:, None, None, None]
    sums = np.zeros(y.shape)
    for row, column in np.ndindex(2, 3):
        part = wide[:, :, row : row + 2 * y.shape[2] - 1 : 2, column : column + y.shape[3]]
        sums += np.einsum("nchw,mc->nmhw", part, kernels[:, :, row, column])
    sums += 0 if bias is None else bias[:, None, None]
    real = sums * (0.5 * sizes.astype(float) / 512)[:, None, None]
    np.testing.assert_array_equal(y, rounded(real, -4), strict=True)
    assert len(np.unique(y)) > 20


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("columns", [False, True])
def test_a_quantised_product_is_that_of_the_real_numbers_rounded(rows, columns):
    a, b = RNG.integers(0, 256, (3, 8), np.uint8), RNG.integers(-128, 128, (8, 5), np.int8)
    left = (np.float32([0.5, 1, 2]), np.uint8([3, 0, 200])) if rows else (np.float32([0.5]), np.uint8([100]))
    right = np.float32([0.25]), np.int8([-3])
    if columns:
        right = np.float32([0.5, 0.25, 1, 2, 4]), np.int8([1, -2, 3, 0, 5])
    (y,) = evaluate(
        "QLinearMatMul", [a, *left, b, *right, np.asarray(np.float32(128)), np.asarray(np.int8(6))], {}
    )
    left_real = (a.astype(int) - left[1].astype(int)[:, None]) * left[0].astype(float)[:, None]
    right_real = (b.astype(int) - right[1].astype(int)) * right[0].astype(float)
    np.testing.assert_array_equal(y, rounded(left_real @ right_real / 128, 6), strict=True)


def test_points_are_added_exactly_to_numbers_of_16_bits():
    x, scale = np.array([2048], np.float16), np.ones(1, np.float16)
    (y,) = evaluate("QuantizeLinear", [x, scale, np.int16([1])], {"axis": 0})
    assert y.tolist() == [2049]


def test_a_quantised_row_alone_stays_a_row():
    scale, zero = np.float32([1]), np.int8([0])
    (y,) = evaluate(
        "QLinearMatMul",
        [np.int8([3, 4]), scale, zero, np.eye(2, dtype=np.int8), scale, zero, scale, zero],
        {},
    )
    assert y.tolist() == [3, 4]


def test_scales_of_rows_may_stand_as_a_column():
    a, b, scale, zero = np.int8([[8], [8]]), np.int8([[1, 2, 3]]), np.float32([1]), np.int8([0])
    (y,) = evaluate("QLinearMatMul", [a, np.float32([[1], [2]]), zero, b, scale, zero, scale, zero], {})
    assert y.tolist() == [[8, 16, 24], [16, 32, 48]]


def test_a_scale_of_64_bits_gives_numbers_of_64_bits():
    x = np.int8([3, -5])
    (y,) = evaluate("DequantizeLinear", [x, np.array([0.1]), np.int8([2])], {"axis": 0})
    np.testing.assert_array_equal(y, np.array([1, -7]) * 0.1, strict=True)
