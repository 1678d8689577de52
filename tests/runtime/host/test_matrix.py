"""Matrix products: exact where floats just hold the sums and where they do not, and every option of Gemm."""

import numpy as np
import pytest

from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.host.matrix import exact_matmul, matmul

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((4095, 4095), (4096, 7)),  # beyond 2^24, where float32 has even numbers alone
        ((94906265, 94906265), (94906265, 2)),  # beyond 2^53
        ((-94906265, -94906265), (94906265, 2)),
        ((1 << 30, 1), (1 << 30, 1)),
    ],
)
def test_sums_that_a_float_would_round_are_exact(left, right):
    a, b = np.array([left], np.int64), np.array(right, np.int64)[:, None]
    for left_matrix, right_matrix in ((a, b), (b.T, a.T)):
        expected = sum(int(p) * int(q) for p, q in zip(left, right, strict=True))
        wrapped = (expected + (1 << 31)) % (1 << 32) - (1 << 31)
        assert exact_matmul(left_matrix, right_matrix).tolist() == [[wrapped]]


def test_a_product_without_elements_is_zero():
    assert exact_matmul(np.zeros((2, 0), np.int8), np.zeros((0, 3), np.int8)).tolist() == [[0, 0, 0]] * 2


@pytest.mark.parametrize(
    ("alpha", "beta"), [(1.0, 1.0), (0.5, -2.0), (2.0, 0.0), (0.0, 2.0), (1.0, 2.0), (2.0, 1.0)]
)
@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("addend", [(2, 5), (5,), (2, 1), None])
def test_gemm_scales_and_transposes_as_asked(alpha, beta, trans_a, trans_b, addend):
    a, b = (RNG.integers(-9, 9, shape).astype(np.float32) for shape in ((2, 3), (3, 5)))
    c = None if addend is None else RNG.integers(-9, 9, addend).astype(np.float32)
    how = {"alpha": alpha, "beta": beta, "transA": trans_a, "transB": trans_b}
    (y,) = evaluate("Gemm", [a.T if trans_a else a, b.T if trans_b else b, c], how)
    expected = alpha * (a @ b) + (0 if c is None else beta * c)
    np.testing.assert_array_equal(y, expected.astype(np.float32), strict=True)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 3), (3, 5)),
        ((4, 2, 3), (3, 5)),
        ((6, 4, 2, 3), (3, 5)),
        ((4, 2, 3), (4, 3, 5)),
        ((2, 3), (4, 3, 5)),
        ((3,), (3, 5)),
        ((4, 2, 3), (3,)),
        ((0, 2, 3), (3, 5)),
    ],
)
def test_stacks_of_matrices_are_multiplied_as_numpy_does(left, right):
    a, b = (RNG.integers(-9, 9, shape).astype(np.float32) for shape in (left, right))
    np.testing.assert_array_equal(evaluate("MatMul", [a, b], {})[0], np.matmul(a, b), strict=True)


@pytest.mark.parametrize("left", [(4, 2, 3), (5, 4, 2, 3)])
def test_a_stack_times_one_matrix_is_a_single_product(left, monkeypatch):
    shapes, multiply = [], np.matmul
    monkeypatch.setattr(np, "matmul", lambda a, b: shapes.append(a.shape) or multiply(a, b))
    assert matmul(np.ones(left), np.ones((3, 5))).shape == (*left[:-1], 5)
    assert shapes == [(np.prod(left[:-1]), 3)]


@pytest.mark.parametrize(
    "rows", [None, np.array(3, np.uint8), np.uint8([3]), np.uint8([3, 200]), np.uint8([[3], [200]])]
)
@pytest.mark.parametrize("columns", [None, np.int8(-4), np.int8([1, -2, 3, -4, 5])])
def test_integers_lose_their_zero_points_by_rows_and_columns(rows, columns):
    a, b = RNG.integers(0, 256, (4, 2, 3), np.uint8), RNG.integers(-128, 128, (3, 5), np.int8)
    (y,) = evaluate("MatMulInteger", [a, b, rows, None if columns is None else np.asarray(columns)], {})
    left = a.astype(int) - (0 if rows is None else rows.astype(int).reshape(-1, 1))
    right = b.astype(int) - (0 if columns is None else np.asarray(columns).astype(int))
    np.testing.assert_array_equal(y, (left @ right).astype(np.int32), strict=True)


@pytest.mark.parametrize("point", [np.array(3, np.uint8), np.uint8([3])])
def test_a_row_alone_stays_a_row(point):
    a, b = np.array([3, 4, 5], np.uint8), np.eye(3, dtype=np.int8)
    (y,) = evaluate("MatMulInteger", [a, b, point, None], {})
    assert y.tolist() == [0, 1, 2]


@pytest.mark.parametrize("depth", [259, 5000, 1 << 17])
def test_long_sums_of_small_products_are_exact(depth):
    """Beyond 2^24 of what float32 holds, though no factor is large."""
    rng = np.random.default_rng(depth)
    a, b = (rng.integers(200, 256, shape) | 1 for shape in ((3, depth), (depth, 2)))
    assert exact_matmul(a, b).tolist() == (a @ b).astype(np.int32).tolist()
    assert exact_matmul(-a, b).tolist() == (-(a @ b)).astype(np.int32).tolist()
