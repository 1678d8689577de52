"""Operators that pick, repeat or make elements, on uneven shapes."""

import numpy as np
import pytest

from vdla.runtime.host.evaluate import evaluate

X = np.arange(30, dtype=np.int32).reshape(2, 3, 5)
ROWS = np.array([[0, 2], [-1, 1]])
PLACES = np.array([[[2, 0, 1, 0, 2]], [[0, 1, 2, 1, -1]]])


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
