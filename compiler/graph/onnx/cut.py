"""Extraction of a part of a model, delimited by values that become its inputs and outputs."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, helper, shape_inference

from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.read import OnnxModel
from vdla.compiler.graph.onnx.subgraphs import reads
from vdla.compiler.graph.onnx.tensors import ONNX_ERRORS, extents_of, first_line
from vdla.compiler.graph.source import WHOLE, Section
from vdla.runtime.host.dtypes import UNKNOWN

SHOWN = 8  # values that a message lists

Shapes = Mapping[str, tuple[int, ...]]


def cut(model: OnnxModel, section: Section, shapes: Shapes) -> tuple[OnnxModel, dict[str, tuple[int, ...]]]:
    """Return a part of a model, and the shapes of its inputs.

    Args:
        section: the part.
        shapes: shapes in place of dynamic shapes, by inputs of the model or of the part.

    Raises:
        GraphError: a value does not exist, is named twice, is not needed or has no known type; or an output
            depends on another input.
    """
    if section == WHOLE:
        return model, dict(shapes)
    graph = model.proto.graph
    outputs = section.outputs or tuple(value.name for value in graph.output)
    _refuse(model, _name_problems(graph, section, shapes))
    places, needed = dependencies(graph, outputs, section.inputs)
    inputs = section.inputs or tuple(value.name for value in runtime_inputs(graph) if value.name in needed)
    _refuse(model, _input_problems(graph, outputs, inputs, needed))
    types = _types(model, inputs, shapes)
    nodes = [graph.node[place] for place in sorted(places)]
    read = {name for node in nodes for name in reads(node)} | set(outputs)
    body = helper.make_graph(
        nodes,
        graph.name,
        [types[name] for name in inputs],
        [types.get(name, ValueInfoProto(name=name)) for name in outputs],
        [tensor for tensor in graph.initializer if tensor.name in read and tensor.name not in inputs],
        value_info=graph.value_info,
        sparse_initializer=graph.sparse_initializer,
    )
    whole = model.proto
    proto = helper.make_model(body, ir_version=whole.ir_version, opset_imports=whole.opset_import)
    return replace(model, proto=proto), {name: shape for name, shape in shapes.items() if name in inputs}


def runtime_inputs(graph: GraphProto) -> list[ValueInfoProto]:
    """Return the inputs that are not initializers."""
    constant = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in constant]


def _refuse(model: OnnxModel, problems: Iterable[str]) -> None:
    """Raise the first problem, if any."""
    for problem in problems:
        raise GraphError(f"{model.label}: {problem}")


def _name_problems(graph: GraphProto, section: Section, shapes: Shapes) -> Iterator[str]:
    """Yield a sentence for each unknown or repeated name, and each shape of a value that is not an input."""
    results = (name for node in graph.node for name in node.output if name)
    known = list(dict.fromkeys((*(value.name for value in (*graph.input, *graph.initializer)), *results)))
    for kind, names in (("inputs", section.inputs), ("outputs", section.outputs)):
        for name in names:
            if name not in known:
                yield f"{kind} names {name!r}, which the model does not have; {_suggestions(name, known)}"
            if names.count(name) > 1:
                yield f"{kind} names {name!r} twice"
    for name in section.inputs:
        if name in section.outputs:
            yield f"{name!r} is named as an input and as an output"
    inputs = [*section.inputs, *(value.name for value in runtime_inputs(graph))]
    for name in shapes:
        if name not in inputs:
            yield f"shapes names {name!r}, which is not an input; there are {', '.join(inputs)}"


def _input_problems(
    graph: GraphProto, outputs: Sequence[str], inputs: Sequence[str], needed: Collection[str]
) -> Iterator[str]:
    """Yield a sentence for each unused input, and for each further input that outputs depend on."""
    listed = ", ".join(outputs)
    for name in inputs:
        if name not in needed:
            yield f"{listed} can be computed without the input {name!r}; leave it out"
    for value in runtime_inputs(graph):
        if value.name in needed and value.name not in inputs:
            yield (
                f"{listed} also depend on the input {value.name!r}; name it, or a value between, among the "
                "inputs"
            )


def dependencies(
    graph: GraphProto, outputs: Iterable[str], inputs: Collection[str]
) -> tuple[set[int], set[str]]:
    """Return the dependencies of outputs: positions of nodes, and names of values.

    Args:
        inputs: values whose producers are not followed.
    """
    makers = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    waiting, places, needed = list(outputs), set[int](), set[str]()
    while waiting:
        name = waiting.pop()
        if name in needed:
            continue
        needed.add(name)
        place = makers.get(name)
        if name not in inputs and place is not None and place not in places:
            places.add(place)
            waiting += reads(graph.node[place])
    return places, needed


def _types(model: OnnxModel, inputs: Sequence[str], shapes: Shapes) -> dict[str, ValueInfoProto]:
    """Return the types of values as far as they are known; refuse inputs of unknown type."""
    types = _stated(model.proto.graph)
    computed = {*inputs} - {value.name for value in model.proto.graph.input}
    if any(name not in types or not _is_static(types[name]) for name in computed):
        types |= _stated(_inferred(model, shapes).graph)
    unknown = (name for name in inputs if not types.get(name, ValueInfoProto()).type.WhichOneof("value"))
    advice = "let the file state it (onnx.shape_inference), or cut at another value"
    _refuse(model, (f"the type of {name!r} is not known; {advice}" for name in unknown))
    return types


def _stated(graph: GraphProto) -> dict[str, ValueInfoProto]:
    """Return the types that a graph states."""
    constants = {
        tensor.name: helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in graph.initializer
    }
    return constants | {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}


def _is_static(value: ValueInfoProto) -> bool:
    extents = extents_of(value.type)
    is_typed = value.type.tensor_type.elem_type != TensorProto.UNDEFINED
    return is_typed and extents is not None and UNKNOWN not in extents


def _inferred(model: OnnxModel, shapes: Shapes) -> ModelProto:
    """Return the model with inferred types of its values, with `shapes` for its inputs."""
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    for value in proto.graph.input:
        if value.name in shapes:
            shape = helper.make_tensor_type_proto(value.type.tensor_type.elem_type, shapes[value.name])
            value.type.CopyFrom(shape)
    try:
        return shape_inference.infer_shapes(proto, data_prop=True)
    except ONNX_ERRORS as error:
        message = f"{model.label}: the types of its values cannot be inferred: {first_line(error)}"
        raise GraphError(message) from error


def _suggestions(name: str, known: Sequence[str]) -> str:
    """Return the known names as text: all if they are few, else the names nearest to `name`."""
    if len(known) <= SHOWN:
        return f"there are {', '.join(known)}"
    near = get_close_matches(name, known, SHOWN) or known[:SHOWN]
    return f"of its {len(known)} values, these come nearest: {', '.join(near)}"
