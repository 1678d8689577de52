"""Requantisation of whole arrays; `vdla.hw.spec.numerics.requantise` is the definition."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec.numerics import BYTE_BITS, MULTIPLIER_BITS, SHIFT_BITS


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
    byte = (1 << BYTE_BITS) - 1
    low = np.asarray(shift) | (np.asarray(zero) & byte) << BYTE_BITS
    clip = np.asarray(least) & byte | (np.asarray(greatest) & byte) << BYTE_BITS
    return np.stack(np.broadcast_arrays(bias, multiplier, low, clip)).astype(np.int64)


def requantise(values: np.ndarray, parameters: Iterable[np.ndarray], bits: int = 32) -> NDArray[np.int8]:
    """Return int8[...]: accumulators of `bits` bits requantised by int[4, ...] that broadcasts against
    them."""
    bias, multiplier, low, clip = (np.asarray(row, np.int64) for row in parameters)
    product = _wrapped(np.asarray(values, np.int64) + bias, bits) * (
        multiplier & ((1 << MULTIPLIER_BITS) - 1)
    )
    shift = low & ((1 << SHIFT_BITS) - 1)
    scaled = (((product << 1) >> shift) + 1) >> 1  # half of 2^63 would not fit
    zero, least, greatest = (
        _wrapped(byte, BYTE_BITS) for byte in (low >> BYTE_BITS, clip, clip >> BYTE_BITS)
    )
    clipped: NDArray[np.int64] = np.maximum(np.minimum(scaled + zero, greatest), least)
    return clipped.astype(np.int8)


def _wrapped(values: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Return int64[...]: values reduced to `bits` bits of two's complement."""
    return (values << (64 - bits)) >> (64 - bits)
