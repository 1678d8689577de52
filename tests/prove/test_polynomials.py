"""Equal sums have equal polynomials, however their terms are written; other sums do not."""

import numpy as np
import pytest

from vdla.prove.domain import Domain
from vdla.prove.functions import BYTES
from vdla.prove.polynomials import CONSTANT, Polynomials, agree, likeness, monomial_of, ratio_of

DOMAIN = Domain(1)
X, Y = DOMAIN.fresh("x", (2,))
TABLE = np.random.default_rng(3).integers(-128, 128, 256)
HALF = TABLE // 2


def of(function: np.ndarray, element=X):
    """Return a function of an element."""
    return DOMAIN.of_functions(element.reshape(1), np.array([DOMAIN.functions.number(function)], np.int32))[0]


def constant(value: int):
    return DOMAIN.constants(np.array([value]))[0]


EQUAL = {
    "another order": (([(2, [X]), (3, [Y])], 5), ([(3, [Y]), (2, [X])], 5)),
    "another order of factors": (([(1, [X, Y])], 0), ([(1, [Y, X])], 0)),
    "a term in parts": (([(2, [X]), (1, [X])], 0), ([(3, [X])], 0)),
    "a table in parts": (([(3, [of(TABLE), Y])], 0), ([(3, [of(HALF), Y]), (3, [of(TABLE - HALF), Y])], 0)),
    "a zero point": (([(1, [of(BYTES - 7), Y])], 0), ([(1, [X, Y]), (-7, [Y])], 0)),
    "constants": (([(2, [constant(4)]), (5, [X, constant(3)])], 1), ([(15, [X])], 9)),
    "nothing": (([(2, [X]), (-2, [X])], 0), ([], 0)),
}
OTHER = {
    "another factor": (([(2, [X])], 0), ([(3, [X])], 0)),
    "another element": (([(2, [X])], 0), ([(2, [Y])], 0)),
    "another constant": (([(2, [X])], 1), ([(2, [X])], 0)),
    "a square": (([(1, [X, X])], 0), ([(1, [X, Y])], 0)),
    "another table": (([(1, [of(TABLE)])], 0), ([(1, [of(np.roll(TABLE, 1))])], 0)),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_sums_have_equal_polynomials(name):
    left, right = (Polynomials(DOMAIN.functions).of(*each) for each in EQUAL[name])
    assert left == right


@pytest.mark.parametrize("name", OTHER)
def test_other_sums_have_other_polynomials(name):
    left, right = (Polynomials(DOMAIN.functions).of(*each) for each in OTHER[name])
    assert left != right


def test_factors_of_bytes_are_coefficients():
    polynomial = Polynomials(DOMAIN.functions).of([(-5, [X]), (7, [X, Y])], 11)
    assert polynomial == {CONSTANT: 11, monomial_of([X]): -5, monomial_of([X, Y]): 7}


@pytest.mark.parametrize(
    ("have", "due", "ratio", "equal"),
    [
        ({CONSTANT: 3, (b"a",): 4}, {CONSTANT: 3, (b"a",): 4}, 0, True),
        ({CONSTANT: 3, (b"a",): 4}, {CONSTANT: 2, (b"a",): 4}, 0, False),
        ({CONSTANT: 8, (b"a",): 4, (b"b",): -8}, {CONSTANT: 2, (b"a",): 1, (b"b",): -2}, 2, True),
        ({CONSTANT: 2, (b"a",): 1}, {CONSTANT: 8, (b"a",): 4}, -2, True),
        ({CONSTANT: 0, (b"a",): 4, (b"b",): 4}, {CONSTANT: 0, (b"a",): 2, (b"b",): 4}, None, False),
        ({CONSTANT: 0, (b"a",): 6}, {CONSTANT: 0, (b"a",): 2}, None, False),
        ({CONSTANT: 0}, {CONSTANT: 0, (b"a",): 2}, None, False),
    ],
)
def test_a_power_of_two_may_be_between_two_sums(have, due, ratio, equal):
    assert ratio_of(have, due) == ratio
    assert agree(have, due) == equal


def test_equal_coefficients_are_more_alike():
    due = {CONSTANT: 0, (b"a",): 2, (b"b",): 3}
    assert [likeness({(b"a",): factor}, due) for factor in (2, 5)] == [2, 1]
    assert likeness({(b"c",): 2}, due) == 0
