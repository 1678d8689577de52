"""Types of a node's outputs, by ONNX's shape inference on the node with its known inputs."""

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import NodeProto, TypeProto, defs, helper, numpy_helper, shape_inference

from vdla.compiler.graph.nodes import TensorType
from vdla.compiler.graph.onnx.call import InvalidError, RefusalError
from vdla.compiler.graph.onnx.subgraphs import nodes_within
from vdla.compiler.graph.onnx.tensors import ONNX_ERRORS, first_line, proto_of, type_from

PARAMETER_ELEMENTS = 1024
POSITIVE = ("blocksize", "dilations", "group", "kernel_shape", "num_outputs", "size", "strides")
BOUNDED = (*POSITIVE, "axes", "axis", "output_padding", "output_shape", "pads", "perm")
POOLS = ("AveragePool", "LpPool", "MaxPool")
LARGEST_ATTRIBUTE = 1 << 31
SPELLING = {"float32": "float", "float64": "double"}


def output_types(
    node: NodeProto,
    schema: defs.OpSchema,
    opset: int,
    types: Sequence[TensorType | None],
    values: Sequence[np.ndarray | None],
    needed: int,
) -> tuple[TensorType | None, ...]:
    """Return the types of the outputs of a node.

    Args:
        node: the node.
        schema: its operator's schema.
        opset: version of the main operator set.
        types: types of the inputs; None for an input that is left out.
        values: values of the inputs; None for a value that is not known.
        needed: the number of outputs that must have a type; further outputs may have None.

    Raises:
        RefusalError: the number or a type of the inputs is invalid, or a shape cannot be inferred.
    """
    check_inputs(schema, types)
    known = {name: proto_of(type_) for name, type_ in zip(node.input, types, strict=False) if type_}
    small = {
        name: numpy_helper.from_array(value)
        for name, value in zip(node.input, values, strict=False)
        if value is not None and value.size <= PARAMETER_ELEMENTS
    }
    try:
        inferred = shape_inference.infer_node_outputs(
            schema, node, known, small, opset_imports=[helper.make_opsetid("", opset)]
        )
    except ONNX_ERRORS as error:
        raise RefusalError(f"its shape cannot be inferred: {first_line(error)}") from error
    outputs = tuple(_output(name, inferred, place < needed) for place, name in enumerate(node.output))
    if node.op_type not in POOLS or types[0] is None:
        return outputs
    inp = types[0]
    return tuple(None if out is None else _without_outer_windows(node, inp, out) for out in outputs)


def _without_outer_windows(node: NodeProto, inp: TensorType, out: TensorType) -> TensorType:
    """Return the type of a pooling's result without windows that begin beyond the padded image.

    ONNX's shape inference counts such windows if `ceil_mode` rounds their number up.
    """
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    if not attributes.get("ceil_mode") or attributes.get("auto_pad", b"NOTSET") != b"NOTSET":
        return out
    sizes = inp.shape[2:]
    strides, pads = (attributes.get(name) for name in ("strides", "pads"))
    kept = (
        windows - ((windows - 1) * stride >= size + before)
        for windows, stride, size, before in zip(
            out.shape[2:], strides or [1] * len(sizes), sizes, pads or [0] * len(sizes), strict=False
        )
    )
    return TensorType((*out.shape[:2], *kept), out.dtype)


def _output(name: str, inferred: Mapping[str, TypeProto], is_needed: bool) -> TensorType | None:
    try:
        if name not in inferred:
            raise RefusalError("its shape is dynamic")
        return type_from(inferred[name])
    except RefusalError as error:
        if is_needed:
            raise RefusalError(f"output {name!r}: {error}") from None
        return None


def check_references(node: NodeProto) -> None:
    """Check that no attribute of a node, or of its subgraphs, refers to an attribute of a model function.

    Raises:
        InvalidError: an attribute has a reference in place of a value; functions were inlined before.
    """
    for attribute in (each for inner in nodes_within(node) for each in inner.attribute):
        if attribute.ref_attr_name:
            raise InvalidError(
                f"attribute {attribute.name!r} refers to attribute {attribute.ref_attr_name!r} of a model "
                "function, but the node is in no function; give the attribute a value"
            )


def check_attributes(attributes: Mapping[str, object]) -> None:
    """Check attributes whose values ONNX's shape inference does not check.

    Raises:
        RefusalError: an attribute is not positive, or beyond any tensor.
    """
    for name, value in attributes.items():
        given = value if isinstance(value, tuple) else (value,)
        numbers = [number for number in given if isinstance(number, int)]
        if name in POSITIVE and min(numbers, default=1) < 1:
            raise RefusalError(f"attribute {name} = {value!r} must be positive")
        if name in BOUNDED and max(map(abs, numbers), default=0) >= LARGEST_ATTRIBUTE:
            raise RefusalError(f"attribute {name} = {value!r} is beyond any tensor")


def check_inputs(schema: defs.OpSchema, types: Sequence[TensorType | None]) -> None:
    """Check the number and the types of the inputs of an operator.

    Raises:
        RefusalError: they do not match the schema.
    """
    if not schema.min_input <= len(types) <= schema.max_input:
        raise RefusalError(
            f"it has {len(types)} inputs; {schema.name} takes {schema.min_input} to {schema.max_input}"
        )
    bound: dict[str, str] = {}
    for place, type_ in enumerate(types):
        formal = schema.inputs[min(place, len(schema.inputs) - 1)]  # the last may be variadic
        if type_ is None:
            if formal.option == defs.OpSchema.FormalParameterOption.Single:
                raise RefusalError(f"its input {place} ({formal.name}) is missing")
            continue
        kind = f"tensor({SPELLING.get(type_.dtype, type_.dtype)})"
        if kind not in formal.types:
            raise RefusalError(
                f"its input {place} ({formal.name}) is {type_}, which {schema.name} does not take"
            )
        if formal.is_homogeneous and bound.setdefault(formal.type_str, kind) != kind:
            raise RefusalError(
                f"its input {place} ({formal.name}) is {type_}, but an input before it is "
                f"{bound[formal.type_str]}"
            )
