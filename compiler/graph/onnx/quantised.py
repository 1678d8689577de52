"""Import of QuantizeLinear and DequantizeLinear, with an explicit zero point.

Integers of less than eight bits become bytes, and the input of their QuantizeLinear is clipped. Constants
with a scale for each block of elements are dequantised.

Source: ONNX operator specification, versions 10 to 25; ONNX Runtime contrib operators, MatMulNBits.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from vdla.compiler.graph.nodes import REARRANGING
from vdla.compiler.graph.onnx.call import ForeignNode, Form, Importer, OnnxCall, OnnxNode, RefusalError

BYTE_BITS = 8
WIDTHS = (2, 4, 8)
RANGES: Mapping[str, tuple[int, int]] = {
    "int2": (-2, 1),
    "int4": (-8, 7),
    "uint2": (0, 3),
    "uint4": (0, 15),
}
READERS = ("Cast", "DequantizeLinear", "QuantizeLinear", "Shape", "Size")  # compute the same from bytes
MOVERS = ("Identity", *REARRANGING)  # whose results have the range of their input


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
    if call.input(2) and call.input_type(2).size != scale.size:
        raise RefusalError(f"zero point {call.input_type(2)} does not match scale {scale}")
    integers = call.output_type if call.op == "QuantizeLinear" else call.input_type(0)
    point = call.input(2) or np.zeros(scale.shape, integers.dtype)
    return Form(call.op, (*call.inputs[:2], point), {"axis": axis})


# Integers of less than eight bits


def as_bytes(array: np.ndarray) -> np.ndarray:
    """Return integers of less than eight bits as int8 or uint8; other arrays unchanged."""
    kind = str(array.dtype)
    return array if kind not in RANGES else array.astype(np.int8 if RANGES[kind][0] else np.uint8)


def narrow_tensor(name: str, array: np.ndarray, limits: tuple[int, int]) -> TensorProto:
    """Return a constant of bytes as the narrower integers with the range `limits` that the model has."""
    (kind,) = (kind for kind, each in RANGES.items() if each == limits)
    return helper.make_tensor(name, getattr(TensorProto, kind.upper()), array.shape, array.ravel())


def range_of_result(node: NodeProto, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int] | None:
    """Return the range of a node's result; None if the result is not of less than eight bits.

    Args:
        node: the node.
        ranges: the ranges of values of less than eight bits, by the model's names.

    Raises:
        RefusalError: the node reads such a value, and does not compute the same from bytes.
    """
    narrow = [name for name in node.input if name in ranges]
    if narrow and node.op_type not in (*READERS, *MOVERS):
        raise RefusalError(
            f"its input {narrow[0]!r} is of integers of less than eight bits, which only "
            f"{', '.join((*READERS, *MOVERS))} may read"
        )
    place = {"QuantizeLinear": 2, **dict.fromkeys(MOVERS, 0)}.get(node.op_type, len(node.input))
    return ranges.get(node.input[place]) if place < len(node.input) else None


def clip(
    node: ForeignNode,
    name: str,
    limits: tuple[int, int],
    scale: np.ndarray,
    zero: np.ndarray,
    axis: int,
) -> str:
    """Clip a value to the real range of integers before a QuantizeLinear to bytes; return the result's name.

    The expansion gets a Clip, or a Max and a Min if scales vary along an axis.

    Args:
        node: the node whose expansion quantises the value.
        name: the value, of the type of the node's first input.
        limits: the least and the greatest integer.
        scale, zero: the scale and the zero point.
        axis: the dimension along which they vary.
    """
    rank = len(node.input_type(0).shape)
    low, high = (((limit - zero.astype(np.float32)) * scale).astype(np.float32) for limit in limits)
    if low.size == 1:
        return node.add("Clip", name, low.reshape(()), high.reshape(()))
    shape = [-1 if place == axis % rank else 1 for place in range(rank)]
    return node.add("Min", node.add("Max", name, low.reshape(shape)), high.reshape(shape))


def clipped_quantisation(node: ForeignNode, limits: tuple[int, int]) -> list[OnnxNode]:
    """Return the nodes that replace a QuantizeLinear to integers of less than eight bits.

    Args:
        node: the QuantizeLinear.
        limits: the least and the greatest integer.

    Raises:
        RefusalError: the scale or the zero point is not known.
    """
    for place, role in ((1, "scale"), (2, "zero point")):
        if node.values[place] is None:
            raise RefusalError(
                f"{role} ({node.input(place)!r}) is computed while the network runs; with integers of less "
                "than eight bits it must be a constant"
            )
    scale, zero = node.known(1, "scale"), node.known(2, "zero point")
    clipped = clip(node, node.input(0), limits, scale, zero, node.integer("axis", 1))
    out, given = node.proto.output[0], dict[str, Any](node.attributes)
    node.add("QuantizeLinear", clipped, *node.inputs[1:], out=out, opset=node.opset, **given)
    return node.steps


# Constants with a scale for each block of elements


def dequantised_blocks(call: OnnxCall) -> np.ndarray:
    """Return the dequantised constant of a DequantizeLinear with a scale for each block."""
    if call.op == "QuantizeLinear":
        call.require("block_size", 0)
    integers, scales = call.known(0, "x"), call.known(1, "x_scale")
    points = call.known(2, "x_zero_point") if call.input(2) else None
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
