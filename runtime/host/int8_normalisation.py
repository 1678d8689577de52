"""Softmax and layer normalisation of int8 rows in integers, as NORMALISE computes them.

The functions are the arithmetic of `vdla.hw.spec.normalisation` on arrays, with its constants and intervals.
Results differ by at most one from the results of the operators Softmax and LayerNormalization of onnxruntime
between DequantizeLinear and QuantizeLinear. `vdla.compiler.graph.integer_forms.normalisation` derives the
parameters, and states the rows for which the bound holds.
"""

from collections.abc import Sequence

import numpy as np

from vdla.hw.spec.normalisation import (
    COUNT_BITS,
    INTERVAL_BITS,
    MANTISSA_BITS,
    MEAN_FRACTION_BITS,
    OUTPUT_SHIFT,
    POWER_SHIFT,
    SCALED_BITS,
    STANDARD_SHIFT,
    Interval,
    NormalOperands,
    count_operands,
    reciprocal_roots,
    reciprocals,
)
from vdla.runtime.host.normalisation import below_greatest

LEAST, GREATEST = -128, 127
LARGEST_COUNT = (1 << COUNT_BITS) - 1
LARGEST_SCALED = (1 << SCALED_BITS - 1) - 1


def int8_softmax(
    x: np.ndarray, powers: np.ndarray, factor: np.ndarray, addend: np.ndarray, *, axis: int
) -> np.ndarray:
    """Return the softmax of int8[...] along `axis` as int8[...].

    Args:
        powers: uint16[256], a power for each distance from the greatest value of a row.
        factor, addend: int16[] and int32[]: an output is floor((2^16 power / sum * factor + addend) / 2^18).
    """
    power = powers[below_greatest(x, axis)]
    mantissas, exponents = _reciprocals(power.sum(-1, keepdims=True, dtype=np.uint32))
    shifts = POWER_SHIFT + exponents
    scaled = power.astype(np.uint32)  # which holds products of 16 by 16 bits
    scaled *= mantissas.astype(np.uint32)
    scaled >>= shifts.astype(np.uint32)
    np.minimum(scaled, LARGEST_SCALED, out=scaled)
    outputs = _outputs(scaled.view(np.int32), factor, addend)
    return np.ascontiguousarray(np.moveaxis(outputs, -1, axis))


def int8_layer_normalization(
    x: np.ndarray, factors: np.ndarray, addends: np.ndarray, *, epsilon: int, centred: int
) -> np.ndarray:
    """Normalise int8[..., c] over its last dimension; return int8[..., c].

    Args:
        factors, addends: int16[c] and int32[c]: an output is floor((normal * factor + addend) / 2^18), where
            `normal` is a value that is divided by its row's deviation, with 10 fraction bits.
        epsilon: what is added to c^2 times the variance, 32 bits, unsigned.
        centred: 1: a row's mean is subtracted. 0: values are divided by the root of their mean square.
    """
    normal = moments_operands(x.shape[-1], epsilon, centred)
    values = x.astype(np.int32)
    totals = values.sum(-1, keepdims=True, dtype=np.int64)
    squares = np.einsum("...i,...i->...", values, values)[..., None].astype(np.int64)
    subtracted = totals * totals if centred else 0
    spreads = np.maximum(normal.count * squares - subtracted + normal.epsilon, 0)
    mantissas, exponents = _reciprocal_roots(spreads)
    shifts = STANDARD_SHIFT - normal.exponent + exponents
    values <<= MEAN_FRACTION_BITS
    values -= _means(totals, normal).astype(np.int32)
    scaled = values * mantissas  # of 33 bits
    scaled >>= np.maximum(shifts, 0)
    np.clip(scaled, -LARGEST_SCALED - 1, LARGEST_SCALED, out=scaled)
    return _outputs(scaled.astype(np.int32), factors, addends)


def moments_operands(count: int, epsilon: int, centred: int) -> NormalOperands:
    """Return the operands of a row of `count` values, with factor and addend 0.

    Raises:
        ValueError: the row is empty, or longer than 65535.
    """
    if not 0 < count <= LARGEST_COUNT:
        raise ValueError(f"a row has {count} values, which is outside 1..{LARGEST_COUNT}")
    return NormalOperands(0, 0, *count_operands(count, centred=bool(centred)), epsilon)


def _means(totals: np.ndarray, normal: NormalOperands) -> np.ndarray:
    """Return the means of rows, times 2^8."""
    shift = COUNT_BITS + normal.exponent - MEAN_FRACTION_BITS
    means: np.ndarray = totals * normal.reciprocal + (1 << shift - 1) >> shift
    return means


def _outputs(scaled: np.ndarray, factors: np.ndarray, addends: np.ndarray) -> np.ndarray:
    """Return int32[...] times factors plus addends, without their fraction bits, bounded, as int8[...]."""
    reach = (LARGEST_SCALED + 1) * _greatest(factors) + _greatest(addends)
    outputs = scaled if reach < 1 << 31 else scaled.astype(np.int64)
    outputs *= factors
    outputs += addends
    outputs >>= OUTPUT_SHIFT
    return np.clip(outputs, LEAST, GREATEST, out=outputs).astype(np.int8)


def _greatest(values: np.ndarray) -> int:
    """Return the greatest magnitude."""
    return int(np.abs(values.astype(np.int64)).max(initial=0))


def _reciprocals(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mantissas and exponents of reciprocals, as `normalisation.reciprocal` does; the mantissa of 0
    is 0."""
    numbers = numbers.astype(np.int64)
    exponents = _bit_lengths(numbers) - MANTISSA_BITS
    places = (_shifted(numbers, exponents) << 1) & ((1 << 2 * INTERVAL_BITS) - 1)
    return _interpolated(reciprocals(), places) * (numbers > 0), exponents


def _reciprocal_roots(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mantissas and exponents of reciprocal roots, as `normalisation.reciprocal_root` does; the
    mantissa of 0 is 0."""
    exponents = -((MANTISSA_BITS - _bit_lengths(numbers)) // 2)
    mantissas, half = _shifted(numbers, 2 * exponents), 1 << MANTISSA_BITS - 1
    places = np.where(mantissas >= half, mantissas, (mantissas << 1) - half)
    return _interpolated(reciprocal_roots(), places) * (numbers > 0), exponents


def _bit_lengths(numbers: np.ndarray) -> np.ndarray:
    """Return the bits of numbers below 2^53, which are not negative, as int64."""
    return np.frexp(numbers.astype(np.float64))[1].astype(np.int64)


def _shifted(numbers: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    shifted: np.ndarray = (numbers >> np.maximum(amounts, 0)) << np.maximum(-amounts, 0)
    return shifted


def _interpolated(intervals: Sequence[Interval], places: np.ndarray) -> np.ndarray:
    """Return a function at places of 16 bits, as `normalisation._interpolated` does."""
    values, falls = np.array(intervals, np.int64).T
    numbers, within = places >> INTERVAL_BITS, places & ((1 << INTERVAL_BITS) - 1)
    interpolated: np.ndarray = values[numbers] - (falls[numbers] * within >> INTERVAL_BITS)
    return interpolated


OPERATORS = {
    "Int8LayerNormalization": int8_layer_normalization,
    "Int8Softmax": int8_softmax,
}
