"""Expansion of ONNX Runtime's contrib operators, quantised and fused, into ONNX operators.

- `QLinearSigmoid(x) -> y` becomes `QuantizeLinear(Sigmoid(DequantizeLinear(x)))`, so quantised networks have
  the same form whichever tool wrote them.
- `FusedConv(x, w, b, z, activation="Relu")` becomes `Relu(Add(Conv(x, w, b), z))`, so files that ONNX Runtime
  optimised compile like the original files.

Source: ONNX Runtime, ContribOperators.md; `onnxruntime/core/optimizer`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from onnx import helper

from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.foreign import OPSET, Expansion, ForeignNode, ForeignOperator, OnnxNode
from vdla.compiler.graph.onnx.quantised import unpacked_weights

OPSET_OF_WORDS = 21  # whose conversions support 16-bit integers, too
BEFORE_AXIS = 12  # up to this version, a Softmax flattens all dimensions from its axis on


# Quantised operators


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
QGEMM: Mapping[str, type] = {"alpha": float, "transA": int, "transB": int}
BLOCKS: Mapping[str, type] = dict.fromkeys(
    ("K", "N", "accuracy_level", "bits", "block_size", "weight_prepacked"), int
)
QUANTISED: Mapping[str, ForeignOperator] = {
    "DequantizeLinear": ForeignOperator((2, 3), {"axis": int}, _conversion, "DequantizeLinear", (0, 1)),
    "MatMulIntegerToFloat": ForeignOperator((4, 7), {}, _to_float, "MatMul", (0, 1, 2, 3)),
    "MatMulNBits": ForeignOperator((3, 6), BLOCKS, _packed_product, "MatMul", (0, 1, 2)),
    "QGemm": ForeignOperator((6, 9), QGEMM, _gemm, "Gemm", (0, 1, 3, 4)),
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


# Fused float operators

BLOCKED = "com.microsoft.nchwc"  # operators on channel-blocked tensors, whose layout depends on the CPU
OPSET_OF_GELU = 20
OPSET_OF_NORMALISATION = 17
ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "Clip": ("min", "max"),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
}
"""Activations, with the attributes that `activation_params` holds, in order."""
ACTIVATION: Mapping[str, type] = {"activation": str}
CONVOLUTION: Mapping[str, type] = {
    "auto_pad": str,
    "dilations": tuple,
    "group": int,
    "kernel_shape": tuple,
    "pads": tuple,
    "strides": tuple,
}
GEMM: Mapping[str, type] = {"alpha": float, "beta": float, "transA": int, "transB": int}
GREEK = ("alpha", "beta", "gamma")
OPSET_OF_ATTRIBUTES = 6  # the version of Clip whose bounds are attributes


def _activation(node: ForeignNode, name: str, parameters: Sequence[float]) -> Iterator[OnnxNode]:
    """Yield the activation of the value `name`, whose result is the node's result.

    Raises:
        RefusalError: the activation is not supported, or has another number of parameters.
    """
    op = node.attributes.get("activation", "Relu")
    wanted = ACTIVATIONS.get(op)
    if wanted is None:
        raise RefusalError(f"attribute activation = {op!r} is not supported; {', '.join(ACTIVATIONS)} are")
    if len(parameters) not in (0, len(wanted)):
        raise RefusalError(f"activation {op} has {len(parameters)} parameters; it takes {len(wanted)}")
    given = dict(zip(wanted, parameters, strict=bool(parameters)))
    yield node.operator(op, [name], node.out, OPSET_OF_ATTRIBUTES if op == "Clip" else OPSET, **given)


def _convolution(node: ForeignNode) -> Iterator[OnnxNode]:
    """FusedConv: the input Z is added before the activation."""
    given = {name: value for name, value in node.attributes.items() if name in CONVOLUTION}
    operands = [node.input(place) for place in range(3)]
    yield node.operator("Conv", operands if operands[2] else operands[:2], node.temporary("conv"), **given)
    last = node.temporary("conv")
    if node.input(3):
        last = node.temporary("sum")
        yield node.operator("Add", [node.temporary("conv"), node.input(3)], last)
    yield from _activation(node, last, node.attributes.get("activation_params", ()))


def _fused_gemm(node: ForeignNode) -> Iterator[OnnxNode]:
    given = node.attributes
    operands = [name for name in node.proto.input if name]
    attributes = {name: value for name, value in given.items() if name in GEMM}
    yield node.operator("Gemm", operands, node.temporary("sum"), **attributes)
    values = (given.get(f"activation_{letter}") for letter in GREEK)
    wanted = ACTIVATIONS.get(given.get("activation", "Relu"), ())
    parameters = [value for value in values if value is not None][: len(wanted)]
    yield from _activation(node, node.temporary("sum"), parameters)


def _fused_product(node: ForeignNode) -> Iterator[OnnxNode]:
    """FusedMatMul: transposed operands, and the product times alpha."""
    given = node.attributes
    if given.get("transBatchA") or given.get("transBatchB"):
        raise RefusalError("attributes transBatchA = 1 and transBatchB = 1 are not supported; they may be 0")
    names = [node.input(0), node.input(1)]
    for place, letter in enumerate("AB"):
        rank = len(node.type(place).shape)
        if given.get(f"trans{letter}") and rank > 1:
            perm = (*range(rank - 2), rank - 1, rank - 2)
            names[place] = node.temporary(f"turned{letter}")
            yield node.operator("Transpose", [node.input(place)], names[place], perm=perm)
    alpha = given.get("alpha", 1.0)
    if alpha == 1:
        yield node.operator("MatMul", names, node.out)
        return
    yield node.operator("MatMul", names, node.temporary("product"))
    yield node.number(node.temporary("alpha"), alpha)
    yield node.operator("Mul", [node.temporary("product"), node.temporary("alpha")], node.out)


def _gelu(approximate: str) -> Callable[[ForeignNode], Iterator[OnnxNode]]:
    """Return the expansion of a Gelu, after the addition of a bias if the node has a second input."""

    def expand(node: ForeignNode) -> Iterator[OnnxNode]:
        name = node.input(0)
        if node.input(1):
            name = node.temporary("sum")
            yield node.operator("Add", [node.input(0), node.input(1)], name)
        yield node.operator("Gelu", [name], node.out, OPSET_OF_GELU, approximate=approximate)

    return expand


def _quick_gelu(node: ForeignNode) -> Iterator[OnnxNode]:
    """QuickGelu: x times the sigmoid of alpha x."""
    yield node.number(node.temporary("alpha"), node.attributes.get("alpha", 1.702))
    yield node.operator("Mul", [node.input(0), node.temporary("alpha")], node.temporary("scaled"))
    yield node.operator("Sigmoid", [node.temporary("scaled")], node.temporary("gate"))
    yield node.operator("Mul", [node.input(0), node.temporary("gate")], node.out)


def _skip_normalisation(node: ForeignNode) -> Iterator[OnnxNode]:
    """SkipLayerNormalization: normalises a sum of inputs; the sum is the fourth output."""
    if any(node.proto.output[1:3]):
        raise RefusalError("its outputs mean and inv_std_var are not supported; leave them out")
    total = node.proto.output[3] if len(node.proto.output) > 3 else ""
    total = total or node.temporary("sum")
    plain = node.temporary("plain") if node.input(4) else total
    yield node.operator("Add", [node.input(0), node.input(1)], plain)
    if node.input(4):
        yield node.operator("Add", [plain, node.input(4)], total)
    names = [total, node.input(2), node.input(3)]
    epsilon = node.attributes.get("epsilon", 1e-12)
    yield node.operator(
        "LayerNormalization",
        names if names[2] else names[:2],
        node.out,
        OPSET_OF_NORMALISATION,
        axis=-1,
        epsilon=epsilon,
    )


def _dynamic_product(node: ForeignNode) -> Iterator[OnnxNode]:
    """DynamicQuantizeMatMul: the left operand is quantised by its range at run time."""
    left = [node.temporary(role) for role in ("left", "scale", "zero")]
    quantise = helper.make_node("DynamicQuantizeLinear", [node.input(0)], left, node.proto.name)
    yield OnnxNode(quantise, OPSET)
    operands = [left[0], node.input(1), left[2], node.input(3)]
    yield node.operator(
        "MatMulInteger", operands if operands[3] else operands[:3], node.temporary("integers")
    )
    yield node.operator("Cast", [node.temporary("integers")], node.temporary("steps"), to=1)
    yield node.operator("Mul", [left[1], node.input(2)], node.temporary("scales"))
    last = node.temporary("product") if node.input(4) else node.out
    yield node.operator("Mul", [node.temporary("steps"), node.temporary("scales")], last)
    if node.input(4):
        yield node.operator("Add", [last, node.input(4)], node.out)


FUSED_GEMM: Mapping[str, type] = {
    **GEMM,
    **ACTIVATION,
    **{f"activation_{letter}": float for letter in GREEK},
}
FUSED_MATMUL: Mapping[str, type] = {
    "alpha": float,
    **dict.fromkeys(("transA", "transB", "transBatchA", "transBatchB"), int),
}
FUSED: Mapping[str, ForeignOperator] = {
    "BiasGelu": ForeignOperator((2, 2), {}, _gelu("none"), "Gelu", (0, 1)),
    "DynamicQuantizeMatMul": ForeignOperator((3, 5), {}, _dynamic_product, "MatMul", (0, 1, 2)),
    "FastGelu": ForeignOperator((1, 2), {}, _gelu("tanh"), "Gelu", (0,)),
    "FusedConv": ForeignOperator(
        (2, 4), {**CONVOLUTION, **ACTIVATION, "activation_params": list}, _convolution, "Conv", (0, 1)
    ),
    "FusedGemm": ForeignOperator((2, 3), FUSED_GEMM, _fused_gemm, "Gemm", (0, 1)),
    "FusedMatMul": ForeignOperator((2, 2), FUSED_MATMUL, _fused_product, "MatMul", (0, 1)),
    "Gelu": ForeignOperator((1, 1), {}, _gelu("none"), "Gelu", (0,)),
    "QuickGelu": ForeignOperator((1, 1), {"alpha": float}, _quick_gelu, "Sigmoid", (0,)),
    "SkipLayerNormalization": ForeignOperator(
        (3, 5), {"epsilon": float}, _skip_normalisation, "LayerNormalization", (0, 1, 2)
    ),
    "TransposeMatMul": ForeignOperator((2, 2), FUSED_MATMUL, _fused_product, "MatMul", (0, 1)),
}
