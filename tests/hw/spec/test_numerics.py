"""Integer arithmetic against exact fractions."""

from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdla.hw.spec.numerics import (
    add_residual,
    alu,
    look_up,
    requantise,
    requantise_parameters,
    residual_parameters,
    wrap,
)
from vdla.hw.spec.vocabulary import AluOpcode

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


FACTOR = st.integers(-(1 << 15), (1 << 15) - 1)


@given(
    BYTE,
    BYTE,
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.tuples(FACTOR, FACTOR),
    st.integers(0, 63),
    BYTE,
    BYTE,
    BYTE,
)
def test_a_sum_with_a_residual_is_exact_rounded_half_up_and_clipped(
    value, residual, addend, factors, shift, zero, least, greatest
):
    exact = Fraction(value * factors[0] + residual * factors[1] + addend, 1 << shift)
    expected = max(least, min(greatest, floor(exact + Fraction(1, 2)) + zero))
    parameters = residual_parameters(addend, factors, shift, zero, least, greatest)
    assert add_residual(value, residual, parameters) == expected
    assert add_residual(value, residual, [wrap(word, 32) for word in parameters]) == expected


def test_an_accumulator_of_16_bits_holds_the_sign_of_one_factor_as_the_other():
    assert add_residual(10, 100, [0, -3, 0, 127 << 8 | 128]) == -128
    assert add_residual(10, 20, [0, -3, 0, 127 << 8 | 128]) == -50
    assert add_residual(10, 100, [0, 3, 0, 127 << 8 | 128]) == 30


def test_a_table_has_the_entries_of_values_from_0_on_first():
    assert [look_up(value, range(256)) for value in (0, 127, -128, -1)] == [0, 127, 128, 255]


ACCUMULATOR = st.integers(-(1 << 31), (1 << 31) - 1)


@given(ACCUMULATOR, ACCUMULATOR, st.sampled_from((16, 32)))
def test_an_alu_operation_is_exact_and_wraps(left, right, bits):
    left, right = wrap(left, bits), wrap(right, bits)
    exact = {
        AluOpcode.MIN: left if left < right else right,
        AluOpcode.MAX: right if left < right else left,
        AluOpcode.ADD: left + right,
        AluOpcode.MUL: left * right,
    }
    for operation, value in exact.items():
        result = alu(operation, left, right, bits)
        assert -(1 << bits - 1) <= result < 1 << bits - 1
        assert (result - value) % (1 << bits) == 0


@given(ACCUMULATOR, st.integers(-70, 70), st.sampled_from((16, 32)))
def test_a_shift_multiplies_by_a_power_of_two(left, amount, bits):
    left = wrap(left, bits)
    result = alu(AluOpcode.SHR, left, amount, bits)
    if amount >= 0:
        assert result == floor(Fraction(left, 1 << amount))
    else:
        assert -(1 << bits - 1) <= result < 1 << bits - 1
        assert (result - (left << -amount)) % (1 << bits) == 0


@pytest.mark.parametrize("bits", [2, 16, 32])
def test_wrapping_keeps_the_low_bits_as_a_signed_number(bits):
    half = 1 << bits - 1
    values = [-half - 1, -half, -1, 0, half - 1, half, 2 * half - 1, 2 * half]
    assert [wrap(value, bits) for value in values] == [half - 1, -half, -1, 0, half - 1, -half, -1, 0]
