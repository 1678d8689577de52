"""Expansion of the fused float operators of ONNX Runtime's optimiser into the original ONNX operators.

`FusedConv(x, w, b, z, activation="Relu")` becomes `Relu(Add(Conv(x, w, b), z))`, so optimised files compile
like the original files.

Source: ONNX Runtime, ContribOperators.md; `onnxruntime/core/optimizer`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from onnx import helper

from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.foreign import OPSET, ForeignNode, ForeignOperator, OnnxNode

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
PRODUCT: Mapping[str, type] = {"alpha": float, "beta": float, "transA": int, "transB": int}
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


def _gemm(node: ForeignNode) -> Iterator[OnnxNode]:
    given = node.attributes
    operands = [name for name in node.proto.input if name]
    attributes = {name: value for name, value in given.items() if name in PRODUCT}
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
    **PRODUCT,
    **ACTIVATION,
    **{f"activation_{letter}": float for letter in GREEK},
}
FUSED_MATMUL: Mapping[str, type] = {
    "alpha": float,
    **dict.fromkeys(("transA", "transB", "transBatchA", "transBatchB"), int),
}
OPERATORS: Mapping[str, ForeignOperator] = {
    "BiasGelu": ForeignOperator((2, 2), {}, _gelu("none"), "Gelu", (0, 1)),
    "DynamicQuantizeMatMul": ForeignOperator((3, 5), {}, _dynamic_product, "MatMul", (0, 1, 2)),
    "FastGelu": ForeignOperator((1, 2), {}, _gelu("tanh"), "Gelu", (0,)),
    "FusedConv": ForeignOperator(
        (2, 4), {**CONVOLUTION, **ACTIVATION, "activation_params": list}, _convolution, "Conv", (0, 1)
    ),
    "FusedGemm": ForeignOperator((2, 3), FUSED_GEMM, _gemm, "Gemm", (0, 1)),
    "FusedMatMul": ForeignOperator((2, 2), FUSED_MATMUL, _fused_product, "MatMul", (0, 1)),
    "Gelu": ForeignOperator((1, 1), {}, _gelu("none"), "Gelu", (0,)),
    "QuickGelu": ForeignOperator((1, 1), {"alpha": float}, _quick_gelu, "Sigmoid", (0,)),
    "SkipLayerNormalization": ForeignOperator(
        (3, 5), {"epsilon": float}, _skip_normalisation, "LayerNormalization", (0, 1, 2)
    ),
    "TransposeMatMul": ForeignOperator((2, 2), FUSED_MATMUL, _fused_product, "MatMul", (0, 1)),
}
