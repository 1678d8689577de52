"""Functions of a byte by their values."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from vdla.prove.functions import BYTES, FIRST_CONSTANT, IDENTITY, Functions, distinct_pairs


def test_equal_values_have_equal_numbers():
    functions = Functions()
    assert functions.number(BYTES) == IDENTITY
    first = functions.number(BYTES * 3)
    assert functions.number(3 * BYTES) == first != functions.number(BYTES * 2)
    np.testing.assert_array_equal(functions.values[first], 3 * BYTES)


def test_constants_are_numbered_by_their_value():
    functions = Functions()
    np.testing.assert_array_equal(functions.constants(BYTES), FIRST_CONSTANT + np.arange(256))
    numbers = functions.constants(np.array([[-(1 << 40), 5], [300, -(1 << 40)]]))
    np.testing.assert_array_equal(functions.values[numbers][..., 0], [[-(1 << 40), 5], [300, -(1 << 40)]])
    assert functions.is_constant[numbers].all()
    assert not functions.is_constant[IDENTITY]


def test_functions_are_kept_when_their_table_grows():
    functions, rng = Functions(), np.random.default_rng(1)
    rows = rng.integers(-128, 128, (1000, 256))
    numbers = [functions.number(row) for row in rows]
    np.testing.assert_array_equal(functions.values[numbers], rows)
    np.testing.assert_array_equal(functions.least[numbers], rows.min(1))
    np.testing.assert_array_equal(functions.greatest[numbers], rows.max(1))


def test_composition_applies_the_inner_function_first():
    functions, rng = Functions(), np.random.default_rng(2)
    outer, inner = (
        np.array([functions.number(rng.integers(-128, 128, 256)) for _ in range(3)], np.int32) for _ in "ab"
    )
    composed = functions.composed(outer[:, None], inner)
    for i, j in np.ndindex(3, 3):
        values = functions.values[outer[i]][functions.values[inner[j]] + 128]
        np.testing.assert_array_equal(functions.values[composed[i, j]], values)
    np.testing.assert_array_equal(functions.composed(outer, np.zeros(3, np.int32)), outer)


def test_values_beyond_bytes_are_not_composed():
    functions = Functions()
    wide, identity = (np.array(functions.number(each), np.int32) for each in (BYTES * 2, ~BYTES))
    with pytest.raises(IndexError, match=r"applied to values -256\.\.254"):
        functions.composed(identity, wide)


@pytest.mark.parametrize("reach", [1, 3, 1000, 1 << 30])
def test_pairs_are_told_apart(reach):
    rng = np.random.default_rng(reach)
    left, right = rng.integers(-reach, reach, (7, 1)), rng.integers(-reach, reach, (1, 9))
    pairs, places = distinct_pairs(left, right)
    assert len(set(pairs)) == len(pairs)
    for i, j in np.ndindex(7, 9):
        assert pairs[places[i, j]] == (left[i, 0], right[0, j])
    assert set(places.ravel().tolist()) == set(range(len(pairs)))


def test_no_pairs_of_nothing():
    pairs, places = distinct_pairs(np.zeros((0, 1), np.int64), np.zeros(3, np.int64))
    assert pairs == []
    assert places.shape == (0, 3)


def test_constants_can_be_asked_for_while_another_thread_numbers_functions():
    """With a switch between threads after almost every instruction of Python."""
    interval = sys.getswitchinterval()

    def number_many(functions: Functions) -> None:
        for factor in range(2, 1000):
            functions.number(BYTES * factor)

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(1) as pool:
            for _ in range(30):
                functions = Functions()
                numbering = pool.submit(number_many, functions)
                while not numbering.done():
                    assert functions.is_constant[FIRST_CONSTANT]
                numbering.result()
                assert functions.is_constant.sum() == len(BYTES)
    finally:
        sys.setswitchinterval(interval)
