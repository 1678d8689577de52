"""Operators that move, pick, repeat or make elements, against loops over uneven extents that say where each comes from."""

from itertools import product

import numpy as np
import pytest

from vdla.runtime.host.evaluate import OperatorError, evaluate

UNEVEN = [((2, 12, 3, 5), 2), ((1, 18, 5, 4), 3), ((3, 7, 2, 9), 1)]  # [N, C, H, W] and the size of a block
X = np.arange(30, dtype=np.int32).reshape(2, 3, 5)
ROWS = np.array([[0, 2], [-1, 1]])
PLACES = np.array([[[2, 0, 1, 0, 2]], [[0, 1, 2, 1, -1]]])


def numbered(*shape: int) -> np.ndarray:
    """Return an array each element of which is another number."""
    return np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize(("shape", "block"), UNEVEN)
def test_channels_become_squares_and_squares_become_channels_again(shape, block, mode):
    deep = numbered(*shape)
    n, channels, h, w = shape
    inner = channels // block**2
    how = {"blocksize": block, "mode": mode}
    (wide,) = evaluate("DepthToSpace", [deep], how)
    assert wide.shape == (n, inner, h * block, w * block)
    for image, c, y, x in np.ndindex(*wide.shape):
        square = y % block * block + x % block
        channel = square * inner + c if mode == "DCR" else c * block**2 + square
        assert wide[image, c, y, x] == deep[image, channel, y // block, x // block]
    np.testing.assert_array_equal(evaluate("SpaceToDepth", [wide], how)[0], deep, strict=True)


@pytest.mark.parametrize(
    ("op", "shape", "attributes", "expected"),
    [
        ("Flatten", (2, 3, 5), {"axis": 0}, (1, 30)),
        ("Flatten", (2, 3, 5), {"axis": 1}, (2, 15)),
        ("Flatten", (2, 3, 5), {"axis": -1}, (6, 5)),
        ("Flatten", (2, 3, 5), {"axis": 3}, (30, 1)),
        ("Squeeze", (2, 1, 5, 1), {"axes": (1,)}, (2, 5, 1)),
        ("Squeeze", (2, 1, 5, 1), {"axes": (-1, 1)}, (2, 5)),
        ("Unsqueeze", (2, 5), {"axes": (0, 3)}, (1, 2, 5, 1)),
        ("Unsqueeze", (2, 5), {"axes": (-2,)}, (2, 1, 5)),
        ("Reshape", (2, 6), {"shape": (3, 4)}, (3, 4)),
    ],
)
def test_a_new_shape_leaves_the_order_of_the_elements(op, shape, attributes, expected):
    x = numbered(*shape)
    (y,) = evaluate(op, [x], attributes)
    np.testing.assert_array_equal(y, x.reshape(expected), strict=True)


def test_a_transposed_array_lies_in_order_in_memory():
    x = numbered(2, 3, 5)
    (y,) = evaluate("Transpose", [x], {"perm": (2, 0, 1)})
    assert y.shape == (5, 2, 3)
    assert y.flags.c_contiguous
    assert all(y[k, i, j] == x[i, j, k] for i, j, k in product(range(2), range(3), range(5)))


@pytest.mark.parametrize("axis", [1, -2])
def test_parts_are_cut_and_joined_along_an_axis(axis):
    x = numbered(2, 6, 5)
    parts = evaluate("Split", [x], {"axis": axis, "split": (1, 3, 2)})
    for part, place in zip(parts, (slice(0, 1), slice(1, 4), slice(4, 6)), strict=True):
        np.testing.assert_array_equal(part, x[:, place], strict=True)
    np.testing.assert_array_equal(evaluate("Concat", parts, {"axis": axis})[0], x, strict=True)
    with pytest.raises(OperatorError, match=r"parts of \[1, 3\] do not make up the 6 elements of dimension"):
        evaluate("Split", [x], {"axis": axis, "split": (1, 3)})


def test_slices_take_their_axes_and_leave_all_others():
    x = numbered(4, 7, 9)
    how = {"axes": (2, 0), "starts": (7, -3), "ends": (0, 100), "steps": (-2, 1)}
    np.testing.assert_array_equal(evaluate("Slice", [x], how)[0], x[1:, :, 7:0:-2], strict=True)


PADS = (1, -2, 0, 3, -1, 2)  # begins, then ends, some of which cut off
CUT, WIDTHS = (slice(0, 4), slice(2, 5), slice(0, 5)), ((1, 3), (0, 0), (0, 2))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_borders_are_added_and_cut_off_at_each_end_by_itself(mode):
    x = numbered(4, 6, 5)
    (y,) = evaluate("Pad", [x], {"mode": mode, "pads": PADS, "value": 77})
    more = {"constant_values": 77} if mode == "constant" else {}
    np.testing.assert_array_equal(y, np.pad(x[CUT], WIDTHS, mode, **more), strict=True)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "expected"),
    [
        ("Gather", [X, ROWS], {"axis": 1}, X[:, ROWS]),
        ("Gather", [X, np.array(-1)], {"axis": 2}, X[:, :, -1]),
        ("GatherElements", [X, PLACES], {"axis": 1}, np.take_along_axis(X, PLACES, 1)),
        ("GatherElements", [X, np.array([[[1, 0]]])], {"axis": 0}, np.int32([[[15, 1]]])),
        ("Expand", [np.int32([[1], [2]])], {"shape": (3, 2, 2)}, np.int32([[[1, 1], [2, 2]]] * 3)),
        ("Tile", [np.int32([[1, 2]])], {"repeats": (3, 2)}, np.int32([[1, 2, 1, 2]] * 3)),
        ("Shape", [X], {"start": 1, "end": 3}, np.int64([3, 5])),
        ("Shape", [X], {"start": 0, "end": -1}, np.int64([2, 3])),
        ("Size", [X], {}, np.int64(30)),
        (
            "ConstantOfShape",
            [],
            {"shape": (2, 3), "value": 7, "dtype": "int16"},
            np.full((2, 3), 7, np.int16),
        ),
        ("Range", [np.int32(3), np.int32(11), np.int32(4)], {}, np.int32([3, 7])),
        ("Range", [np.float32(2), np.float32(0), np.float32(-0.5)], {}, np.float32([2, 1.5, 1, 0.5])),
    ],
)
def test_elements_are_picked_repeated_and_made(op, inputs, attributes, expected):
    (y,) = evaluate(op, inputs, attributes)
    np.testing.assert_array_equal(y, expected, strict=True)


def test_what_is_repeated_can_be_written_to():
    (y,) = evaluate("Expand", [np.int32([1])], {"shape": (2, 2)})
    y[0, 0] = 9
    assert y.tolist() == [[9, 1], [1, 1]]
