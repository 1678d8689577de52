"""Import of QuantizeLinear and DequantizeLinear, with an explicit zero point; constants with a scale for each
block of elements are dequantised.

Source: ONNX operator specification, versions 10 to 25; ONNX Runtime contrib operators, MatMulNBits.
"""

import numpy as np

from vdla.compiler.graph.onnx.call import Form, Importer, OnnxCall, RefusalError

BYTE_BITS = 8
WIDTHS = (2, 4, 8)


def quantisation(call: OnnxCall) -> Form | np.ndarray:
    """Add a missing zero point of 0; the axis is 0 if the scale is a scalar."""
    call.require("precision", 0, 1)  # float32
    if call.integer("block_size", 0):
        return dequantised_blocks(call)
    scale, axis = call.input_type(1), 0
    if scale.size > 1:
        axis = call.axis()
        if scale.shape != (call.shape[axis],):
            raise RefusalError(
                f"scale {scale} is neither one number nor one for each of the {call.shape[axis]} of axis "
                f"{axis}"
            )
    if call.has(2) and call.input_type(2).size != scale.size:
        raise RefusalError(f"zero point {call.input_type(2)} does not match scale {scale}")
    integers = call.output_type if call.op == "QuantizeLinear" else call.input_type(0)
    point = call.inputs[2] if call.has(2) else np.zeros(scale.shape, integers.dtype)
    return Form(call.op, (*call.inputs[:2], point), {"axis": axis})


def dequantised_blocks(call: OnnxCall) -> np.ndarray:
    """Return the dequantised constant of a DequantizeLinear with a scale for each block."""
    if call.op == "QuantizeLinear":
        call.require("block_size", 0)
    integers, scales = call.known(0, "x"), call.known(1, "x_scale")
    points = call.known(2, "x_zero_point") if call.has(2) else None
    return dequantise_blocks(integers, scales, points, call.axis(), call.integer("block_size"))


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
    integers = _unpacked(packed.reshape(n, -1), bits).reshape(n, blocks * block)[:, :k]
    zeros = _zero_points(points, n, blocks, bits)
    return np.ascontiguousarray(dequantise_blocks(integers, scales.reshape(n, blocks), zeros, 1, block).T)


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


IMPORTERS: dict[str, Importer] = {"DequantizeLinear": quantisation, "QuantizeLinear": quantisation}
