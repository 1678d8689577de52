"""Operators that move elements, against loops over uneven extents that say where each element comes from."""

from itertools import product

import numpy as np
import pytest

from vdla.runtime.host.evaluate import OperatorError, evaluate

UNEVEN = [((2, 12, 3, 5), 2), ((1, 18, 5, 4), 3), ((3, 7, 2, 9), 1)]  # [N, C, H, W] and the size of a block


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
