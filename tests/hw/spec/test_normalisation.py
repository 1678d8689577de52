"""The arithmetic of NORMALISE: its reciprocals, and its outputs against softmax and LayerNormalization on
floats."""

import math
from itertools import pairwise

import numpy as np
import pytest

from vdla.hw.spec import normalisation
from vdla.hw.spec.normalisation import (
    NormalOperands,
    RowStatistics,
    begun_anew,
    gathered,
    normal_operands,
    normal_parameters,
    normalised,
    reciprocal,
    reciprocal_root,
)
from vdla.hw.spec.vocabulary import Statistic

PRECISION = 2.0**-14
ROUNDED = 1 << normalisation.OUTPUT_SHIFT - 1  # the addend that rounds to nearest
GREATEST_POWER = (1 << normalisation.POWER_BITS) - 1


def test_the_relative_error_of_a_reciprocal_is_below_2_to_the_minus_14_for_all_mantissas():
    rng = np.random.default_rng(0)
    for mantissa in range(1 << 15, 1 << 16):
        bits = int(rng.integers(-15, 17))
        cut = int(rng.integers(1 << max(bits, 0)))
        number = (mantissa << bits) + cut if bits >= 0 else max(mantissa >> -bits, 1)
        value, exponent = reciprocal(number)
        assert 0 < value < 1 << normalisation.MANTISSA_BITS
        assert abs(value * 2.0 ** (-31 - exponent) * number - 1) < PRECISION, number


def test_the_relative_error_of_a_reciprocal_root_is_below_2_to_the_minus_14_for_all_mantissas():
    rng = np.random.default_rng(1)
    for mantissa in range(1 << 14, 1 << 16):
        bits = 2 * int(rng.integers(-7, 17))
        cut = int(rng.integers(1 << max(bits, 0)))
        number = (mantissa << bits) + cut if bits >= 0 else max(mantissa >> -bits, 1)
        value, exponent = reciprocal_root(number)
        assert 0 < value < 1 << normalisation.MANTISSA_BITS
        assert abs(value * 2.0 ** (-23 - exponent) * math.sqrt(number) - 1) < PRECISION, number


def test_nothing_has_no_reciprocal():
    assert reciprocal(0) == reciprocal_root(0) == (0, 0)


@pytest.mark.parametrize("intervals", [normalisation.reciprocals(), normalisation.reciprocal_roots()])
def test_a_table_has_256_intervals_of_16_bits_that_join(intervals):
    assert len(intervals) == 256
    assert all(0 <= each < 1 << 16 for interval in intervals for each in interval)
    assert all(first.value - first.fall == second.value for first, second in pairwise(intervals))


def row_of(statistics: list[Statistic], values: list[int], table: list[int] | None, parts: int = 3):
    """Return the statistics of a row that is gathered in parts."""
    row = RowStatistics(17, 12345, -99, 99)
    for statistic in statistics:
        row = begun_anew(statistic, row)
        for part in np.array_split(values, parts):
            row = gathered(statistic, row, part.tolist(), table)
    return row


def quotient(scale: float, zero: int, bits: int) -> NormalOperands:
    """Return the parameters of an output: value / 2^bits / scale + zero, rounded to nearest."""
    factor = round(2.0 ** (normalisation.OUTPUT_SHIFT - bits) / scale)
    return NormalOperands((zero << normalisation.OUTPUT_SHIFT) + ROUNDED, factor, 1, 0, 0, 0)


@pytest.mark.parametrize("seed", range(60))
def test_softmax_is_within_1_of_softmax_on_floats(seed):
    rng = np.random.default_rng(seed)
    size, scale = int(rng.choice([1, 2, 7, 64, 197, 1024])), float(rng.choice([0.005, 0.02, 0.1, 0.4, 1]))
    zero, output_scale = int(rng.choice([-128, 0])), float(rng.choice([1 / 256, 1 / 128]))
    values = np.clip(np.round(rng.normal(rng.integers(-60, 60), rng.choice([1, 10, 60]), size)), -128, 127)
    least = 2.0 ** -(normalisation.SUM_BITS - normalisation.POWER_BITS) * size
    unit = GREATEST_POWER if least <= 1 else int(GREATEST_POWER / least)
    table = [round(unit * math.exp(-scale * distance)) for distance in range(256)]
    row = row_of([Statistic.GREATEST, Statistic.POWERS], values.astype(int).tolist(), table)
    normal = quotient(output_scale, zero, normalisation.POWER_FRACTION_BITS)
    outputs = [normalised(Statistic.POWERS, row, int(value), table, normal) for value in values]
    powers = np.exp(scale * (values - values.max()))
    expected = np.clip(np.round(powers / powers.sum() / output_scale + zero), -128, 127)
    assert np.abs(outputs - expected).max() <= 1


def standard(size: int, scale: float, epsilon: float, *, mean: bool) -> NormalOperands:
    """Return the parameters of an output: a value that is divided by its standard deviation, / scale. The
    factor makes up for a count that is no power of two.

    Args:
        epsilon: in squares of values.
    """
    exponent = size.bit_length() - 1
    bits = normalisation.OUTPUT_SHIFT - normalisation.STANDARD_FRACTION_BITS
    factor = round(2.0**bits / scale * size / 2**exponent)
    inverse = min(round(2 ** (normalisation.COUNT_BITS + exponent) / size), (1 << 16) - 1)
    return NormalOperands(ROUNDED, factor, size, exponent, inverse * mean, round(epsilon * size**2))


@pytest.mark.parametrize("mean", [True, False], ids=["mean", "mean square"])
@pytest.mark.parametrize("seed", range(60))
def test_a_normalisation_is_within_1_of_that_on_floats(seed, mean):
    rng = np.random.default_rng(seed)
    size, scale = int(rng.choice([4, 16, 64, 197, 768])), float(rng.choice([0.02, 0.04, 0.1]))
    spread, offset = float(rng.choice([2, 10, 40])), int(rng.integers(-60, 60))
    values = np.clip(np.round(rng.normal(offset, spread, size)), -128, 127)
    epsilon = float(rng.choice([0, 0.5, 3]))
    row = row_of([Statistic.MOMENTS], values.astype(int).tolist(), None)
    normal = standard(size, scale, epsilon, mean=mean)
    outputs = [normalised(Statistic.MOMENTS, row, int(value), None, normal) for value in values]
    centred = values - values.mean() * mean
    deviation = math.sqrt((centred**2).mean() + epsilon)
    expected = np.clip(np.round(centred / max(deviation, 1e-9) / scale), -128, 127)
    assert np.abs(outputs - expected).max() <= 1


def test_a_row_of_equal_values_without_epsilon_gives_the_addend():
    row = row_of([Statistic.MOMENTS], [5] * 64, None)
    normal = standard(64, 0.02, 0, mean=True)._replace(addend=(7 << normalisation.OUTPUT_SHIFT) + ROUNDED)
    assert normalised(Statistic.MOMENTS, row, 5, None, normal) == 7


def test_the_greatest_value_alone_gives_powers():
    row = row_of([Statistic.GREATEST], [3, -7, 100], None)
    table = [65535 - 200 * distance for distance in range(256)]
    normal = NormalOperands(0, 1 << 10, 0, 0, 0, 0)
    assert row.greatest == 100
    assert normalised(Statistic.GREATEST, row, 60, None, normal._replace(factor=32767)) == 40 * 32767 >> 18
    assert normalised(Statistic.GREATEST, row, 60, table, normal) == min(127, (65535 - 8000) * 1024 >> 18)


def test_sums_wrap():
    row = RowStatistics(127, (1 << 32) - 1, (1 << 23) - 1, (1 << 32) - 1)
    assert gathered(Statistic.POWERS, row, [126], None).powers == 0
    more = gathered(Statistic.MOMENTS, row, [1], None)
    assert (more.total, more.squares) == (-(1 << 23), 0)


@pytest.mark.parametrize("seed", range(20))
def test_operands_and_parameters_are_inverse(seed):
    rng = np.random.default_rng(seed)
    normal = NormalOperands(
        int(rng.integers(-(1 << 31), 1 << 31)),
        int(rng.integers(-(1 << 15), 1 << 15)),
        *(int(rng.integers(1 << bits)) for bits in (16, 4, 16, 32)),
    )
    words = normal_parameters(normal)
    assert all(-(1 << 31) <= word < 1 << 31 for word in words)
    assert normal_operands(words) == normal


@pytest.mark.parametrize("seed", range(20))
def test_parameters_and_operands_are_inverse(seed):
    rng = np.random.default_rng(seed)
    words = tuple(int(word) for word in rng.integers(-(1 << 31), 1 << 31, 4))
    again = normal_parameters(normal_operands(words))
    assert again == (words[0], words[1] & (1 << 20) - 1, *words[2:])
