"""Extraction of a part of a model, delimited by values that become its inputs and outputs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, helper, shape_inference

from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.read import OnnxModel
from vdla.compiler.graph.onnx.subgraphs import reads
from vdla.compiler.graph.onnx.tensors import extents_of, first_line
from vdla.compiler.graph.section import WHOLE, Section
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
    _check_names(model, section, shapes)
    places, needed = dependencies(graph, outputs, section.inputs)
    inputs = section.inputs or tuple(value.name for value in runtime_inputs(graph) if value.name in needed)
    _check_inputs(model, outputs, inputs, needed)
    types = _types(model, inputs, outputs, shapes)
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


def _values(graph: GraphProto) -> list[str]:
    """Return the names of all inputs, initializers and results of nodes."""
    results = (name for node in graph.node for name in node.output if name)
    given = (value.name for value in (*graph.input, *graph.initializer))
    return list(dict.fromkeys((*given, *results)))


def _check_names(model: OnnxModel, section: Section, shapes: Shapes) -> None:
    """Refuse unknown names, repeated names, and shapes of values that are not inputs."""
    known = _values(model.proto.graph)
    for kind, names in (("inputs", section.inputs), ("outputs", section.outputs)):
        for name in names:
            if name not in known:
                raise _error(
                    model,
                    f"{kind} names {name!r}, which the model does not have; {_suggestions(name, known)}",
                )
            if names.count(name) > 1:
                raise _error(model, f"{kind} names {name!r} twice")
    both = [name for name in section.inputs if name in section.outputs]
    if both:
        raise _error(model, f"{both[0]!r} is named as an input and as an output")
    inputs = [*section.inputs, *(value.name for value in runtime_inputs(model.proto.graph))]
    for name in shapes:
        if name not in inputs:
            raise _error(
                model, f"shapes names {name!r}, which is not an input; there are {', '.join(inputs)}"
            )


def _check_inputs(
    model: OnnxModel, outputs: Sequence[str], inputs: Sequence[str], needed: Collection[str]
) -> None:
    """Refuse unused inputs, and outputs that depend on further inputs."""
    unused = [name for name in inputs if name not in needed]
    if unused:
        raise _error(
            model, f"{', '.join(outputs)} can be computed without the input {unused[0]!r}; leave it out"
        )
    missing = [
        value.name
        for value in runtime_inputs(model.proto.graph)
        if value.name in needed and value.name not in inputs
    ]
    if missing:
        raise _error(
            model,
            f"{', '.join(outputs)} also depend on the input {missing[0]!r}; name it, or a value between, "
            "among the inputs",
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


def _types(
    model: OnnxModel, inputs: Sequence[str], outputs: Sequence[str], shapes: Shapes
) -> dict[str, ValueInfoProto]:
    """Return the types of values that become inputs or outputs, as far as they are known."""
    types = _stated(model.proto.graph)
    computed = {*inputs} - {value.name for value in model.proto.graph.input}
    if any(name not in types or not _is_static(types[name]) for name in computed):
        types |= _stated(_inferred(model, shapes).graph)
    unknown = [name for name in inputs if not types.get(name, ValueInfoProto()).type.WhichOneof("value")]
    if unknown:
        raise _error(
            model,
            f"the type of {unknown[0]!r} is not known; let the file state it (onnx.shape_inference), or cut "
            "at another value",
        )
    return {name: types[name] for name in (*inputs, *outputs) if name in types}


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
    except (RuntimeError, ValueError, shape_inference.InferenceError) as error:
        raise _error(model, f"the types of its values cannot be inferred: {first_line(error)}") from error


def _suggestions(name: str, known: Sequence[str]) -> str:
    """Return the known names as text: all if they are few, else the names nearest to `name`."""
    if len(known) <= SHOWN:
        return f"there are {', '.join(known)}"
    near = get_close_matches(name, known, SHOWN) or known[:SHOWN]
    return f"of its {len(known)} values, these come nearest: {', '.join(near)}"


def _error(model: OnnxModel, problem: str) -> GraphError:
    return GraphError(f"{model.label}: {problem}")
