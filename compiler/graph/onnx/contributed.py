"""Quantised operators that ONNX Runtime adds to ONNX, as operators of ONNX between conversions.

`QLinearSigmoid(x) -> y` becomes `QuantizeLinear(Sigmoid(DequantizeLinear(x)))`, so that quantised networks
have one form, whichever tool wrote them.

Source: ONNX Runtime, ContribOperators.md.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from vdla.compiler.graph.onnx.blocks import unpacked_weights
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.written import OPSET, Contributed, Expansion, Part, Written

OPSET_OF_WORDS = 21  # its conversions know integers of 16 bits, too
BEFORE_AXIS = 12  # up to here, a softmax takes all dimensions from its axis on together


# What stands for each


def _conversion(written: Written) -> Iterator[Part]:
    node = written.node
    names = [name for name in node.input if name]
    yield written.part(node.op_type, names, written.out, OPSET_OF_WORDS, **written.attributes)


def _plain(op: str, *kept: str) -> Expansion:
    """Return what makes an operator with one quantised operand, and attributes that are the same in ONNX."""

    def expand(written: Written) -> Iterator[Part]:
        attributes = {name: value for name, value in written.attributes.items() if name in kept}
        yield written.real(0, written.made("real"))
        yield written.part(op, [written.made("real")], written.made("sum"), **attributes)
        yield from written.quantised(3)

    return expand


def _pair(op: str) -> Expansion:
    """Return what makes an operator with two quantised operands."""

    def expand(written: Written) -> Iterator[Part]:
        names = [written.made("left"), written.made("right")]
        yield written.real(0, names[0])
        yield written.real(3, names[1])
        yield written.part(op, names, written.made("sum"))
        yield from written.quantised(6)

    return expand


def _softmax(written: Written) -> Iterator[Part]:
    opset = OPSET if written.integer("opset", OPSET) > BEFORE_AXIS else BEFORE_AXIS - 1
    axis = written.integer("axis", -1 if opset == OPSET else 1)
    yield written.real(0, written.made("real"))
    yield written.part("Softmax", [written.made("real")], written.made("sum"), opset, axis=axis)
    yield from written.quantised(3)


def _concat(written: Written) -> Iterator[Part]:
    places = range(2, len(written.node.input), 3)
    names = [written.made(f"part{number}") for number in range(len(places))]
    for place, name in zip(places, names, strict=True):
        yield written.real(place, name)
    yield written.part("Concat", names, written.made("sum"), axis=written.integer("axis", 0))
    yield from written.quantised(0, like=2)


def _where(written: Written) -> Iterator[Part]:
    names = [written.made("left"), written.made("right")]
    yield written.real(1, names[0])
    yield written.real(4, names[1])
    yield written.part("Where", [written.input(0), *names], written.made("sum"))
    yield from written.quantised(7, like=1)


def _gemm(written: Written) -> Iterator[Part]:
    """The bias is of scale alpha a_scale b_scale; without a scale of the result, that is real."""
    given = written.attributes
    names = [written.made("left"), written.made("right")]
    yield written.real(0, names[0])
    yield written.real(3, names[1], axis=0 if given.get("transB") else 1)
    if written.input(6):
        scale, alpha = written.made("scale"), np.array(given.get("alpha", 1.0), np.float32)
        yield written.part("Mul", [written.input(1), written.input(4)], written.made("scales"))
        yield written.constant(written.made("alpha"), alpha)
        yield written.part("Mul", [written.made("scales"), written.made("alpha")], scale)
        names.append(written.made("bias"))
        yield written.part("DequantizeLinear", [written.input(6), scale], names[2], axis=0)
    last = written.made("sum") if written.input(7) else written.out
    yield written.part("Gemm", names, last, **given)
    if written.input(7):
        yield from written.quantised(7)


def _to_float(written: Written) -> Iterator[Part]:
    """MatMulIntegerToFloat: the right operand's scales go along its columns."""
    orders = ((0, 2, 4), (1, 3, 5))
    names = [written.made("left"), written.made("right")]
    for name, order, axis in zip(names, orders, (0, len(written.type(1).shape) - 1), strict=True):
        inputs = [written.input(place) for place in order]
        yield written.part("DequantizeLinear", inputs if inputs[2] else inputs[:2], name, axis=axis)
    if not written.input(6):
        yield written.part("MatMul", names, written.out)
        return
    yield written.part("MatMul", names, written.made("sum"))
    yield written.part("Add", [written.made("sum"), written.input(6)], written.out)


def _of_blocks(written: Written) -> Iterator[Part]:
    """MatMulNBits: the weights are unpacked, and are real numbers from then on."""
    given = written.attributes
    missing = [name for name in ("K", "N", "block_size") if name not in given]
    if missing:
        raise RefusalError(f"attribute {missing[0]} is missing")
    if given.get("weight_prepacked"):
        raise RefusalError("attribute weight_prepacked holds weights in the layout of one GPU; it may be 0")
    if written.input(4):
        raise RefusalError(f"its input 4 (g_idx, {written.input(4)!r}) is not supported")
    packed, scales = written.known(1, "B"), written.known(2, "scales")
    points = written.known(3, "zero_points") if written.input(3) else None
    sizes = given["K"], given["N"], given.get("bits", 4), given["block_size"]
    yield written.constant(written.made("weights"), unpacked_weights(packed, scales, points, *sizes))
    names = [written.input(0), written.made("weights")]
    if not written.input(5):
        yield written.part("MatMul", names, written.out)
        return
    yield written.part("MatMul", names, written.made("sum"))
    yield written.part("Add", [written.made("sum"), written.input(5)], written.out)


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
QUANTISED: Mapping[str, Contributed] = {
    "DequantizeLinear": Contributed((2, 3), {"axis": int}, _conversion, "DequantizeLinear", (0, 1)),
    "MatMulIntegerToFloat": Contributed((4, 7), {}, _to_float, "MatMul", (0, 1, 2, 3)),
    "MatMulNBits": Contributed((3, 6), BLOCKS, _of_blocks, "MatMul", (0, 1, 2)),
    "QGemm": Contributed((6, 9), PRODUCT, _gemm, "Gemm", (0, 1, 3, 4)),
    "QLinearAdd": Contributed((7, 8), {}, _pair("Add"), "Add", BINARY),
    "QLinearAveragePool": Contributed(
        (4, 5), {**POOLING, **LAYOUT}, _plain("AveragePool", *POOLING), "AveragePool", UNARY
    ),
    "QLinearConcat": Contributed((5, 1 << 31), {"axis": int}, _concat, "Concat", (0, 2, 3)),
    "QLinearGlobalAveragePool": Contributed(
        (4, 5), LAYOUT, _plain("GlobalAveragePool"), "GlobalAveragePool", UNARY
    ),
    "QLinearLeakyRelu": Contributed(
        (4, 5), {"alpha": float}, _plain("LeakyRelu", "alpha"), "LeakyRelu", UNARY
    ),
    "QLinearMul": Contributed((7, 8), {}, _pair("Mul"), "Mul", BINARY),
    "QLinearReduceMean": Contributed(
        (4, 5),
        {"axes": tuple, "keepdims": int},
        _plain("ReduceMean", "axes", "keepdims"),
        "ReduceMean",
        UNARY,
    ),
    "QLinearSigmoid": Contributed((4, 5), {}, _plain("Sigmoid"), "Sigmoid", UNARY),
    "QLinearSoftmax": Contributed((5, 5), {"axis": int, "opset": int}, _softmax, "Softmax", UNARY),
    "QLinearWhere": Contributed((9, 9), {}, _where, "Where", (0, 1, 2, 4, 5, 7)),
    "QuantizeLinear": Contributed((2, 3), {"axis": int}, _conversion, "QuantizeLinear", (0, 1)),
}
