"""Scales as integers: multipliers and shifts for requantisation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.nodes import Attribute
from vdla.hw.spec.numerics import MULTIPLIER_BITS, SHIFT_BITS
from vdla.runtime.requantise import parameter_words

LEAST, GREATEST = -128, 127
FACTOR_BITS = 15  # of the factor of each operand of a sum, without its sign
LARGEST_BIAS = 1 << 30  # leaves room for the sums
SUM_BITS = 32
LARGEST_RATIO = 64  # of scales in a sum
LARGEST_SHIFT = (1 << SHIFT_BITS) - 1
LARGEST_MULTIPLE = 1 << MULTIPLIER_BITS - 1  # of the ratio of scales in a requantisation


def plain_convolution(rank: int) -> Mapping[str, Attribute]:
    """Return the attributes of an Int8Conv of `rank` spatial dimensions without border, steps and groups."""
    unit_steps, no_pads = (1,) * rank, (0,) * (2 * rank)
    return {"border": 0, "dilations": unit_steps, "group": 1, "pads": no_pads, "strides": unit_steps}


POINTWISE = plain_convolution(2)
"""Attributes of an Int8Conv of single pixels."""


@dataclass(frozen=True, slots=True)
class Quantisation:
    """The real numbers that an int8 tensor represents: (value - zero) * scale.

    Attributes:
        scale: the real difference between adjacent integers.
        zero: the zero point.
        least, greatest: the stored values are clipped to least..greatest.
    """

    scale: float
    zero: int
    least: int = LEAST
    greatest: int = GREATEST

    def bounded(self, low: float, high: float) -> "Quantisation":
        """Return this quantisation with its bounds clipped to the real range `low`..`high`."""
        low, high = self.stored(min(low, high)), self.stored(high)
        return replace(
            self,
            least=min(max(self.least, low), self.greatest),
            greatest=max(min(self.greatest, high), self.least),
        )

    def stored(self, real: float) -> int:
        """Return the int8 value nearest to a real number, which may be infinite."""
        return int(np.clip(np.rint(real / self.scale) + self.zero, LEAST, GREATEST))


def fits_multiplier(ratios: np.ndarray) -> bool:
    """Whether a multiplier and a shift can represent every ratio."""
    return bool((np.isfinite(ratios) & (ratios > 0) & (ratios < LARGEST_MULTIPLE)).all())


def multiplier_and_shift(ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return int64[n] multipliers and shifts with ratio = multiplier / 2^shift to 16 bits.

    Raises:
        ValueError: a ratio is not positive, not finite or not below `LARGEST_MULTIPLE`.
    """
    ratios = np.asarray(ratios, np.float64).reshape(-1)
    if not fits_multiplier(ratios):
        raise ValueError(f"scales make a ratio of {ratios.max():g}, which is outside 0..{LARGEST_MULTIPLE}")
    shifts = np.minimum(MULTIPLIER_BITS - np.frexp(ratios)[1], LARGEST_SHIFT)
    multipliers = np.rint(np.ldexp(ratios, shifts)).astype(np.int64)
    over = multipliers >> MULTIPLIER_BITS  # rounded up to the next power of two
    return multipliers >> over, shifts - over


def scaling(ratios: np.ndarray, bias: np.ndarray | int, out: Quantisation) -> np.ndarray:
    """Return the requantisation parameters int64[4, n] for outputs (sum + bias) * ratio.

    Raises:
        ValueError: a ratio is out of range.
    """
    multipliers, shifts = multiplier_and_shift(ratios)
    return parameter_words(
        np.asarray(bias, np.int64).reshape(-1), multipliers, shifts, out.zero, out.least, out.greatest
    )


@dataclass(frozen=True, slots=True)
class IntegerProduct:
    """An integer product with constant weights.

    Attributes:
        weights: int16[n, k], of up to nine bits.
        scales: float64[n], of the products of each output channel.
        bias: float64[n], integers in units of `scales`.
    """

    weights: np.ndarray
    scales: np.ndarray
    bias: np.ndarray

    def reach(self, inp: Quantisation) -> float:
        """Return the largest possible magnitude of an accumulated sum."""
        farthest = max(inp.zero - LEAST, GREATEST - inp.zero)
        magnitudes = np.abs(self.weights).sum(1, dtype=np.int64)
        return float((magnitudes * farthest + np.abs(self.bias)).max())

    def parameters(self, inp: Quantisation, out: Quantisation) -> np.ndarray:
        """Return the requantisation parameters int64[4, n] of the sums.

        Raises:
            ValueError: a sum could overflow the accumulator, or a ratio is out of range.
        """
        reach = self.reach(inp)
        if not fits_sum(reach):
            raise ValueError(f"sums of up to {reach:g} do not fit {SUM_BITS} bits")
        offset = self.bias.astype(np.int64) - inp.zero * self.weights.sum(1, dtype=np.int64)
        return scaling(self.scales / out.scale, offset, out)


def fits_sum(reach: float) -> bool:
    """Whether sums of magnitude `reach` fit the accumulator."""
    return reach < 1 << SUM_BITS - 1


def integer_product(weights: np.ndarray, scales: np.ndarray, bias: np.ndarray) -> IntegerProduct:
    """Return an integer product whose bias fits the accumulator.

    A row of weights that is tiny relative to its bias is rounded to a coarser scale.

    Args:
        weights: int16[n, k].
        scales: float64[n], of the products, greater than 0.
        bias: float64[n], real numbers.
    """
    coarse = np.maximum(scales, np.abs(bias) / LARGEST_BIAS)
    coarser = coarse != scales
    rounded = weights.astype(np.int16)
    if coarser.any():
        rounded[coarser] = np.rint(weights[coarser] * (scales / coarse)[coarser, None]).astype(np.int16)
    return IntegerProduct(rounded, coarse, np.rint(bias / coarse))


def fits_factor(ratios: Sequence[float]) -> bool:
    """Whether `FACTOR_BITS`-bit factors can represent the ratios of scales in a sum."""
    return 0 < max(ratios) < LARGEST_RATIO


def factors_and_shift(ratios: Sequence[float]) -> tuple[tuple[int, ...], int]:
    """Return `FACTOR_BITS`-bit factors and their common shift, with ratio = factor / 2^shift.

    The shift is the largest that the greatest ratio allows.

    Raises:
        ValueError: a ratio is so large that rounding the factors could change a sum of two bytes by 1.
    """
    if not fits_factor(ratios):
        raise ValueError(f"scales make a ratio of {max(ratios):g}, which is outside 0..{LARGEST_RATIO}")
    shift = min(FACTOR_BITS - int(np.frexp(max(ratios))[1]), LARGEST_SHIFT)
    factors = tuple(int(np.rint(np.ldexp(ratio, shift))) for ratio in ratios)
    if max(factors) >> FACTOR_BITS:
        return tuple(int(np.rint(np.ldexp(ratio, shift - 1))) for ratio in ratios), shift - 1
    return factors, shift


def signed_bytes(weights: np.ndarray) -> list[np.ndarray]:
    """Return the fewest arrays of int8 that sum up to an array of whole numbers."""
    parts: list[np.ndarray] = []
    rest = weights.astype(np.int64)
    while rest.any() or not parts:
        parts.append(np.clip(rest, LEAST, GREATEST).astype(np.int8))
        rest = rest - parts[-1]
    return parts
