"""Parameters of softmax and normalisations in integers, and the rows for which they are exact enough.

A result differs by less than one step from the real number that it stands for, before both are rounded, so
that integers differ by at most one. In a softmax of more than about 500 values, results of the worst row may
differ by more, at most by LARGEST_ERROR: its other values all have the power that rounds worst. Without such
parameters an operator keeps its conversions.
"""

from collections.abc import Mapping
from math import sqrt
from typing import NamedTuple

import numpy as np

from vdla.compiler.graph.integers import Quantisation
from vdla.compiler.rules import Unfit
from vdla.hw.spec.normalisation import (
    COUNT_BITS,
    LEAST_VALUE,
    MANTISSA_BITS,
    MEAN_FRACTION_BITS,
    OUTPUT_SHIFT,
    POWER_BITS,
    POWER_FRACTION_BITS,
    SCALED_BITS,
    STANDARD_FRACTION_BITS,
    SUM_BITS,
    NormalOperands,
)
from vdla.hw.spec.numerics import MULTIPLIER_BITS
from vdla.runtime.host.int8_normalisation import LARGEST_SCALED, moments_operands

NORMALISATIONS: Mapping[str, bool] = {"LayerNormalization": True, "RMSNormalization": False}
"""Float operators that divide rows by a statistic; whether they subtract the mean."""
OF_ROWS: Mapping[str, str] = {
    **dict.fromkeys(NORMALISATIONS, "Int8LayerNormalization"),
    "Softmax": "Int8Softmax",
}
"""Float operators of rows, with the integer forms that they have between conversions."""
LARGEST_ERROR = 4
"""Steps by which a result of a softmax may differ in the worst row."""
LARGEST_POWER = (1 << POWER_BITS) - 1
LARGEST_FACTOR = (1 << MULTIPLIER_BITS - 1) - 1
LARGEST_ADDEND = (1 << SUM_BITS - 1) - 1
LARGEST_EPSILON = (1 << SUM_BITS) - 1
LONGEST_ROW = 1 << 2 * (SCALED_BITS - 1 - STANDARD_FRACTION_BITS)
"""Values of a row of which none is farther from the mean than a scaled value reaches."""
STEPS = 256  # of int8, beyond which results saturate
MANTISSA_ERROR = 2.0 ** -(MANTISSA_BITS - 2)  # relative


class SoftmaxParameters(NamedTuple):
    """Parameters of `Int8Softmax`."""

    powers: np.ndarray
    factor: np.ndarray
    addend: np.ndarray


class NormalParameters(NamedTuple):
    """Parameters of `Int8LayerNormalization`."""

    factors: np.ndarray
    addends: np.ndarray
    epsilon: int


def softmax_parameters(powers: np.ndarray, count: int, out: Quantisation) -> SoftmaxParameters | Unfit:
    """Return the parameters of a softmax of rows of `count` values.

    A power is divided by the sum with 16 fraction bits, rounded down; the addend makes up for the half unit.

    Args:
        powers: float32[256], `softmax_powers`.
    """
    steps = 1 / out.scale
    exact = steps * 2.0 ** (OUTPUT_SHIFT - POWER_FRACTION_BITS)
    factor = np.rint(exact)
    if factor > LARGEST_FACTOR:
        return Unfit(f"its result has a scale of {out.scale:g}, whose reciprocal is more than 16 bits hold")
    held = np.rint(powers.astype(np.float64) * LARGEST_POWER)
    error = _error_of_sums(powers.astype(np.float64), held / LARGEST_POWER, count, steps)
    error += factor / 2 ** (OUTPUT_SHIFT + 1)
    error += (MANTISSA_ERROR + abs(factor - exact) / exact) * min(steps, STEPS)
    if error >= LARGEST_ERROR:
        return Unfit(
            f"its rows have {count} values, and powers of 16 bits may change a result by {error:.1f} steps"
        )
    addend = (out.zero << OUTPUT_SHIFT) + (1 << OUTPUT_SHIFT - 1) + int(factor) // 2
    return SoftmaxParameters(
        held.astype(np.uint16), np.asarray(factor, np.int16), np.asarray(addend, np.int32)
    )


def _error_of_sums(exact: np.ndarray, held: np.ndarray, count: int, steps: float) -> float:
    """Return the steps by which rounded powers change the result of a row's greatest value at most.

    The worst row holds one greatest value, and some values at the one distance whose error counts most. The
    error grows with their number until the result is no longer saturated, or is half the largest.
    """
    errors = np.abs(held - exact)
    with np.errstate(divide="ignore", invalid="ignore"):
        halved, reached = 1 / exact, max(steps / STEPS - 1, 0) / exact
    worst = 0.0
    for others in (np.full_like(exact, np.inf), halved, reached):
        number = np.nan_to_num(others, posinf=np.inf).clip(0, count - 1)
        total = 1 + number * exact
        worst = max(worst, float((np.minimum(steps / total, STEPS) * number * errors / total).max()))
    return worst


def normal_parameters(
    weights: np.ndarray,
    bias: np.ndarray,
    epsilon: float,
    scale: float,
    out: Quantisation,
    *,
    centred: bool = True,
) -> NormalParameters | Unfit:
    """Return the parameters of a normalisation of rows of multiples of `scale`.

    Results differ by at most one if the deviation of the row is at least one step of x. Means have 8 fraction
    bits, so that rows of smaller deviations lose more. Rows without a mean do not. A value that is divided by
    the deviation is rounded down; the addend makes up for the half unit.

    Args:
        weights, bias: float64[c].
        centred: the mean is subtracted. If not, rows are divided by their root mean square.
    """
    count = weights.size
    if not 0 < count <= LONGEST_ROW:
        return Unfit(f"its rows have {count} values; integers hold 1 to {LONGEST_ROW}")
    added = epsilon * count**2 / scale**2
    if not 0 <= np.rint(added) <= LARGEST_EPSILON:
        return Unfit(f"its epsilon of {epsilon:g} does not suit the scale of its input, {scale:g}")
    normal = moments_operands(count, round(added), centred)
    exact = _factors_of_one(weights) / out.scale
    factors = np.rint(exact)
    zeros = np.rint((bias / out.scale + out.zero) * 2.0**OUTPUT_SHIFT)
    addends = zeros + 2 ** (OUTPUT_SHIFT - 1) + factors // 2
    if not np.abs(factors).max() <= LARGEST_FACTOR or not np.abs(addends).max() <= LARGEST_ADDEND:
        return Unfit(f"its weights or biases are large against the scale of its result, {out.scale:g}")
    farthest = min(sqrt(count) * 2.0 ** (STANDARD_FRACTION_BITS + normal.exponent) / count, LARGEST_SCALED)
    error = float(np.abs(factors - exact).max()) * farthest / 2**OUTPUT_SHIFT
    error += float(np.abs(factors).max()) / 2 ** (OUTPUT_SHIFT + 1)
    error += _error_of_statistics(normal, added, float(np.abs(weights).max()) / out.scale)
    if error >= 1:
        return Unfit(f"its rows have {count} values, and integers may change a result by {error:.1f} steps")
    return NormalParameters(factors.astype(np.int16), addends.astype(np.int32), round(added))


def finest_scales(weights: np.ndarray) -> np.ndarray:
    """Return float64[c], the least scale of the result for which 16 bits hold the factor of each column.

    Args:
        weights: float32[c] or float64[c].
    """
    scales: np.ndarray = np.abs(_factors_of_one(weights)) / LARGEST_FACTOR
    return scales


def _factors_of_one(weights: np.ndarray) -> np.ndarray:
    """Return the factors for a result of scale 1, float64[c]."""
    exponent = weights.size.bit_length() - 1
    fraction = 2.0 ** (OUTPUT_SHIFT - STANDARD_FRACTION_BITS - exponent)
    factors: np.ndarray = weights.astype(np.float64) * weights.size * fraction
    return factors


def _error_of_statistics(normal: NormalOperands, epsilon: float, gain: float) -> float:
    """Return the steps by which the rounding of a row's mean and deviation change a result at most, if the
    deviation is at least one step of x. Without a reciprocal of the count, the mean is 0.

    Args:
        epsilon: what `normal.epsilon` rounds.
        gain: the greatest weight of a column, in steps of the result. A value at the distance of one
            standard deviation from the mean gives a result so many steps from the column's bias.
    """
    inverse: float = normal.reciprocal * normal.count / 2.0 ** (COUNT_BITS + normal.exponent)
    mean = 2.0 ** -(MEAN_FRACTION_BITS + 1) + abs(inverse - 1) * -LEAST_VALUE if normal.reciprocal else 0.0
    deviation: float = MANTISSA_ERROR + abs(normal.epsilon - epsilon) / (2 * normal.count**2)
    return gain * mean + deviation * min(gain * sqrt(normal.count), STEPS)
