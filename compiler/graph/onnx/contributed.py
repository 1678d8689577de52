"""Expansion of ONNX Runtime's contrib operators, quantised and fused, and of `Scaler`, into ONNX operators.

- `QLinearSigmoid(x) -> y` becomes `QuantizeLinear(Sigmoid(DequantizeLinear(x)))`, so quantised networks have
  the same form whichever tool wrote them.
- `FusedConv(x, w, b, z, activation="Relu")` becomes `Relu(Add(Conv(x, w, b), z))`, so files that ONNX Runtime
  optimised compile like the original files.
- `Scaler` of `ai.onnx.ml` begins exported pipelines (StandardScaler, then a perceptron). ONNX's shape
  inference does not support it, so the whole network would stay on the host.

Source: ONNX Runtime, ContribOperators.md; `onnxruntime/core/optimizer`. ONNX, Operators-ml.md.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import TensorProto, defs, helper

from vdla.compiler.graph.onnx.attention import ATTENTIONS
from vdla.compiler.graph.onnx.call import (
    OPSET,
    ForeignNode,
    ForeignOperator,
    OnnxNode,
    RefusalError,
    kinds_of,
)
from vdla.compiler.graph.onnx.quantised import unpacked_weights

OPSET_OF_WORDS = 21  # whose conversions support 16-bit integers, too
BEFORE_AXIS = 12  # up to this version, a Softmax flattens all dimensions from its axis on
ANY_NUMBER = 1 << 31


def _kinds(op: str, **more: str) -> dict[str, str]:
    """Return the kinds of the attributes of an ONNX operator, and the kinds of further attributes."""
    return kinds_of(defs.get_schema(op, OPSET, "")) | more


def _given(node: ForeignNode, names: Collection[str]) -> dict[str, Any]:
    """Return the attributes of a node that are among `names`."""
    return {name: value for name, value in node.attributes.items() if name in names}


# Quantised operators


def _quantised(
    op: str,
    inputs: tuple[int, int],
    operands: range,
    result: int,
    defaults: Mapping[str, int] = MappingProxyType({}),
    more: Mapping[str, str] = MappingProxyType({}),
) -> ForeignOperator:
    """Return the contrib operator that computes an ONNX operator on quantised operands.

    Args:
        op: the ONNX operator.
        inputs: the least and the greatest number of inputs.
        operands: positions of the quantised operands, each followed by its scale and zero point. Inputs
            before the operands, other than the result's scale and zero point, are passed unchanged.
        result: position of the result's scale, which its zero point follows.
        defaults: values of attributes that are left out, where ONNX has no default.
        more: kinds of attributes that the ONNX operator does not have.
    """

    def expand(node: ForeignNode) -> None:
        places = range(operands.start, min(operands.stop, len(node.inputs)), operands.step)
        plain = node.inputs[: min(operands.start, result)]
        real = [node.dequantised(place) for place in places]
        given = {**defaults, **_given(node, _kinds(op))}
        node.requantise(node.add(op, *plain, *real, **given), result, like=operands.start)

    points = (place + 2 for place in range(operands.start, min(operands.stop, inputs[0]), operands.step))
    return ForeignOperator(inputs, _kinds(op, **more), expand, op, (*points, result + 1))


def _conversion(node: ForeignNode) -> None:
    node.add(node.op, *node.inputs, opset=OPSET_OF_WORDS, **_given(node, ("axis",)))


def _softmax(node: ForeignNode) -> None:
    opset = OPSET if node.integer("opset", OPSET) > BEFORE_AXIS else BEFORE_AXIS - 1
    axis = node.integer("axis", -1 if opset == OPSET else 1)
    node.requantise(node.add("Softmax", node.dequantised(0), opset=opset, axis=axis), 3)


def _gemm(node: ForeignNode) -> None:
    """QGemm: the bias has the scale alpha * a_scale * b_scale; the result is float if it has no scale."""
    left, bias = node.dequantised(0), ""
    right = node.dequantised(3, axis=0 if node.integer("transB", 0) else 1)
    if node.input(6):
        scales = node.add("Mul", node.input(1), node.input(4))
        scale = node.add("Mul", scales, node.attribute("alpha", float, 1.0))
        bias = node.add("DequantizeLinear", node.input(6), scale, axis=0)
    product = node.add("Gemm", left, right, bias, **_given(node, QGEMM))
    if node.input(7):
        node.requantise(product, 7)


def _to_float(node: ForeignNode) -> None:
    """MatMulIntegerToFloat: the scales of the right operand vary along its columns."""
    left, right = (
        node.add("DequantizeLinear", *map(node.input, (place, place + 2, place + 4)), axis=axis)
        for place, axis in enumerate((0, len(node.input_type(1).shape) - 1))
    )
    node.plus(node.add("MatMul", left, right), 6)


def _packed_product(node: ForeignNode) -> None:
    """MatMulNBits: the weights become a float32 constant."""
    missing = [name for name in ("K", "N", "block_size") if name not in node.attributes]
    if missing:
        raise RefusalError(f"attribute {missing[0]} is missing")
    if node.integer("weight_prepacked", 0):
        raise RefusalError("attribute weight_prepacked holds weights in a GPU-specific layout; it may be 0")
    if node.input(4):
        raise RefusalError(f"its input 4 (g_idx, {node.input(4)!r}) is not supported")
    packed, scales = node.known(1, "B"), node.known(2, "scales")
    points = node.known(3, "zero_points") if node.input(3) else None
    k, n, block = map(node.integer, ("K", "N", "block_size"))
    weights = unpacked_weights(packed, scales, points, k, n, node.integer("bits", 4), block)
    node.plus(node.add("MatMul", node.input(0), weights), 5)


UNARY, BINARY = range(0, 3, 3), range(0, 6, 3)
LAYOUT = {"channels_last": "INT"}
QGEMM = {"alpha": "FLOAT", "transA": "INT", "transB": "INT"}
BLOCKS = dict.fromkeys(("K", "N", "accuracy_level", "bits", "block_size", "weight_prepacked"), "INT")
AXIS = {"axis": "INT"}
QUANTISED: Mapping[str, ForeignOperator] = {
    "DequantizeLinear": ForeignOperator((2, 3), AXIS, _conversion, "DequantizeLinear"),
    "MatMulIntegerToFloat": ForeignOperator((4, 7), {}, _to_float, "MatMul"),
    "MatMulNBits": ForeignOperator((3, 6), BLOCKS, _packed_product, "MatMul"),
    "QGemm": ForeignOperator((6, 9), QGEMM, _gemm, "Gemm", (2, 5)),
    "QLinearAdd": _quantised("Add", (7, 8), BINARY, 6),
    "QLinearAveragePool": _quantised("AveragePool", (4, 5), UNARY, 3, more=LAYOUT),
    "QLinearConcat": _quantised("Concat", (5, ANY_NUMBER), range(2, ANY_NUMBER, 3), 0, {"axis": 0}),
    "QLinearGlobalAveragePool": _quantised("GlobalAveragePool", (4, 5), UNARY, 3, more=LAYOUT),
    "QLinearLeakyRelu": _quantised("LeakyRelu", (4, 5), UNARY, 3),
    "QLinearMul": _quantised("Mul", (7, 8), BINARY, 6),
    "QLinearReduceMean": _quantised("ReduceMean", (4, 5), UNARY, 3),
    "QLinearSigmoid": _quantised("Sigmoid", (4, 5), UNARY, 3),
    "QLinearSoftmax": ForeignOperator((5, 5), {**AXIS, "opset": "INT"}, _softmax, "Softmax", (2, 4)),
    "QLinearWhere": _quantised("Where", (9, 9), range(1, 7, 3), 7),
    "QuantizeLinear": ForeignOperator((2, 3), AXIS, _conversion, "QuantizeLinear"),
}


# Fused float operators

BLOCKED = "com.microsoft.nchwc"  # operators on channel-blocked tensors, whose layout depends on the CPU
OPSET_OF_GELU = 20
OPSET_OF_NORMALISATION = 17
OPSET_OF_ROOT_MEAN_SQUARE = 23
ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"), ()),
    **dict.fromkeys(("Elu", "LeakyRelu"), ("alpha",)),
    "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"),
}
"""Activations, with the attributes that `activation_params` holds, in order."""
GREEK = dict.fromkeys((f"activation_{letter}" for letter in ("alpha", "beta", "gamma")), "FLOAT")
OPSET_OF_ATTRIBUTES = 6  # the version of Clip whose bounds are attributes


def _activate(node: ForeignNode, name: str, parameters: Sequence[float]) -> None:
    """Add the activation of the value `name`.

    Raises:
        RefusalError: the activation is not supported, or has another number of parameters.
    """
    op = node.attribute("activation", str, "Relu")
    wanted = ACTIVATIONS.get(op)
    if wanted is None:
        raise RefusalError(
            f"attribute activation = {op!r} is not supported; {', '.join(sorted(ACTIVATIONS))} are"
        )
    if len(parameters) not in (0, len(wanted)):
        raise RefusalError(f"activation {op} has {len(parameters)} parameters; it takes {len(wanted)}")
    given: dict[str, Any] = dict(zip(wanted, parameters, strict=bool(parameters)))
    node.add(op, name, opset=OPSET_OF_ATTRIBUTES if op == "Clip" else OPSET, **given)


def _convolution(node: ForeignNode) -> None:
    """FusedConv: the input Z is added before the activation."""
    result = node.add("Conv", *node.inputs[:3], **_given(node, _kinds("Conv")))
    _activate(node, node.plus(result, 3), node.attribute("activation_params", tuple, ()))


def _fused_gemm(node: ForeignNode) -> None:
    """FusedGemm: activation_alpha, _beta and _gamma are parameters of any activation; some are unused."""
    result = node.add("Gemm", *node.inputs, **_given(node, _kinds("Gemm")))
    values = [node.attribute(name, float) for name in GREEK if name in node.attributes]
    wanted = ACTIVATIONS.get(node.attribute("activation", str, "Relu"), ())
    _activate(node, result, values[: len(wanted)])


def _fused_product(node: ForeignNode) -> None:
    """FusedMatMul: transposed operands, and the product times alpha."""
    if node.integer("transBatchA", 0) or node.integer("transBatchB", 0):
        raise RefusalError("attributes transBatchA = 1 and transBatchB = 1 are not supported; they may be 0")
    names = list(node.inputs)
    for place, letter in enumerate("AB"):
        rank = len(node.input_type(place).shape)
        if node.integer(f"trans{letter}", 0) and rank > 1:
            perm = (*range(rank - 2), rank - 1, rank - 2)
            names[place] = node.add("Transpose", node.input(place), perm=perm)
    product, alpha = node.add("MatMul", *names), node.attribute("alpha", float, 1.0)
    if alpha != 1:
        node.add("Mul", product, alpha)


def _gelu(approximate: str) -> Callable[[ForeignNode], object]:
    """Return the expansion of a Gelu, after the addition of a bias if the node has a second input."""
    return lambda node: node.add(
        "Gelu", node.plus(node.input(0), 1), opset=OPSET_OF_GELU, approximate=approximate
    )


def _quick_gelu(node: ForeignNode) -> None:
    """QuickGelu: x times the sigmoid of alpha x."""
    x = node.input(0)
    node.add("Mul", x, node.add("Sigmoid", node.add("Mul", x, node.attribute("alpha", float, 1.702))))


def _sum_of_inputs(node: ForeignNode, bias: int) -> str:
    """Add the sum of the first two inputs and of the bias, if there is a bias; return its name."""
    _, *statistics, total = (*node.proto.output, "", "", "")[:4]
    if any(statistics):
        raise RefusalError("its outputs mean and inv_std_var are not supported; leave them out")
    result = node.add("Add", node.input(0), node.input(1), out="" if node.input(bias) else total)
    return node.add("Add", result, node.input(bias), out=total) if node.input(bias) else result


def _skip_normalisation(node: ForeignNode) -> None:
    """SkipLayerNormalization: normalises a sum of inputs; the sum is the fourth output."""
    result = _sum_of_inputs(node, bias=4)
    epsilon = node.attribute("epsilon", float, 1e-12)
    node.add(
        "LayerNormalization",
        result,
        node.input(2),
        node.input(3),
        opset=OPSET_OF_NORMALISATION,
        axis=-1,
        epsilon=epsilon,
    )


def _simplified(node: ForeignNode) -> None:
    """SimplifiedLayerNormalization: a normalisation by the root mean square, without a mean and a bias."""
    if len(node.proto.output) > 1:
        raise RefusalError("its output inv_std_var is not supported; leave it out")
    _root_mean_square(node, node.input(0), node.input(1), node.integer("axis", -1))


def _skip_simplified(node: ForeignNode) -> None:
    """SkipSimplifiedLayerNormalization: normalises a sum of inputs; the sum is the fourth output."""
    _root_mean_square(node, _sum_of_inputs(node, bias=3), node.input(2), axis=-1)


def _root_mean_square(node: ForeignNode, x: str, scale: str, axis: int) -> None:
    """Add the RMSNormalization of the value `x`, with the epsilon of a node."""
    epsilon = node.attribute("epsilon", float, 1e-5)
    node.add("RMSNormalization", x, scale, opset=OPSET_OF_ROOT_MEAN_SQUARE, axis=axis, epsilon=epsilon)


def _dynamic_product(node: ForeignNode) -> None:
    """DynamicQuantizeMatMul: the left operand is quantised by its range at run time."""
    left, scale, zero = outputs = [node.temporary(role) for role in ("left", "scale", "zero")]
    quantise = helper.make_node("DynamicQuantizeLinear", [node.input(0)], outputs, node.proto.name)
    node.steps.append(OnnxNode(quantise, OPSET))
    integers = node.add("MatMulInteger", left, node.input(1), zero, node.input(3))
    steps = node.add("Cast", integers, to=1)
    node.plus(node.add("Mul", steps, node.add("Mul", scale, node.input(2))), 4)


FUSED_MATMUL = {"alpha": "FLOAT", **dict.fromkeys(("transA", "transB", "transBatchA", "transBatchB"), "INT")}
FUSED_CONV = _kinds("Conv", activation="STRING", activation_params="FLOATS")
FUSED_GEMM = _kinds("Gemm", activation="STRING", **GREEK)
FUSED: Mapping[str, ForeignOperator] = {
    "BiasGelu": ForeignOperator((2, 2), {}, _gelu("none"), "Gelu"),
    "DynamicQuantizeMatMul": ForeignOperator((3, 5), {}, _dynamic_product, "MatMul"),
    "FastGelu": ForeignOperator((1, 2), {}, _gelu("tanh"), "Gelu"),
    "FusedConv": ForeignOperator((2, 4), FUSED_CONV, _convolution, "Conv"),
    "FusedGemm": ForeignOperator((2, 3), FUSED_GEMM, _fused_gemm, "Gemm"),
    "FusedMatMul": ForeignOperator((2, 2), FUSED_MATMUL, _fused_product, "MatMul"),
    "Gelu": ForeignOperator((1, 1), {}, _gelu("none"), "Gelu"),
    "QuickGelu": ForeignOperator((1, 1), {"alpha": "FLOAT"}, _quick_gelu, "Sigmoid"),
    "SkipLayerNormalization": ForeignOperator(
        (3, 5), {"epsilon": "FLOAT"}, _skip_normalisation, "LayerNormalization"
    ),
    "SkipSimplifiedLayerNormalization": ForeignOperator(
        (3, 4), {"epsilon": "FLOAT"}, _skip_simplified, "RMSNormalization"
    ),
    "TransposeMatMul": ForeignOperator((2, 2), FUSED_MATMUL, _fused_product, "MatMul"),
}
SIMPLIFIED = {"axis": "INT", "epsilon": "FLOAT", "stash_type": "INT"}


# Operators of ai.onnx.ml


def _scaler(node: ForeignNode) -> None:
    """Scaler: `(x - offset) * scale` in float32, with scalar parameters or a number for each feature.

    Raises:
        RefusalError: a parameter has neither a single number nor a number for each feature.
    """
    shape, last = node.input_type(0).shape, node.input(0)
    if node.input_type(0).dtype != "float32":
        last = node.add("Cast", last, to=TensorProto.FLOAT)
    for name, op in (("offset", "Sub"), ("scale", "Mul")):
        numbers = np.array(node.attribute(name, tuple, ()), np.float32)
        if numbers.size not in (1, *shape[-1:]):
            raise RefusalError(
                f"attribute {name} has {numbers.size} numbers; it takes 1, or a number for each of the "
                f"{shape[-1] if shape else 1} features"
            )
        last = node.add(op, last, numbers)


MICROSOFT, CLASSICAL = "com.microsoft", "ai.onnx.ml"
SCALER = {"offset": "FLOATS", "scale": "FLOATS"}
OPERATORS: Mapping[str, Mapping[str, ForeignOperator]] = {
    MICROSOFT: dict(sorted({**QUANTISED, **FUSED, **ATTENTIONS}.items())),
    CLASSICAL: {"Scaler": ForeignOperator((1, 1), SCALER, _scaler, "Mul")},
}
"""The supported operators by domain."""
STANDARD: Mapping[str, ForeignOperator] = {
    "SimplifiedLayerNormalization": ForeignOperator((2, 2), SIMPLIFIED, _simplified, "RMSNormalization")
}
"""Operators that ONNX Runtime adds to the domain of ONNX."""
