"""Integer arithmetic against exact fractions."""

from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdla.hw.spec.numerics import requantise, requantise_parameters, wrap

BYTE = st.integers(-128, 127)


@given(
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(0, 65535),
    st.integers(0, 63),
    BYTE,
    BYTE,
    BYTE,
)
def test_requantisation_is_an_exact_product_rounded_half_up_and_clipped(
    value, bias, multiplier, shift, zero, least, greatest
):
    exact = Fraction(wrap(value + bias, 32) * multiplier, 1 << shift)
    expected = max(least, min(greatest, floor(exact + Fraction(1, 2)) + zero))
    parameters = requantise_parameters(bias, multiplier, shift, zero, least, greatest)
    assert requantise(value, parameters, 32) == expected
    assert requantise(value, [wrap(word, 32) for word in parameters], 32) == expected


@pytest.mark.parametrize(
    ("value", "shift", "expected"),
    [(5, 1, 3), (-5, 1, -2), (6, 2, 2), (-6, 2, -1), (127, 0, 127), (128, 0, 127), (-129, 0, -128)],
)
def test_halves_are_rounded_up(value, shift, expected):
    assert requantise(value, requantise_parameters(0, 1, shift, 0, -128, 127), 32) == expected


def test_the_bias_wraps_at_the_accumulators_width():
    assert requantise(32767, requantise_parameters(1, 1, 10, 0, -128, 127), 16) == -32
    assert requantise(32767, requantise_parameters(1, 1, 10, 0, -128, 127), 32) == 32
