"""Float operators that ONNX Runtime's optimiser makes of several of ONNX, as what they were made of.

`FusedConv(x, w, b, z, activation="Relu")` becomes `Relu(Add(Conv(x, w, b), z))`, so that optimised files are
compiled as the files that they were made of.

Source: ONNX Runtime, ContribOperators.md; `onnxruntime/core/optimizer`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from onnx import helper

from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.written import OPSET, Contributed, Part, Written

BLOCKED = "com.microsoft.nchwc"  # operators on tensors in the blocks of one CPU
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
"""Activations, with the attributes that `activation_params` holds in this order."""
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


def _activated(written: Written, name: str, parameters: Sequence[float]) -> Iterator[Part]:
    """Yield the activation that makes the result of a value.

    Raises:
        RefusalError: it is not known, or has other parameters.
    """
    op = written.attributes.get("activation", "Relu")
    wanted = ACTIVATIONS.get(op)
    if wanted is None:
        raise RefusalError(f"attribute activation = {op!r} is not supported; {', '.join(ACTIVATIONS)} are")
    if len(parameters) not in (0, len(wanted)):
        raise RefusalError(f"activation {op} has {len(parameters)} parameters; it takes {len(wanted)}")
    given = dict(zip(wanted, parameters, strict=bool(parameters)))
    yield written.part(op, [name], written.out, OPSET_OF_ATTRIBUTES if op == "Clip" else OPSET, **given)


def _convolution(written: Written) -> Iterator[Part]:
    """FusedConv: the input Z is added before the activation."""
    given = {name: value for name, value in written.attributes.items() if name in CONVOLUTION}
    operands = [written.input(place) for place in range(3)]
    yield written.part("Conv", operands if operands[2] else operands[:2], written.made("conv"), **given)
    last = written.made("conv")
    if written.input(3):
        last = written.made("sum")
        yield written.part("Add", [written.made("conv"), written.input(3)], last)
    yield from _activated(written, last, written.attributes.get("activation_params", ()))


def _gemm(written: Written) -> Iterator[Part]:
    given = written.attributes
    operands = [name for name in written.node.input if name]
    attributes = {name: value for name, value in given.items() if name in PRODUCT}
    yield written.part("Gemm", operands, written.made("sum"), **attributes)
    found = (given.get(f"activation_{letter}") for letter in GREEK)
    wanted = ACTIVATIONS.get(given.get("activation", "Relu"), ())
    parameters = [value for value in found if value is not None][: len(wanted)]
    yield from _activated(written, written.made("sum"), parameters)


def _matrices(written: Written) -> Iterator[Part]:
    """FusedMatMul: transposed operands, and a factor behind the product."""
    given = written.attributes
    if given.get("transBatchA") or given.get("transBatchB"):
        raise RefusalError("attributes transBatchA = 1 and transBatchB = 1 are not supported; they may be 0")
    names = [written.input(0), written.input(1)]
    for place, letter in enumerate("AB"):
        rank = len(written.type(place).shape)
        if given.get(f"trans{letter}") and rank > 1:
            perm = (*range(rank - 2), rank - 1, rank - 2)
            names[place] = written.made(f"turned{letter}")
            yield written.part("Transpose", [written.input(place)], names[place], perm=perm)
    alpha = given.get("alpha", 1.0)
    if alpha == 1:
        yield written.part("MatMul", names, written.out)
        return
    yield written.part("MatMul", names, written.made("product"))
    yield written.number(written.made("alpha"), alpha)
    yield written.part("Mul", [written.made("product"), written.made("alpha")], written.out)


def _gelu(approximate: str) -> Callable[[Written], Iterator[Part]]:
    """Return what makes Gelu, with a bias before it where there is an input for that."""

    def expand(written: Written) -> Iterator[Part]:
        name = written.input(0)
        if written.input(1):
            name = written.made("sum")
            yield written.part("Add", [written.input(0), written.input(1)], name)
        yield written.part("Gelu", [name], written.out, OPSET_OF_GELU, approximate=approximate)

    return expand


def _quick_gelu(written: Written) -> Iterator[Part]:
    """QuickGelu: x times the sigmoid of alpha x."""
    yield written.number(written.made("alpha"), written.attributes.get("alpha", 1.702))
    yield written.part("Mul", [written.input(0), written.made("alpha")], written.made("scaled"))
    yield written.part("Sigmoid", [written.made("scaled")], written.made("gate"))
    yield written.part("Mul", [written.input(0), written.made("gate")], written.out)


def _skip_normalisation(written: Written) -> Iterator[Part]:
    """SkipLayerNormalization: of a sum, which is the fourth output."""
    if any(written.node.output[1:3]):
        raise RefusalError("its outputs mean and inv_std_var are not supported; leave them out")
    total = written.node.output[3] if len(written.node.output) > 3 else ""
    total = total or written.made("sum")
    plain = written.made("plain") if written.input(4) else total
    yield written.part("Add", [written.input(0), written.input(1)], plain)
    if written.input(4):
        yield written.part("Add", [plain, written.input(4)], total)
    names = [total, written.input(2), written.input(3)]
    epsilon = written.attributes.get("epsilon", 1e-12)
    yield written.part(
        "LayerNormalization",
        names if names[2] else names[:2],
        written.out,
        OPSET_OF_NORMALISATION,
        axis=-1,
        epsilon=epsilon,
    )


def _dynamic(written: Written) -> Iterator[Part]:
    """DynamicQuantizeMatMul: the left operand is quantised by its own range."""
    left = [written.made(role) for role in ("left", "scale", "zero")]
    quantise = helper.make_node("DynamicQuantizeLinear", [written.input(0)], left, written.node.name)
    yield Part(quantise, OPSET)
    operands = [left[0], written.input(1), left[2], written.input(3)]
    yield written.part("MatMulInteger", operands if operands[3] else operands[:3], written.made("integers"))
    yield written.part("Cast", [written.made("integers")], written.made("steps"), to=1)
    yield written.part("Mul", [left[1], written.input(2)], written.made("scales"))
    last = written.made("product") if written.input(4) else written.out
    yield written.part("Mul", [written.made("steps"), written.made("scales")], last)
    if written.input(4):
        yield written.part("Add", [last, written.input(4)], written.out)


FUSED_GEMM: Mapping[str, type] = {
    **PRODUCT,
    **ACTIVATION,
    **{f"activation_{letter}": float for letter in GREEK},
}
FUSED_MATMUL: Mapping[str, type] = {
    "alpha": float,
    **dict.fromkeys(("transA", "transB", "transBatchA", "transBatchB"), int),
}
OPERATORS: Mapping[str, Contributed] = {
    "BiasGelu": Contributed((2, 2), {}, _gelu("none"), "Gelu", (0, 1)),
    "DynamicQuantizeMatMul": Contributed((3, 5), {}, _dynamic, "MatMul", (0, 1, 2)),
    "FastGelu": Contributed((1, 2), {}, _gelu("tanh"), "Gelu", (0,)),
    "FusedConv": Contributed(
        (2, 4), {**CONVOLUTION, **ACTIVATION, "activation_params": list}, _convolution, "Conv", (0, 1)
    ),
    "FusedGemm": Contributed((2, 3), FUSED_GEMM, _gemm, "Gemm", (0, 1)),
    "FusedMatMul": Contributed((2, 2), FUSED_MATMUL, _matrices, "MatMul", (0, 1)),
    "Gelu": Contributed((1, 1), {}, _gelu("none"), "Gelu", (0,)),
    "QuickGelu": Contributed((1, 1), {"alpha": float}, _quick_gelu, "Sigmoid", (0,)),
    "SkipLayerNormalization": Contributed(
        (3, 5), {"epsilon": float}, _skip_normalisation, "LayerNormalization", (0, 1, 2)
    ),
    "TransposeMatMul": Contributed((2, 2), FUSED_MATMUL, _matrices, "MatMul", (0, 1)),
}
