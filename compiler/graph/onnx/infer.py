"""Types of a node's outputs, by ONNX's shape inference on one node with all known inputs."""

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import AttributeProto, NodeProto, TypeProto, checker, defs, helper, numpy_helper, shape_inference

from vdla.compiler.graph.nodes import TensorType
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.tensors import first_line, proto_of, type_from

PARAMETER_ELEMENTS = 1024
POSITIVE = ("blocksize", "dilations", "group", "kernel_shape", "num_outputs", "size", "strides")
BOUNDED = (*POSITIVE, "axes", "axis", "output_padding", "output_shape", "pads", "perm")
POOLS = ("AveragePool", "LpPool", "MaxPool")
LARGEST_ATTRIBUTE = 1 << 31
SPELLING = {"float32": "float", "float64": "double"}


NOT_INFERRED = (
    shape_inference.InferenceError,
    checker.ValidationError,
    RuntimeError,
    ValueError,
    KeyError,
)
"""What the inference of shapes raises."""


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
        types: of the inputs; None for one that is left out.
        values: of the inputs that are known.
        needed: how many outputs must have a type; others may have None.

    Raises:
        RefusalError: inputs are too few, too many, or of types that the operator does not take; a shape
            cannot be known.
    """
    check_inputs(schema, types)
    known = {name: proto_of(type_) for name, type_ in zip(node.input, types, strict=False) if type_}
    small = {
        name: numpy_helper.from_array(value)
        for name, value in zip(node.input, values, strict=False)
        if value is not None and value.size <= PARAMETER_ELEMENTS
    }
    try:
        found = shape_inference.infer_node_outputs(
            schema, node, known, small, opset_imports=[helper.make_opsetid("", opset)]
        )
    except NOT_INFERRED as error:
        raise RefusalError(f"its shape cannot be inferred: {first_line(error)}") from error
    outputs = tuple(_output(name, found, place < needed) for place, name in enumerate(node.output))
    if node.op_type not in POOLS or types[0] is None:
        return outputs
    given = types[0]
    return tuple(None if made is None else _begun(node, given, made) for made in outputs)


def _begun(node: NodeProto, given: TensorType, made: TensorType) -> TensorType:
    """Return the type of a pooling's result without windows that begin behind image and padding, which ONNX's
    inference counts where the number of windows is rounded up."""
    attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    if not attributes.get("ceil_mode") or attributes.get("auto_pad", b"NOTSET") != b"NOTSET":
        return made
    sizes = given.shape[2:]
    strides, pads = (attributes.get(name) for name in ("strides", "pads"))
    kept = (
        out - ((out - 1) * stride >= size + before)
        for out, stride, size, before in zip(
            made.shape[2:], strides or [1] * len(sizes), sizes, pads or [0] * len(sizes), strict=False
        )
    )
    return TensorType((*made.shape[:2], *kept), made.dtype)


def _output(name: str, found: Mapping[str, TypeProto], is_needed: bool) -> TensorType | None:
    try:
        if name not in found:
            raise RefusalError("its shape is dynamic")
        return type_from(found[name])
    except RefusalError as error:
        if is_needed:
            raise RefusalError(f"output {name!r}: {error}") from None
        return None


def check_attributes(attributes: Mapping[str, object]) -> None:
    """Refuse numbers that shape inference cannot be trusted with."""
    for name, value in attributes.items():
        given = value if isinstance(value, tuple) else (value,)
        numbers = [number for number in given if isinstance(number, int)]
        if name in POSITIVE and min(numbers, default=1) < 1:
            raise RefusalError(f"attribute {name} = {value!r} must be positive")
        if name in BOUNDED and max(map(abs, numbers), default=0) >= LARGEST_ATTRIBUTE:
            raise RefusalError(f"attribute {name} = {value!r} is beyond any tensor")


def check_inputs(schema: defs.OpSchema, types: Sequence[TensorType | None]) -> None:
    """Refuse inputs that the operator does not take."""
    if not schema.min_input <= len(types) <= schema.max_input:
        raise RefusalError(
            f"it has {len(types)} inputs; {schema.name} takes {schema.min_input} to {schema.max_input}"
        )
    bound: dict[str, str] = {}
    for place, type_ in enumerate(types):
        formal = schema.inputs[min(place, len(schema.inputs) - 1)]  # the last may stand for several
        if type_ is None:
            if formal.option == defs.OpSchema.FormalParameterOption.Single:
                raise RefusalError(f"its input {place} ({formal.name}) is missing")
            continue
        spelt = f"tensor({SPELLING.get(type_.dtype, type_.dtype)})"
        if spelt not in formal.types:
            raise RefusalError(
                f"its input {place} ({formal.name}) is {type_}, which {schema.name} does not take"
            )
        if formal.is_homogeneous and bound.setdefault(formal.type_str, spelt) != spelt:
            raise RefusalError(
                f"its input {place} ({formal.name}) is {type_}, but an input before it is "
                f"{bound[formal.type_str]}"
            )


def defaults_of(schema: defs.OpSchema) -> dict[str, AttributeProto]:
    """Return the attributes that have a default, as ONNX has them."""
    return {
        name: attribute.default_value
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }
