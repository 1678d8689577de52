"""Parameters of requantisation in the form that proofs compare."""

import numpy as np
import pytest

from vdla.hw.spec import numerics
from vdla.prove.axioms import Axiom
from vdla.prove.elements import NO_ROOT
from vdla.prove.functions import BYTES, IDENTITY, Functions
from vdla.prove.requantisation import EXACT, Requantisations


class Kinds(dict):
    """Numbers of kinds, from 1 on."""

    def __call__(self, *what):
        return self.setdefault(what, len(self) + 1)


@pytest.fixture
def sets():
    used = set()
    requantisations = Requantisations(Functions(), Kinds(), used.add)
    requantisations.used = used
    return requantisations


def words(*fields):
    return np.array(numerics.requantise_parameters(*fields), np.int64)[:, None]


def column(sets, *fields, bits=32):
    """Return bias, kind and function of a set of parameters."""
    return sets.columns(words(*fields), bits)[1:, 0].tolist()


def test_equal_functions_have_equal_kinds(sets):
    first = column(sets, 5, 3, 9, 7, -128, 127)
    assert first == column(sets, 5, 12, 11, 7, -128, 127)
    assert first[0] == 5
    assert first[2] == IDENTITY
    assert sets.used == {Axiom.ODD_MULTIPLIER}


@pytest.mark.parametrize("other", [(5, 5, 9, 7), (5, 3, 8, 7), (5, 3, 9, 6), (5, 6, 9, 7), (5, 3, 0, 7)])
def test_other_parameters_have_other_kinds(sets, other):
    assert column(sets, 5, 3, 9, 7, -128, 127)[1] != column(sets, *other, -128, 127)[1]


def test_the_bits_of_sums_count(sets):
    assert column(sets, 5, 3, 9, 7, -128, 127)[1] != column(sets, 5, 3, 9, 7, -128, 127, bits=EXACT)[1]


def test_bounds_are_functions(sets):
    wide, narrow = column(sets, 5, 3, 9, 7, -128, 127), column(sets, 5, 3, 9, 7, -5, 60)
    assert wide[:2] == narrow[:2]
    np.testing.assert_array_equal(sets._functions.values[narrow[2]], BYTES.clip(-5, 60))
    assert sets.used == {Axiom.BOUNDS_AS_FUNCTION}


@pytest.mark.parametrize(
    ("fields", "constant"),
    [
        ((5, 0, 9, 7, -128, 127), 7),
        ((5, 0, 9, 7, -128, 3), 3),
        ((5, 3, 9, 7, 6, 6), 6),
        ((5, 3, 9, 7, 9, 2), 9),
    ],
)
def test_parameters_that_ignore_the_sum_have_no_kind(sets, fields, constant):
    _, kind, function = column(sets, *fields)
    assert kind == NO_ROOT
    assert (sets._functions.values[function] == constant).all()
    assert numerics.requantise(1234, words(*fields)[:, 0].tolist(), 32) == constant


def test_results_follow_the_number_of_a_set(sets):
    rng = np.random.default_rng(1)
    values = rng.integers(-(1 << 20), 1 << 20, 256)
    for _ in range(3):
        rows = np.concatenate(
            [words(*rng.integers(1, 300, 2), int(rng.integers(0, 20)), 3, -100, 90) for _ in range(4)], 1
        )
        numbers = sets.columns(rows, 32)[0]
        for number, row in zip(numbers.tolist(), rows.T.tolist(), strict=True):
            expected = [numerics.requantise(int(value), row, 32) for value in values]
            assert sets.result(number, values).tolist() == expected
    assert (sets.columns(rows, 32)[0] == numbers).all()
