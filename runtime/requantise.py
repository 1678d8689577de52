"""Requantisation of whole arrays; `vdla.hw.spec.numerics.requantise` is the definition."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec.numerics import requantise_operands, requantise_parameters


def parameter_words(
    bias: np.ndarray,
    multiplier: np.ndarray,
    shift: np.ndarray,
    zero: np.ndarray | int = 0,
    least: np.ndarray | int = -128,
    greatest: np.ndarray | int = 127,
) -> np.ndarray:
    """Return int64[4, ...]: the parameters of each channel, in the order of `Parameter`, of arrays that
    broadcast together."""
    arrays = map(np.asarray, (bias, multiplier, shift, zero, least, greatest))
    return np.stack(np.broadcast_arrays(*requantise_parameters(*arrays))).astype(np.int64)


def requantise(values: np.ndarray, parameters: Iterable[np.ndarray], bits: int = 32) -> NDArray[np.int8]:
    """Return int8[...]: accumulators of `bits` bits requantised by int[4, ...] that broadcasts against
    them."""
    words = [np.asarray(row, np.int64) for row in parameters]
    bias, multiplier, shift, zero, least, greatest = requantise_operands(words)
    product = _wrapped(np.asarray(values, np.int64) + bias, bits) * multiplier
    scaled = (((product << 1) >> shift) + 1) >> 1  # half of 2^63 would not fit
    clipped: NDArray[np.int64] = np.maximum(np.minimum(scaled + zero, greatest), least)
    return clipped.astype(np.int8)


def _wrapped(values: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Return int64[...]: values reduced to `bits` bits of two's complement."""
    return (values << (64 - bits)) >> (64 - bits)
