"""Inputs fixed to a number: replacement by constants, and advice to fix the input that decides an If."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper

from vdla.compiler.graph.nodes import GraphError, TensorType
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.cut import Shapes, cut, dependencies, runtime_inputs
from vdla.compiler.graph.onnx.read import OnnxModel
from vdla.compiler.graph.onnx.tensors import type_from
from vdla.compiler.graph.source import Section

MOST_ELEMENTS = 1 << 20  # of a fixed input
MOST_NODES = 64  # between the inputs and the condition of an If
SHAPING = ("Expand", "Gather", "Reshape", "Slice", "Squeeze", "Unsqueeze")
"""Operators whose inputs after the first are shapes or positions, not data."""
BRANCHES = {True: "then_branch", False: "else_branch"}
SUBJECT = "an If chooses its branch while the network runs"


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
    inputs = {value.name: value for value in runtime_inputs(proto.graph)}
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
        type_ = type_from(value.type, shape)
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


# Advice


def advice(model: OnnxModel, node: NodeProto, types: Mapping[str, TensorType]) -> str:
    """Return why an If is left to the host, and how it can be decided at compile time.

    Args:
        node: the If.
        types: of the model's inputs, by the model's names.
    """
    graph = model.proto.graph
    places, needed = dependencies(graph, (node.input[0],), ())
    inputs = [value for value in runtime_inputs(graph) if value.name in needed]
    numbers = all(value.name in types and types[value.name].size == 1 for value in inputs)
    if not inputs or not numbers or len(places) > MOST_NODES:
        return f"{SUBJECT} by its data, which --fix cannot decide"
    name, *rest = [value.name for value in inputs]
    if rest:
        options = " ".join(f"--fix {each}=NUMBER" for each in (name, *rest))
        return f"{SUBJECT}: where its inputs {' and '.join((name, *rest))} never change, {options} decide it"
    if name == node.input[0]:
        constants, branches = [0.0, 1.0], {"then_branch": 1.0, "else_branch": 0.0}
    else:
        part = cut(model, Section((name,), (node.input[0],)), {})[0].proto
        constants = list(_numbers(part.graph))
        branches = _branches(part, name, types[name], constants)
    return f"{SUBJECT}: where its input {name} never changes, {_options(name, constants, branches)}"


def _options(name: str, constants: Sequence[float], branches: Mapping[str, float]) -> str:
    """Return the option that takes each branch; without branches, the option with a placeholder."""
    if not branches:
        return f"--fix {name}=NUMBER decides it"
    return ", ".join(
        f"--fix {name}={number:g} takes {branch}"
        if number in constants
        else f"another number (--fix {name}={number:g}) takes {branch}"
        for branch, number in branches.items()
    )


def _numbers(graph: GraphProto) -> Iterator[float]:
    """Yield the scalar constants of a graph, except shapes, positions and constants in external files."""
    shapes = {name for node in graph.node if node.op_type in SHAPING for name in node.input[1:]}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            values = [attribute.t for attribute in node.attribute if attribute.name == "value"]
            constants |= dict(zip(node.output, values, strict=False))
    for name, tensor in constants.items():
        if name in shapes or tensor.data_location == TensorProto.EXTERNAL or int(np.prod(tensor.dims)) != 1:
            continue
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind in "biuf":
            yield float(array.reshape(-1)[0])


def _branches(
    model: ModelProto, name: str, type_: TensorType, constants: Sequence[float]
) -> dict[str, float]:
    """Return, by the name of a branch of the If, a value of the input with which the If takes this branch.
    Branches that no tried value takes are missing.

    Constants of the condition are tried first, then their neighbours. The result is empty if the condition
    cannot be computed.
    """
    from onnx.reference import ReferenceEvaluator  # takes long to import

    neighbours = [number + step for number in constants for step in (1, -1)]
    numbers: dict[str, float] = {}
    try:
        evaluator = ReferenceEvaluator(model)
        for number in dict.fromkeys((*constants, *neighbours, 0.0, 1.0)):
            array = np.full(type_.shape, number).astype(type_.dtype)
            if array.size and float(array.reshape(-1)[0]) == number:
                (condition,) = evaluator.run(None, {name: array})
                numbers.setdefault(BRANCHES[bool(np.all(condition))], number)
    except Exception:  # the evaluator raises various exceptions for unsupported operators
        return {}
    return {branch: numbers[branch] for branch in BRANCHES.values() if branch in numbers}
