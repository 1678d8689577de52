"""Expansion of ONNX Runtime's quantised contrib operators into ONNX operators between conversions.

`QLinearSigmoid(x) -> y` becomes `QuantizeLinear(Sigmoid(DequantizeLinear(x)))`, so quantised networks have
the same form whichever tool wrote them.

Source: ONNX Runtime, ContribOperators.md.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from vdla.compiler.graph.onnx.blocks import unpacked_weights
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.foreign import OPSET, Expansion, ForeignNode, ForeignOperator, OnnxNode

OPSET_OF_WORDS = 21  # whose conversions support 16-bit integers, too
BEFORE_AXIS = 12  # up to this version, a Softmax flattens all dimensions from its axis on


# Expansions


def _conversion(node: ForeignNode) -> Iterator[OnnxNode]:
    proto = node.proto
    names = [name for name in proto.input if name]
    yield node.operator(proto.op_type, names, node.out, OPSET_OF_WORDS, **node.attributes)


def _plain(op: str, *kept: str) -> Expansion:
    """Return the expansion of an operator with a single quantised operand.

    Args:
        op: the ONNX operator.
        kept: the attributes to pass to it.
    """

    def expand(node: ForeignNode) -> Iterator[OnnxNode]:
        attributes = {name: value for name, value in node.attributes.items() if name in kept}
        yield node.dequantised(0, node.temporary("real"))
        yield node.operator(op, [node.temporary("real")], node.temporary("sum"), **attributes)
        yield from node.requantised(3)

    return expand


def _pair(op: str) -> Expansion:
    """Return the expansion of an operator with two quantised operands into the ONNX operator `op`."""

    def expand(node: ForeignNode) -> Iterator[OnnxNode]:
        names = [node.temporary("left"), node.temporary("right")]
        yield node.dequantised(0, names[0])
        yield node.dequantised(3, names[1])
        yield node.operator(op, names, node.temporary("sum"))
        yield from node.requantised(6)

    return expand


def _softmax(node: ForeignNode) -> Iterator[OnnxNode]:
    opset = OPSET if node.integer("opset", OPSET) > BEFORE_AXIS else BEFORE_AXIS - 1
    axis = node.integer("axis", -1 if opset == OPSET else 1)
    yield node.dequantised(0, node.temporary("real"))
    yield node.operator("Softmax", [node.temporary("real")], node.temporary("sum"), opset, axis=axis)
    yield from node.requantised(3)


def _concat(node: ForeignNode) -> Iterator[OnnxNode]:
    places = range(2, len(node.proto.input), 3)
    names = [node.temporary(f"part{number}") for number in range(len(places))]
    for place, name in zip(places, names, strict=True):
        yield node.dequantised(place, name)
    yield node.operator("Concat", names, node.temporary("sum"), axis=node.integer("axis", 0))
    yield from node.requantised(0, like=2)


def _where(node: ForeignNode) -> Iterator[OnnxNode]:
    names = [node.temporary("left"), node.temporary("right")]
    yield node.dequantised(1, names[0])
    yield node.dequantised(4, names[1])
    yield node.operator("Where", [node.input(0), *names], node.temporary("sum"))
    yield from node.requantised(7, like=1)


def _gemm(node: ForeignNode) -> Iterator[OnnxNode]:
    """QGemm: the bias has the scale alpha * a_scale * b_scale; the result is float if it has no scale."""
    given = node.attributes
    names = [node.temporary("left"), node.temporary("right")]
    yield node.dequantised(0, names[0])
    yield node.dequantised(3, names[1], axis=0 if given.get("transB") else 1)
    if node.input(6):
        scale, alpha = node.temporary("scale"), np.array(given.get("alpha", 1.0), np.float32)
        yield node.operator("Mul", [node.input(1), node.input(4)], node.temporary("scales"))
        yield node.constant(node.temporary("alpha"), alpha)
        yield node.operator("Mul", [node.temporary("scales"), node.temporary("alpha")], scale)
        names.append(node.temporary("bias"))
        yield node.operator("DequantizeLinear", [node.input(6), scale], names[2], axis=0)
    last = node.temporary("sum") if node.input(7) else node.out
    yield node.operator("Gemm", names, last, **given)
    if node.input(7):
        yield from node.requantised(7)


def _to_float(node: ForeignNode) -> Iterator[OnnxNode]:
    """MatMulIntegerToFloat: the scales of the right operand vary along its columns."""
    orders = ((0, 2, 4), (1, 3, 5))
    names = [node.temporary("left"), node.temporary("right")]
    for name, order, axis in zip(names, orders, (0, len(node.type(1).shape) - 1), strict=True):
        inputs = [node.input(place) for place in order]
        yield node.operator("DequantizeLinear", inputs if inputs[2] else inputs[:2], name, axis=axis)
    if not node.input(6):
        yield node.operator("MatMul", names, node.out)
        return
    yield node.operator("MatMul", names, node.temporary("sum"))
    yield node.operator("Add", [node.temporary("sum"), node.input(6)], node.out)


def _packed_product(node: ForeignNode) -> Iterator[OnnxNode]:
    """MatMulNBits: the weights become a float32 constant."""
    given = node.attributes
    missing = [name for name in ("K", "N", "block_size") if name not in given]
    if missing:
        raise RefusalError(f"attribute {missing[0]} is missing")
    if given.get("weight_prepacked"):
        raise RefusalError("attribute weight_prepacked holds weights in a GPU-specific layout; it may be 0")
    if node.input(4):
        raise RefusalError(f"its input 4 (g_idx, {node.input(4)!r}) is not supported")
    packed, scales = node.known(1, "B"), node.known(2, "scales")
    points = node.known(3, "zero_points") if node.input(3) else None
    sizes = given["K"], given["N"], given.get("bits", 4), given["block_size"]
    yield node.constant(node.temporary("weights"), unpacked_weights(packed, scales, points, *sizes))
    names = [node.input(0), node.temporary("weights")]
    if not node.input(5):
        yield node.operator("MatMul", names, node.out)
        return
    yield node.operator("MatMul", names, node.temporary("sum"))
    yield node.operator("Add", [node.temporary("sum"), node.input(5)], node.out)


UNARY, BINARY = (0, 1, 3), (0, 1, 3, 4, 6)
POOLING: Mapping[str, type] = {
    "auto_pad": str,
    "ceil_mode": int,
    "count_include_pad": int,
    "kernel_shape": tuple,
    "pads": tuple,
    "strides": tuple,
}
LAYOUT: Mapping[str, type] = {"channels_last": int}
PRODUCT: Mapping[str, type] = {"alpha": float, "transA": int, "transB": int}
BLOCKS: Mapping[str, type] = dict.fromkeys(
    ("K", "N", "accuracy_level", "bits", "block_size", "weight_prepacked"), int
)
QUANTISED: Mapping[str, ForeignOperator] = {
    "DequantizeLinear": ForeignOperator((2, 3), {"axis": int}, _conversion, "DequantizeLinear", (0, 1)),
    "MatMulIntegerToFloat": ForeignOperator((4, 7), {}, _to_float, "MatMul", (0, 1, 2, 3)),
    "MatMulNBits": ForeignOperator((3, 6), BLOCKS, _packed_product, "MatMul", (0, 1, 2)),
    "QGemm": ForeignOperator((6, 9), PRODUCT, _gemm, "Gemm", (0, 1, 3, 4)),
    "QLinearAdd": ForeignOperator((7, 8), {}, _pair("Add"), "Add", BINARY),
    "QLinearAveragePool": ForeignOperator(
        (4, 5), {**POOLING, **LAYOUT}, _plain("AveragePool", *POOLING), "AveragePool", UNARY
    ),
    "QLinearConcat": ForeignOperator((5, 1 << 31), {"axis": int}, _concat, "Concat", (0, 2, 3)),
    "QLinearGlobalAveragePool": ForeignOperator(
        (4, 5), LAYOUT, _plain("GlobalAveragePool"), "GlobalAveragePool", UNARY
    ),
    "QLinearLeakyRelu": ForeignOperator(
        (4, 5), {"alpha": float}, _plain("LeakyRelu", "alpha"), "LeakyRelu", UNARY
    ),
    "QLinearMul": ForeignOperator((7, 8), {}, _pair("Mul"), "Mul", BINARY),
    "QLinearReduceMean": ForeignOperator(
        (4, 5),
        {"axes": tuple, "keepdims": int},
        _plain("ReduceMean", "axes", "keepdims"),
        "ReduceMean",
        UNARY,
    ),
    "QLinearSigmoid": ForeignOperator((4, 5), {}, _plain("Sigmoid"), "Sigmoid", UNARY),
    "QLinearSoftmax": ForeignOperator((5, 5), {"axis": int, "opset": int}, _softmax, "Softmax", UNARY),
    "QLinearWhere": ForeignOperator((9, 9), {}, _where, "Where", (0, 1, 2, 4, 5, 7)),
    "QuantizeLinear": ForeignOperator((2, 3), {"axis": int}, _conversion, "QuantizeLinear", (0, 1)),
}
