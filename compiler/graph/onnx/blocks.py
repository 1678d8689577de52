"""Dequantisation of constants with a scale for each block of elements.

Source: ONNX operator specification, DequantizeLinear; ONNX Runtime contrib operators, MatMulNBits.
"""

import numpy as np

from vdla.compiler.graph.onnx.call import RefusalError

BYTE_BITS = 8
WIDTHS = (2, 4, 8)


def dequantise_blocks(
    integers: np.ndarray, scales: np.ndarray, points: np.ndarray | None, axis: int, block: int
) -> np.ndarray:
    """Return `integers` as float32; `block` elements along `axis` share a scale and a zero point.

    Raises:
        RefusalError: the block size is negative, or scales or zero points have another shape.
    """
    if block < 1:
        raise RefusalError(f"attribute block_size = {block} is negative")
    size = integers.shape[axis]
    wanted = tuple(
        -(-size // block) if place == axis else extent for place, extent in enumerate(integers.shape)
    )
    if scales.shape != wanted or (points is not None and points.shape != wanted):
        raise RefusalError(
            f"scale or zero point {scales.shape} is not one for each block of {block} along axis {axis}: "
            f"{wanted}"
        )

    def widened(array: np.ndarray) -> np.ndarray:
        return np.repeat(array, block, axis).take(np.arange(size), axis)

    wide = integers.astype(np.float32)
    if points is not None:
        wide -= widened(points).astype(np.float32)
    return wide * widened(scales).astype(np.float32)


def unpacked_weights(
    packed: np.ndarray, scales: np.ndarray, points: np.ndarray | None, k: int, n: int, bits: int, block: int
) -> np.ndarray:
    """Return the weights float32[k, n] of a MatMulNBits.

    Args:
        packed: uint8[n, blocks, block * bits / 8], the first integer of a byte in its low bits.
        scales: n * blocks elements.
        points: zero points, packed likewise or as real numbers; None: the middle of the integer range.

    Raises:
        RefusalError: the width or block size is not supported, or an array has another number of elements.
    """
    if bits not in WIDTHS or block < 1 or block * bits % BYTE_BITS or packed.dtype != np.uint8:
        raise RefusalError(
            f"{packed.dtype} of {bits} bits in blocks of {block} is not supported; uint8 of 2, 4 or 8 bits "
            "is, in blocks of whole bytes"
        )
    blocks = -(-k // block)
    if packed.size != n * blocks * block * bits // BYTE_BITS or scales.size != n * blocks:
        raise RefusalError(
            f"B has {packed.size} bytes and scales {scales.size} elements; K = {k}, N = {n} and block_size = "
            f"{block} need {n * blocks * block * bits // BYTE_BITS} and {n * blocks}"
        )
    integers = _unpacked(packed.reshape(n, -1), bits).reshape(n, blocks * block).astype(np.float32)
    zeros = _zero_points(points, n, blocks, bits)
    wide = (integers.reshape(n, blocks, block) - zeros[..., None]) * scales.reshape(n, blocks, 1)
    return np.ascontiguousarray(wide.reshape(n, -1)[:, :k].T.astype(np.float32))


def _zero_points(points: np.ndarray | None, n: int, blocks: int, bits: int) -> np.ndarray:
    """Return the zero points as float32[n, blocks]."""
    if points is None:
        return np.full((n, blocks), 1 << bits - 1, np.float32)
    if points.dtype == np.uint8 and points.size == n * -(-blocks * bits // BYTE_BITS):
        return _unpacked(points.reshape(n, -1), bits)[:, :blocks].astype(np.float32)
    if points.size != n * blocks:
        raise RefusalError(f"zero_points has {points.size} elements; {n * blocks} blocks have one each")
    return points.reshape(n, blocks).astype(np.float32)


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """Return the `bits`-bit integers of each row of bytes."""
    shifts = np.arange(0, BYTE_BITS, bits, dtype=np.uint8)
    parts = packed[..., None] >> shifts & np.uint8((1 << bits) - 1)
    return parts.reshape(len(packed), -1)
