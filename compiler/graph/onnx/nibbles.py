"""Integers of less than eight bits: constants become bytes, and the input of QuantizeLinear is clipped.

Source: ONNX operator specification, versions 21 to 25 of QuantizeLinear.
"""

from collections.abc import Mapping

import numpy as np
from onnx import NodeProto, TensorProto, helper

from vdla.compiler.graph.moves import REARRANGING
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.foreign import ForeignNode, OnnxNode

RANGES: Mapping[str, tuple[int, int]] = {
    "int2": (-2, 1),
    "int4": (-8, 7),
    "uint2": (0, 3),
    "uint4": (0, 15),
}
READERS = ("Cast", "DequantizeLinear", "QuantizeLinear", "Shape", "Size")  # compute the same from bytes
MOVERS = ("Identity", *REARRANGING)  # whose results have the range of their input


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


def quantised(node: ForeignNode, limits: tuple[int, int]) -> list[OnnxNode]:
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
    out = node.proto.output[0]
    node.add("QuantizeLinear", clipped, *node.inputs[1:], out=out, opset=node.opset, **node.attributes)
    return node.steps
