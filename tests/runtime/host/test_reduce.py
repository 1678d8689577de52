"""Reductions and choices of elements, against loops over the elements that they take in."""

import math

import numpy as np
import pytest

from vdla.runtime.host.evaluate import evaluate

X = np.random.default_rng(0).permutation(np.arange(-12, 18)).reshape(2, 3, 5).astype(np.float32) / 4
REDUCTIONS = {
    "ReduceL1": lambda values: sum(map(abs, values)),
    "ReduceL2": lambda values: math.sqrt(sum(value**2 for value in values)),
    "ReduceMax": max,
    "ReduceMean": lambda values: sum(values) / len(values),
    "ReduceMin": min,
    "ReduceProd": math.prod,
    "ReduceSum": sum,
    "ReduceSumSquare": lambda values: sum(value**2 for value in values),
}


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(
    ("axes", "shape"), [((1,), (2, 5)), ((0, 2), (3,)), ((-1,), (2, 3)), ((0, 1, 2), ())]
)
@pytest.mark.parametrize("op", REDUCTIONS)
def test_a_reduction_takes_in_its_axes(op, axes, shape, keepdims):
    (y,) = evaluate(op, [X], {"axes": axes, "keepdims": keepdims})
    gone = {axis % 3 for axis in axes}
    kept = [axis for axis in range(3) if axis not in gone]
    rows = X.transpose(*kept, *sorted(gone)).reshape(math.prod(shape), -1).tolist()
    assert y.shape == (
        tuple(1 if axis in gone else X.shape[axis] for axis in range(3)) if keepdims else shape
    )
    assert y.dtype == np.float32
    np.testing.assert_allclose(y.reshape(-1), [REDUCTIONS[op](row) for row in rows], rtol=1e-5, atol=1e-5)


def test_integers_stay_integers_of_their_type():
    for op in ("ReduceMean", "ReduceSum", "ReduceProd", "ReduceL1"):
        (y,) = evaluate(op, [np.int32([[2, 3], [5, 8]])], {"axes": (1,), "keepdims": 0})
        assert y.dtype == np.int32, op


TIES = np.int32([[3, 7, 7, 1], [1, 0, 1, 0], [4, 4, 4, 4]])


@pytest.mark.parametrize(
    ("op", "last", "axis", "expected"),
    [
        ("ArgMax", 0, 1, [1, 0, 0]),
        ("ArgMax", 1, 1, [2, 2, 3]),
        ("ArgMax", 1, -1, [2, 2, 3]),
        ("ArgMin", 0, 1, [3, 1, 0]),
        ("ArgMin", 1, 1, [3, 3, 3]),
        ("ArgMax", 0, 0, [2, 0, 0, 2]),
        ("ArgMin", 1, 0, [1, 1, 1, 1]),
    ],
)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_the_place_of_the_extreme_is_the_first_or_the_last_of_equals(op, last, axis, expected, keepdims):
    how = {"axis": axis, "keepdims": keepdims, "select_last_index": last}
    (y,) = evaluate(op, [TIES], how)
    wanted = np.array(expected, np.int64)
    np.testing.assert_array_equal(y, np.expand_dims(wanted, axis) if keepdims else wanted, strict=True)
