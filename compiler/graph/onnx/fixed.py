"""Replacement of fixed inputs of a model by constants."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np
from onnx import ModelProto, ValueInfoProto, numpy_helper

from vdla.compiler.graph.nodes import GraphError, TensorType
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.read import OnnxModel
from vdla.compiler.graph.onnx.tensors import type_from, type_with_shape
from vdla.compiler.graph.section import Section

MOST_ELEMENTS = 1 << 20

Shapes = Mapping[str, tuple[int, ...]]


def with_fixed(
    model: OnnxModel, section: Section, shapes: Shapes
) -> tuple[OnnxModel, Section, dict[str, tuple[int, ...]]]:
    """Replace the inputs that a section fixes by constants.

    Args:
        section: the section with the fixed inputs.
        shapes: shapes in place of dynamic shapes, by input.

    Returns:
        The model, the section without fixed inputs, and the shapes of the other inputs.

    Raises:
        GraphError: a fixed name is not an input or is repeated, its shape is not known, or its element type
            cannot represent the number.
    """
    if not section.fixed:
        return model, section, dict(shapes)
    values, left = dict(section.fixed), dict(shapes)
    if len(values) < len(section.fixed) or values.keys() & {*section.inputs}:
        names = [*(name for name, _ in section.fixed), *section.inputs]
        twice = next(name for name in names if names.count(name) > 1)
        raise GraphError(f"{model.label}: {twice!r} is fixed, and named as an input or fixed once more")
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    constant = {tensor.name for tensor in proto.graph.initializer}
    inputs = {value.name: value for value in proto.graph.input if value.name not in constant}
    for name, number in values.items():
        if name not in inputs:
            raise GraphError(
                f"{model.label}: {name!r} is fixed, but is not an input; there are "
                f"{', '.join(inputs) or 'none'}"
            )
        array = _filled(model, inputs[name], number, left.pop(name, None))
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
        proto.graph.input.remove(inputs[name])
    return replace(model, proto=proto), replace(section, fixed=()), left


def _filled(
    model: OnnxModel, value: ValueInfoProto, number: float, shape: tuple[int, ...] | None
) -> np.ndarray:
    """Return an array of the type of an input, filled with a number."""
    try:
        type_ = type_from(value.type) if shape is None else type_with_shape(value.type, shape)
    except RefusalError as error:
        raise GraphError(
            f"{model.label}: input {value.name!r} is fixed, but {error}; its shape can be given by "
            f"shapes={{{value.name!r}: (...)}}, or --shape {value.name}=..."
        ) from error
    if prod(type_.shape) > MOST_ELEMENTS or not _holds(type_, number):
        raise GraphError(
            f"{model.label}: input {value.name!r} is {type_}, which cannot be fixed to {number:g}: it must "
            f"have at most {MOST_ELEMENTS} elements, and its type must hold the number"
        )
    return np.full(type_.shape, number, type_.dtype)


def _holds(type_: TensorType, number: float) -> bool:
    """Whether a type can represent a number; floats may round it."""
    kind = np.dtype(type_.dtype).kind
    if kind == "f":
        return bool(np.isfinite(np.asarray(number, np.float64)))
    if kind == "b":
        return number in (0, 1)
    limits = np.iinfo(type_.dtype)
    return float(number).is_integer() and limits.min <= number <= limits.max
