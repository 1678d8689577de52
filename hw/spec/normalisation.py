"""Integer arithmetic of NORMALISE, defined on Python integers. Tests compare every device with it.

A row's reciprocal, or reciprocal square root, is a mantissa of 16 bits and an exponent. The mantissa comes
from a table of 256 intervals, between whose ends it is interpolated. Its relative error is less than
2^-14. Every other step is exact, or rounds down to more bits than an output has.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from math import isqrt
from typing import Any, NamedTuple

from vdla.hw.spec.numerics import BYTE_BITS, MULTIPLIER_BITS, wrap
from vdla.hw.spec.vocabulary import Statistic

POWER_BITS = 16
SUM_BITS = 32
"""Of the sum of a row's powers, and of its squares: both unsigned; they wrap."""
TOTAL_BITS = 24
"""Of the sum of a row's values, signed; it wraps."""
COUNT_BITS = 16
MEAN_FRACTION_BITS = 8
MEAN_BITS = BYTE_BITS + MEAN_FRACTION_BITS
"""Of the mean of a row's values, times 2^8, signed; it wraps."""
MANTISSA_BITS = 16
INTERVAL_BITS = 8
"""Of the number of an interval, and of the place in it."""
SCALED_BITS = 18
"""Of a value that is divided by its row's statistic, signed. It saturates."""
POWER_FRACTION_BITS = 16
"""Of a power that is divided by the row's sum."""
STANDARD_FRACTION_BITS = 10
"""Of a value that is divided by the row's standard deviation."""
OUTPUT_SHIFT = 18
"""Bits behind the last place of an output in its product with the factor."""
LEFT_OUT_BIT = 2 * BYTE_BITS
"""The bit of the CLIP parameter that leaves a value out of its row's statistics."""
LEAST_VALUE = -(1 << BYTE_BITS - 1)
ROOT_SHIFT = 23
"""The root of a mantissa of 2^14 has a reciprocal of 2^16, in units of 2^-23."""
POWER_SHIFT = 2 * MANTISSA_BITS - 1 - POWER_FRACTION_BITS
"""The shift of a power that is divided by a sum of 16 bits."""
STANDARD_SHIFT = ROOT_SHIFT + MEAN_FRACTION_BITS - STANDARD_FRACTION_BITS
"""The shift of the only value of a row that is divided by the root of a spread of 16 bits."""


class RowStatistics(NamedTuple):
    """What the store unit holds of a row: its greatest value, the sums of its powers, of its values and of
    their squares."""

    greatest: int = LEAST_VALUE
    powers: int = 0
    total: int = 0
    squares: int = 0


class NormalOperands(NamedTuple):
    """The parameters of a NORMALISE that writes outputs.

    Attributes:
        addend, factor: of each column: signed numbers of 32 and of 16 bits.
        count: values of a row, 16 bits; MOMENTS only, as all that follow.
        exponent: floor(log2(count)), 4 bits.
        reciprocal: round(2^(16 + exponent) / count), 16 bits. 0: the mean is not subtracted.
        epsilon: what is added to count^2 times the variance, 32 bits, unsigned.
    """

    addend: Any
    factor: Any
    count: Any
    exponent: Any
    reciprocal: Any
    epsilon: Any


def count_operands(count: int, *, centred: bool) -> tuple[int, int, int]:
    """Return count, exponent and reciprocal of `NormalOperands` for rows of `count` values.

    Args:
        centred: the mean is subtracted.
    """
    exponent = count.bit_length() - 1
    reciprocal = min(_rounded(1 << COUNT_BITS + exponent, count), (1 << COUNT_BITS) - 1)
    return count, exponent, reciprocal if centred else 0


class RowScale(NamedTuple):
    """What normalises a row: (value 2^8 - mean) mantissa / 2^shift, or power mantissa / 2^shift."""

    mean: int
    mantissa: int
    shift: int


def power(value: int, greatest: int, table: Sequence[int] | None) -> int:
    """Return the power of a value in a row with this greatest value.

    Args:
        table: 256 entries of 16 bits, unsigned; None: the power is the difference.
    """
    distance = (greatest - value) & ((1 << BYTE_BITS) - 1)
    return distance if table is None else table[distance]


def gathered(
    statistic: Statistic, row: RowStatistics, values: Sequence[int], table: Sequence[int] | None
) -> RowStatistics:
    """Return a row's statistics with more values of 8 bits, of which none is left out."""
    match statistic:
        case Statistic.GREATEST:
            return row._replace(greatest=max(row.greatest, *values, LEAST_VALUE))
        case Statistic.POWERS:
            more = sum(power(value, row.greatest, table) for value in values)
            return row._replace(powers=(row.powers + more) % (1 << SUM_BITS))
        case Statistic.MOMENTS:
            squares = row.squares + sum(value * value for value in values)
            return row._replace(
                total=wrap(row.total + sum(values), TOTAL_BITS), squares=squares % (1 << SUM_BITS)
            )


def begun_anew(statistic: Statistic, row: RowStatistics) -> RowStatistics:
    """Return a row's statistics without earlier values; other statistics stay."""
    match statistic:
        case Statistic.GREATEST:
            return row._replace(greatest=LEAST_VALUE)
        case Statistic.POWERS:
            return row._replace(powers=0)
        case Statistic.MOMENTS:
            return row._replace(total=0, squares=0)


def normalised(
    statistic: Statistic, row: RowStatistics, value: int, table: Sequence[int] | None, normal: NormalOperands
) -> int:
    """Return the output for a value of 8 bits: clip(floor((scaled * factor + addend) / 2^18))."""
    scale = row_scale(statistic, row, normal)
    if statistic is Statistic.MOMENTS:
        operand = (value << MEAN_FRACTION_BITS) - scale.mean
    else:
        operand = power(value, row.greatest, table)
    scaled = _saturated(operand * scale.mantissa >> scale.shift, SCALED_BITS)
    return _saturated(scaled * normal.factor + normal.addend >> OUTPUT_SHIFT, BYTE_BITS)


def row_scale(statistic: Statistic, row: RowStatistics, normal: NormalOperands) -> RowScale:
    """Return what normalises a row."""
    if statistic is Statistic.GREATEST:
        return RowScale(0, 1 << MANTISSA_BITS - 1, MANTISSA_BITS - 1)
    if statistic is Statistic.POWERS:
        mantissa, exponent = reciprocal(row.powers)
        return RowScale(0, mantissa, POWER_SHIFT + exponent)
    mantissa, exponent = reciprocal_root(spread(row, normal))
    shift = STANDARD_SHIFT - int(normal.exponent) + exponent
    return RowScale(mean(row, normal), mantissa, max(shift, 0))


def mean(row: RowStatistics, normal: NormalOperands) -> int:
    """Return the mean of a row's values, times 2^8; 0 without a reciprocal of the count."""
    shift = COUNT_BITS + int(normal.exponent) - MEAN_FRACTION_BITS
    return wrap((row.total * int(normal.reciprocal) + (1 << shift - 1)) >> shift, MEAN_BITS)


def spread(row: RowStatistics, normal: NormalOperands) -> int:
    """Return count^2 times the sum of variance and epsilon; without a reciprocal of the count, of the mean
    square and epsilon. Not less than 0."""
    total = row.total if normal.reciprocal else 0
    return max(0, int(normal.count) * row.squares - total * total + int(normal.epsilon))


def reciprocal(number: int) -> tuple[int, int]:
    """Return m and e of 1 / number = m 2^-31 2^-e, for a number that is not negative; 0, 0 for 0.

    The number is n 2^e with n of 16 bits, of which the first is 1; lower bits are cut off.
    """
    if number == 0:
        return 0, 0
    exponent = number.bit_length() - MANTISSA_BITS
    mantissa = _shifted(number, exponent)
    place = (mantissa << 1) & ((1 << 2 * INTERVAL_BITS) - 1)
    return _interpolated(reciprocals(), place), exponent


def reciprocal_root(number: int) -> tuple[int, int]:
    """Return m and e of 1 / sqrt(number) = m 2^-23 2^-e, for a number that is not negative; 0, 0 for 0.

    The number is n 4^e with n of 15 or 16 bits, of which the first is 1; lower bits are cut off.
    """
    if number == 0:
        return 0, 0
    exponent = -(-(number.bit_length() - MANTISSA_BITS) // 2)
    mantissa = _shifted(number, 2 * exponent)
    half = 1 << MANTISSA_BITS - 1
    place = mantissa if mantissa >= half else (mantissa << 1) - half
    return _interpolated(reciprocal_roots(), place), exponent


class Interval(NamedTuple):
    """A function in an interval: its value at the beginning, and what it falls by until the end."""

    value: int
    fall: int


@cache
def reciprocals() -> tuple[Interval, ...]:
    """Return 2^31 / n in 256 intervals of n from 2^15 to 2^16."""
    ends = (2 ** (MANTISSA_BITS - 1) + (place << INTERVAL_BITS - 1) for place in range(257))
    return _intervals([_rounded(2 ** (2 * MANTISSA_BITS - 1), end) for end in ends])


@cache
def reciprocal_roots() -> tuple[Interval, ...]:
    """Return 2^23 / sqrt(n) in 128 intervals of n from 2^14 to 2^15, and in 128 from there to 2^16."""
    half = 1 << INTERVAL_BITS - 1
    ends = [(half + place) << INTERVAL_BITS - 1 for place in range(half)]
    ends += [(half + place) << INTERVAL_BITS for place in range(half + 1)]
    return _intervals([(isqrt((1 << 2 * ROOT_SHIFT + 2) // end) + 1) // 2 for end in ends])


def _intervals(ends: list[int]) -> tuple[Interval, ...]:
    greatest = (1 << MANTISSA_BITS) - 1
    held = [min(end, greatest) for end in ends]
    return tuple(Interval(begin, begin - end) for begin, end in pairwise(held))


def _rounded(number: int, divisor: int) -> int:
    return (2 * number + divisor) // (2 * divisor)


def _shifted(number: int, amount: int) -> int:
    return number >> amount if amount >= 0 else number << -amount


def _interpolated(intervals: Sequence[Interval], place: int) -> int:
    """Return the function at a place of 16 bits: 8 for the interval, 8 for the place in it."""
    interval = intervals[place >> INTERVAL_BITS]
    within = place & ((1 << INTERVAL_BITS) - 1)
    return interval.value - (interval.fall * within >> INTERVAL_BITS)


def _saturated(value: int, bits: int) -> int:
    return max(-(1 << bits - 1), min(value, (1 << bits - 1) - 1))


def normal_operands(
    parameters: Sequence[Any], first: Callable[[Any], Any] = lambda word: word
) -> NormalOperands:
    """Return the operands in the four accumulator values of a column, in the order of `NormalParameter`:
    numbers, or integer arrays.

    The first holds the addend. The second holds the factor, signed, in the low 16 bits, and the exponent of
    the count in bits 16 to 19. The third holds the count in the low 16 bits and its reciprocal in the others;
    the fourth holds epsilon.

    Args:
        first: selects column 0 of a word; exponent, count, reciprocal and epsilon are those of column 0.
    """
    addend, factor, count, epsilon = parameters
    low = (1 << MULTIPLIER_BITS) - 1
    sign = 1 << MULTIPLIER_BITS - 1
    return NormalOperands(
        addend,
        (factor & low ^ sign) - sign,
        first(count) & low,
        first(factor) >> MULTIPLIER_BITS & (COUNT_BITS - 1),
        first(count) >> COUNT_BITS & low,
        first(epsilon) & ((1 << SUM_BITS) - 1),
    )


def normal_parameters(normal: NormalOperands) -> tuple[Any, ...]:
    """Return the four accumulator values that hold `normal`, in the order of `NormalParameter`."""
    low = (1 << MULTIPLIER_BITS) - 1
    factor = normal.factor & low | normal.exponent << MULTIPLIER_BITS
    words = normal.count | normal.reciprocal << COUNT_BITS, normal.epsilon
    return normal.addend, factor, *(wrap(word, SUM_BITS) for word in words)
