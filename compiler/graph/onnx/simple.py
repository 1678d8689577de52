"""Operators whose parameters hardly changed over the versions: element-wise ones, normalisation, reductions,
products.

Source: ONNX operator specification and its changelog.
"""

import numpy as np

from vdla.compiler.graph.nodes import TensorType
from vdla.compiler.graph.onnx.call import Call, Form, Importer, RefusalError, distinct_axes
from vdla.compiler.graph.onnx.tensors import shortest
from vdla.runtime.host.evaluate import attributes_of

UNCHANGED = (
    "Abs",
    "Add",
    "And",
    "Ceil",
    "Cos",
    "DepthToSpace",
    "Div",
    "DynamicQuantizeLinear",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "Gemm",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "Greater",
    "GreaterOrEqual",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "InstanceNormalization",
    "LRN",
    "LeakyRelu",
    "Less",
    "LessOrEqual",
    "Log",
    "MatMul",
    "MatMulInteger",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "PRelu",
    "Pow",
    "QLinearMatMul",
    "Reciprocal",
    "Relu",
    "Round",
    "Sigmoid",
    "Sign",
    "Sin",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Sub",
    "Sum",
    "Tanh",
    "Where",
    "Xor",
)
REDUCTIONS = (
    "ReduceL1",
    "ReduceL2",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
)
WITHOUT_EFFECT_ON_ONE = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")


def unchanged(call: Call) -> Form:
    """Take inputs and attributes as they are."""
    more = sorted(set(call.attributes) - set(attributes_of(call.op)))
    if more:
        raise RefusalError(f"attribute {more[0]} is not supported")
    return Form(call.op, call.inputs, {name: call.plain(name) for name in attributes_of(call.op)})


def cast(call: Call) -> Form:
    """Name the type; saturation and rounding modes concern only types that are not supported."""
    return Form("Cast", call.inputs[:1], {"to": call.output_type.dtype})


def clip(call: Call) -> Form:
    """Take bounds from attributes or inputs; one left out is the type's last number."""
    kind = np.dtype(call.input_type(0).dtype)
    limits = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    bounds = {"min": limits.min, "max": limits.max}
    for place, name in enumerate(bounds, 1):
        if call.has(place):
            bounds[name] = call.known(place, name).item()
        elif name in call.attributes:
            bounds[name] = call.attributes[name]
    return Form(
        "Clip",
        call.inputs[:1],
        {name: shortest(bound) if kind.kind == "f" else int(bound) for name, bound in bounds.items()},
    )


def dropout(call: Call) -> Form:
    """Refuse training."""
    if call.has(2) and call.known(2, "training_mode").item():
        raise RefusalError("training_mode is true; export the network for inference")
    return Form("Dropout", call.inputs[:1])


def batch_normalization(call: Call) -> Form:
    """Refuse training; momentum has no meaning without it."""
    call.require("training_mode", 0)
    call.require("spatial", 1)
    return Form("BatchNormalization", call.inputs, {"epsilon": call.attribute("epsilon", float)})


def layer_normalization(call: Call) -> Form:
    """Refuse sums in another type than float32."""
    call.require("stash_type", 1)
    return Form(
        "LayerNormalization", call.inputs, {"axis": call.axis(), "epsilon": call.attribute("epsilon", float)}
    )


def softmax(call: Call) -> Form:
    """Before version 13, all dimensions from `axis` on are taken together."""
    axis = call.axis()
    rows, columns = int(np.prod(call.shape[:axis])), int(np.prod(call.shape[axis:]))
    if call.opset >= 13 or columns == call.shape[axis]:
        return Form(call.op, call.inputs, {"axis": axis})
    matrix = TensorType((rows, columns), call.input_type(0).dtype)
    flat = Form("Flatten", call.inputs, {"axis": axis}, matrix)
    return Form("Reshape", (Form(call.op, (flat,), {"axis": 1}, matrix),), {"shape": call.shape})


def reduction(call: Call) -> Form:
    """Take axes from an attribute or an input; none means all, or nothing if so asked."""
    axes = call.integers("axes", 1)
    if not axes and call.attributes.get("noop_with_empty_axes"):
        if call.op not in WITHOUT_EFFECT_ON_ONE:
            raise RefusalError("noop_with_empty_axes without axes is not supported")
        return Form("Identity", call.inputs[:1])
    found = distinct_axes(axes, call.rank) if axes else tuple(range(call.rank))
    return Form(call.op, call.inputs[:1], {"axes": found, "keepdims": call.integer("keepdims")})


def range_(call: Call) -> Form:
    """Refuse sums in another type than float32."""
    call.require("stash_type", 1)
    return Form("Range", call.inputs)


def space_to_depth(call: Call) -> Form:
    """Fill in the order that was the only one in old versions."""
    return Form(
        "SpaceToDepth",
        call.inputs,
        {"blocksize": call.integer("blocksize"), "mode": call.attribute("mode", str, "DCR")},
    )


def arg(call: Call) -> Form:
    """Fill in what version 12 added."""
    last = call.integer("select_last_index", 0)
    return Form(
        call.op,
        call.inputs,
        {"axis": call.axis(), "keepdims": call.integer("keepdims"), "select_last_index": last},
    )


IMPORTERS: dict[str, Importer] = {
    **dict.fromkeys(UNCHANGED, unchanged),
    **dict.fromkeys(REDUCTIONS, reduction),
    "ArgMax": arg,
    "ArgMin": arg,
    "BatchNormalization": batch_normalization,
    "Cast": cast,
    "CastLike": cast,
    "Clip": clip,
    "Dropout": dropout,
    "LayerNormalization": layer_normalization,
    "LogSoftmax": softmax,
    "Range": range_,
    "Softmax": softmax,
    "SpaceToDepth": space_to_depth,
}
