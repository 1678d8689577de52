"""Integers of less than eight bits: constants become bytes, and the input of QuantizeLinear is clipped.

Source: ONNX operator specification, versions 21 to 25 of QuantizeLinear.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from vdla.compiler.graph.moves import REARRANGING
from vdla.compiler.graph.onnx.call import RefusalError

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


def check_reader(node: NodeProto, ranges: Mapping[str, tuple[int, int]]) -> None:
    """Check that an operator computes the same from bytes as from narrower integers.

    Args:
        node: the node.
        ranges: the ranges of values of less than eight bits, by the model's names.

    Raises:
        RefusalError: the node reads such a value, and is not in `READERS` or `MOVERS`.
    """
    if node.op_type in (*READERS, *MOVERS):
        return
    for name in node.input:
        if name in ranges:
            raise RefusalError(
                f"its input {name!r} is of integers of less than eight bits, which only "
                f"{', '.join((*READERS, *MOVERS))} may read"
            )


def with_clipped_input(
    node: NodeProto,
    limits: tuple[int, int],
    scale: np.ndarray | None,
    zero: np.ndarray | None,
    rank: int,
) -> Iterator[NodeProto]:
    """Yield nodes that replace a QuantizeLinear to less than eight bits by a QuantizeLinear to bytes.

    The input is first clipped to the real range of the integers: by a Clip, or by Max and Min if scales vary
    along an axis.

    Args:
        node: the QuantizeLinear.
        limits: the least and the greatest integer.
        scale, zero: its scale and zero point; None if not known.
        rank: the rank of its input.

    Raises:
        RefusalError: the scale or the zero point is not known.
    """
    if scale is None or zero is None:
        subject, place = ("scale", 1) if scale is None else ("zero point", 2)
        raise RefusalError(
            f"{subject} ({node.input[place]!r}) is computed while the network runs; with integers of less "
            "than eight bits it must be a constant"
        )
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)
    bounds = [((limit - zero.astype(np.float32)) * scale).astype(np.float32) for limit in limits]
    names = [f"{node.output[0]}.{end}" for end in ("least", "greatest")]
    steps = [("Clip", names)] if bounds[0].size == 1 else [("Max", names[:1]), ("Min", names[1:])]
    shape = [-1 if place == axis % rank else 1 for place in range(rank)] if bounds[0].size > 1 else []
    for name, bound in zip(names, bounds, strict=True):
        tensor = numpy_helper.from_array(bound.reshape(shape))
        yield helper.make_node("Constant", [], [name], node.name, value=tensor)
    yield from _chain(node, steps)


def _chain(node: NodeProto, steps: Iterable[tuple[str, list[str]]]) -> Iterator[NodeProto]:
    """Yield operators, each on the result of the operator before it and on further operands, and then `node`
    on the last result."""
    real = node.input[0]
    for op, operands in steps:
        clipped = f"{node.output[0]}.{op}"
        yield helper.make_node(op, [real, *operands], [clipped], node.name)
        real = clipped
    last = NodeProto()
    last.CopyFrom(node)
    last.input[0] = real
    yield last
