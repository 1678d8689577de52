"""Narrow values as they stand in DRAM: low bits of a byte first."""

import numpy as np
from numpy.typing import NDArray


def pack_values(values: NDArray[np.int8], bits: int) -> NDArray[np.uint8]:
    """Return uint8[n * bits / 8]: the low `bits` bits (2, 4 or 8) of each of n int8 values, in memory
    order."""
    flat = np.ascontiguousarray(values, np.int8).reshape(-1).view(np.uint8)
    if bits == 8:
        return flat
    fields = (flat & ((1 << bits) - 1)).reshape(-1, 8 // bits)
    packed: NDArray[np.uint8] = np.bitwise_or.reduce(fields << np.arange(0, 8, bits, dtype=np.uint8), axis=1)
    return packed


def unpack_values(data: NDArray[np.uint8], bits: int) -> NDArray[np.int8]:
    """Return int8[n * 8 / bits]: the signed values in uint8[n]."""
    raised = data.reshape(-1, 1) << (8 - bits - np.arange(0, 8, bits)).astype(np.uint8)
    return (raised.astype(np.uint8).view(np.int8) >> (8 - bits)).reshape(-1)
