"""Pooling, against NumPy's reductions of every window; reductions, against loops over what they take in."""

import math
from itertools import product

import numpy as np
import pytest

from vdla.runtime.host import pooling
from vdla.runtime.host.evaluate import OperatorError, evaluate
from vdla.runtime.host.pooling import pooled_size
from vdla.runtime.host.windows import padded, sliding_windows

RNG = np.random.default_rng(0)
CASES = [  # spatial shape, kernel, strides, dilations, pads
    ((28, 28), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    ((14, 13), (3, 2), (2, 1), (1, 2), (0, 1, 1, 0)),
    ((27, 27), (5, 5), (1, 1), (1, 1), (2, 2, 2, 2)),
    ((7, 7), (7, 7), (1, 1), (1, 1), (0, 0, 0, 0)),
    ((9, 7), (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    ((40,), (3,), (2,), (1,), (1, 0)),
    ((6, 7, 8), (2, 2, 3), (1, 2, 1), (1, 1, 1), (0, 0, 1, 1, 0, 1)),
]
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


@pytest.mark.parametrize(("shape", "kernel", "strides", "dilations", "pads"), CASES)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_the_greatest_of_each_window_is_numpys(shape, kernel, strides, dilations, pads, dtype):
    x = RNG.integers(-128, 128, (2, 3, *shape)).astype(dtype)
    lowest = -np.inf if dtype == "float32" else -128
    views = sliding_windows(padded(x, pads, lowest), kernel, strides, dilations)
    how = {"kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations}
    (y,) = evaluate("MaxPool", [x], {**how, "ceil_mode": 0})
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, views.max(axis=tuple(range(-len(kernel), 0))))


@pytest.mark.parametrize(
    ("dtype", "operation", "size", "kernel", "passes"),
    [
        ("float32", np.maximum, 9, 3, 2),
        ("int8", np.maximum, 9, 3, 2),
        ("float32", np.add, 9, 3, 2),
        ("int8", np.add, 9, 3, 0),  # whose sums do not wrap
        ("float32", np.maximum, 3, 2, 2),  # as many windows as a window has elements
        ("float32", np.maximum, 4, 3, 0),
    ],
)
def test_windows_share_work_where_they_are_many(dtype, operation, size, kernel, passes, monkeypatch):
    calls = []
    by_place = pooling._by_place
    monkeypatch.setattr(pooling, "_by_place", lambda *given: calls.append(1) or by_place(*given))
    x = RNG.integers(-9, 9, (2, 30, size, size)).astype(dtype)
    reduced = pooling.reduced_windows(x, (kernel, kernel), (1, 1), (1, 1), operation)
    views = sliding_windows(x, (kernel, kernel), (1, 1), (1, 1))
    np.testing.assert_array_equal(reduced, operation.reduce(views, axis=(-2, -1)))
    assert len(calls) == passes


def test_a_window_that_holds_nan_is_nan():
    x = np.array([[[1, np.nan, 2, 3, 4]]], np.float32)
    how = {"kernel_shape": (2,), "strides": (1,), "pads": (0, 0), "dilations": (1,), "ceil_mode": 0}
    np.testing.assert_array_equal(evaluate("MaxPool", [x], how)[0], [[[np.nan, np.nan, 3, 4]]])


@pytest.mark.parametrize(("shape", "kernel", "strides", "dilations", "pads"), CASES)
def test_the_mean_of_each_window_is_numpys_to_the_last_bit_unless_dilated(
    shape, kernel, strides, dilations, pads
):
    x = RNG.normal(size=(2, 3, *shape)).astype(np.float32)
    views = sliding_windows(padded(x, pads), kernel, strides, dilations)
    inside_views = sliding_windows(padded(np.ones_like(x), pads), kernel, strides, dilations)
    axes = tuple(range(-len(kernel), 0))
    how = {"kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations}
    (y,) = evaluate("AveragePool", [x], {**how, "ceil_mode": 0, "count_include_pad": 0})
    tolerance = 0 if set(dilations) == {1} else 1e-6  # NumPy adds dilated rows in another order
    np.testing.assert_allclose(y, views.sum(axis=axes) / inside_views.sum(axis=axes), rtol=0, atol=tolerance)


def test_means_of_bytes_do_not_wrap():
    how = {"kernel_shape": (4,), "strides": (1,), "pads": (0, 0), "dilations": (1,)}
    (y,) = evaluate(
        "AveragePool", [np.full((1, 1, 9), 127, np.int8)], {**how, "ceil_mode": 0, "count_include_pad": 0}
    )
    assert y.tolist() == [[[127] * 6]]


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_a_window_larger_than_its_input_is_refused_with_what_to_do(op):
    how = {
        "kernel_shape": (2, 3),
        "strides": (1, 1),
        "pads": (0, 1, 0, 0),
        "dilations": (1, 1),
        "ceil_mode": 0,
    }
    how |= {"count_include_pad": 0} if op == "AveragePool" else {}
    message = (
        "a window of 2 x 3 pixels is larger than its input of 1 x 3, border included; give the network larger "
        "inputs: larger samples, or larger extents in --shape"
    )
    with pytest.raises(OperatorError, match=message):
        evaluate(op, [np.zeros((1, 4, 1, 2), np.float32)], how)


@pytest.mark.parametrize("rounds_up", [False, True])
@pytest.mark.parametrize(("begin", "end"), [(0, 0), (1, 0), (0, 2), (2, 1)])
def test_windows_are_counted_by_where_they_may_start(begin, end, rounds_up):
    """onnxruntime takes no padding as large as the window."""
    for size, span, stride in product(range(4, 10), range(max(begin, end) + 1, 5), range(1, 4)):
        starts = range(0, size + begin + end, stride)
        whole = [start for start in starts if start + span <= size + begin + end]
        some = [
            start for start in starts if start < size + begin and start - stride + span < size + begin + end
        ]
        expected = len(some if rounds_up else whole)
        assert pooled_size(size, span, begin, end, stride, rounds_up) == expected, (size, span, stride)


def by_definition(x, how, rounds_up, counts_padding=None):
    """Return the greatest elements of windows, or their means where it is told whether padding counts."""
    kernel, strides, dilations, pads = (
        how[name] for name in ("kernel_shape", "strides", "dilations", "pads")
    )
    rank = len(kernel)
    spans = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    rows = zip(x.shape[2:], spans, pads[:rank], pads[rank:], strides, strict=True)
    out = [pooled_size(*row, rounds_up) for row in rows]
    pooled = np.zeros((*x.shape[:2], *out))
    for place in np.ndindex(*out):
        inside, counted = [], 0
        for offset in np.ndindex(*kernel):
            parts = zip(place, strides, offset, dilations, pads[:rank], strict=True)
            at = [where * step + tap * every - begin for where, step, tap, every, begin in parts]
            bounds = zip(at, x.shape[2:], pads[:rank], pads[rank:], strict=True)
            counted += all(-begin <= position < size + end for position, size, begin, end in bounds)
            if all(0 <= position < size for position, size in zip(at, x.shape[2:], strict=True)):
                inside.append(x[(slice(None), slice(None), *at)])
        if counts_padding is None:
            pooled[(slice(None), slice(None), *place)] = np.max(inside, axis=0)
        else:
            total = np.sum(inside, axis=0, dtype=float)
            pooled[(slice(None), slice(None), *place)] = total / (counted if counts_padding else len(inside))
    return pooled


STICKING_OUT = [  # spatial shape, kernel, strides, dilations, pads
    ((5, 6), (2, 3), (3, 2), (1, 1), (1, 1, 1, 1)),
    ((6, 7), (3, 2), (2, 3), (1, 2), (1, 0, 0, 1)),
    ((8,), (3,), (4,), (2,), (1, 0)),
]


@pytest.mark.parametrize("rounds_up", [0, 1])
@pytest.mark.parametrize(("shape", "kernel", "strides", "dilations", "pads"), STICKING_OUT)
def test_windows_that_stick_out_count_what_is_inside(shape, kernel, strides, dilations, pads, rounds_up):
    how = {"kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations}
    for dtype in ("int8", "float32"):
        x = RNG.integers(-128, 0, (2, 3, *shape)).astype(dtype)
        (y,) = evaluate("MaxPool", [x], {**how, "ceil_mode": rounds_up})
        np.testing.assert_array_equal(y, by_definition(x, how, rounds_up).astype(dtype), strict=True)
    for counts in (0, 1):
        (y,) = evaluate("AveragePool", [x], {**how, "ceil_mode": rounds_up, "count_include_pad": counts})
        np.testing.assert_allclose(y, by_definition(x, how, rounds_up, bool(counts)), rtol=1e-6)


def test_pooling_over_all_of_space_keeps_its_axes():
    x = RNG.normal(size=(2, 3, 4, 5)).astype(np.float32)
    (greatest,), (mean,) = (evaluate(op, [x], {}) for op in ("GlobalMaxPool", "GlobalAveragePool"))
    assert greatest.shape == mean.shape == (2, 3, 1, 1)
    np.testing.assert_array_equal(greatest[..., 0, 0], x.reshape(2, 3, -1).max(axis=2))
    np.testing.assert_allclose(mean[..., 0, 0], x.reshape(2, 3, -1).mean(axis=2), rtol=1e-6)


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
