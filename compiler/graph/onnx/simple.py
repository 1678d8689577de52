"""Import of operators with few changes over the versions: elementwise, normalisation, reductions, products.

Source: ONNX operator specification and its changelog.
"""

import numpy as np

from vdla.compiler.graph.nodes import TensorType
from vdla.compiler.graph.onnx.call import Form, Importer, OnnxCall, RefusalError, distinct_axes
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


def unchanged(call: OnnxCall) -> Form:
    """Import an operator with its inputs and attributes unchanged."""
    more = sorted(set(call.attributes) - set(attributes_of(call.op)))
    if more:
        raise RefusalError(f"attribute {more[0]} is not supported")
    return Form(call.op, call.inputs, {name: call.plain(name) for name in attributes_of(call.op)})


def cast(call: OnnxCall) -> Form:
    """Import a Cast; saturation and rounding modes apply only to unsupported types."""
    return Form("Cast", call.inputs[:1], {"to": call.output_type.dtype})


def clip(call: OnnxCall) -> Form:
    """Import a Clip with bounds from attributes or inputs; a missing bound is the limit of the type."""
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


def dropout(call: OnnxCall) -> Form:
    """Import a Dropout; refuse training mode."""
    if call.has(2) and call.known(2, "training_mode").item():
        raise RefusalError("training_mode is true; export the network for inference")
    return Form("Dropout", call.inputs[:1])


def batch_normalization(call: OnnxCall) -> Form:
    """Import a BatchNormalization; refuse training mode. Momentum is ignored in inference."""
    call.require("training_mode", 0)
    call.require("spatial", 1)
    return Form("BatchNormalization", call.inputs, {"epsilon": call.attribute("epsilon", float)})


def layer_normalization(call: OnnxCall) -> Form:
    """Import a LayerNormalization; refuse accumulation in another type than float32."""
    call.require("stash_type", 1)
    return Form(
        "LayerNormalization", call.inputs, {"axis": call.axis(), "epsilon": call.attribute("epsilon", float)}
    )


def softmax(call: OnnxCall) -> Form:
    """Import Softmax and LogSoftmax; before version 13, the dimensions from `axis` on are flattened."""
    axis = call.axis()
    rows, columns = int(np.prod(call.shape[:axis])), int(np.prod(call.shape[axis:]))
    if call.opset >= 13 or columns == call.shape[axis]:
        return Form(call.op, call.inputs, {"axis": axis})
    matrix = TensorType((rows, columns), call.input_type(0).dtype)
    flat = Form("Flatten", call.inputs, {"axis": axis}, matrix)
    return Form("Reshape", (Form(call.op, (flat,), {"axis": 1}, matrix),), {"shape": call.shape})


def reduction(call: OnnxCall) -> Form:
    """Import a reduction with axes from an attribute or an input.

    Without axes it reduces all dimensions; with `noop_with_empty_axes`, none.
    """
    axes = call.integers("axes", 1)
    if not axes and call.attributes.get("noop_with_empty_axes"):
        if call.op not in WITHOUT_EFFECT_ON_ONE:
            raise RefusalError("noop_with_empty_axes without axes is not supported")
        return Form("Identity", call.inputs[:1])
    reduced = distinct_axes(axes, call.rank) if axes else tuple(range(call.rank))
    return Form(call.op, call.inputs[:1], {"axes": reduced, "keepdims": call.integer("keepdims")})


def range_(call: OnnxCall) -> Form:
    """Import a Range; refuse accumulation in another type than float32."""
    call.require("stash_type", 1)
    return Form("Range", call.inputs)


def space_to_depth(call: OnnxCall) -> Form:
    """Import a SpaceToDepth; older versions always have the mode DCR."""
    return Form(
        "SpaceToDepth",
        call.inputs,
        {"blocksize": call.integer("blocksize"), "mode": call.attribute("mode", str, "DCR")},
    )


def arg_extreme(call: OnnxCall) -> Form:
    """Import ArgMax and ArgMin; `select_last_index` is 0 before version 12."""
    last = call.integer("select_last_index", 0)
    return Form(
        call.op,
        call.inputs,
        {"axis": call.axis(), "keepdims": call.integer("keepdims"), "select_last_index": last},
    )


IMPORTERS: dict[str, Importer] = {
    **dict.fromkeys(UNCHANGED, unchanged),
    **dict.fromkeys(REDUCTIONS, reduction),
    "ArgMax": arg_extreme,
    "ArgMin": arg_extreme,
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
