"""Export of graphs for other tools, as models of a fixed ONNX operator set."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    defs,
    helper,
    numpy_helper,
    version_converter,
)

from vdla.compiler.graph.nodes import Graph, GraphError, Node, TakenNames
from vdla.compiler.graph.onnx.operators import AS_INPUTS
from vdla.compiler.graph.onnx.part_models import same_in
from vdla.compiler.graph.onnx.read import MAIN_DOMAINS
from vdla.compiler.graph.onnx.subgraphs import graphs_within
from vdla.compiler.graph.onnx.tensors import ONNX_ERRORS, proto_of
from vdla.runtime.host.onnx_runtime import PART

OPSET, IR_VERSION = 23, 11
OF_THE_ELEMENTS = ("max", "min", "value")  # inputs of the first input's element type; others are int64


def export(graph: Graph) -> ModelProto:
    """Return a graph as a model of operator set `OPSET`; values keep their names.

    Repeated names of nodes get a number. Parts that onnxruntime runs are expanded into their nodes.

    Raises:
        GraphError: ONNX lacks an operator or an attribute, or the nodes of a part cannot be converted to that
            operator set.
    """
    models = {node.inputs[0] for node in graph.nodes if node.op == PART}
    constants = {name: array for name, array in graph.constants.items() if name not in models}
    nodes: list[NodeProto] = []
    tensors: list[TensorProto] = []
    opsets, taken = {"": OPSET}, TakenNames(graph.types)
    for node in graph.nodes:
        if node.op == PART:
            part = unfolded(node, graph.constants[node.inputs[0]].tobytes(), OPSET, taken)
            nodes += part.graph.node
            tensors += part.graph.initializer
            opsets = {**opsets, **{entry.domain: entry.version for entry in part.opset_import}, "": OPSET}
        else:
            nodes.append(_node(graph, node, constants, taken))
    weights = [*(numpy_helper.from_array(array, name) for name, array in constants.items()), *tensors]
    inputs, outputs = (
        [helper.make_value_info(name, proto_of(graph.types[name])) for name in names]
        for names in (graph.inputs, graph.outputs)
    )
    node_names = TakenNames()
    for proto in nodes:  # onnxruntime refuses repeated names
        proto.name = proto.name and node_names.take(proto.name)
    body = helper.make_graph(nodes, graph.name, inputs, outputs, weights)
    versions = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return helper.make_model(body, opset_imports=versions, ir_version=IR_VERSION)


def _node(graph: Graph, node: Node, constants: dict[str, np.ndarray], taken: TakenNames) -> NodeProto:
    """Return a node; attributes that are inputs in ONNX are added to `constants`, their names to `taken`."""
    if node.op == "Resize":
        return _resize(graph, node, constants, taken)
    if not defs.has(node.op, OPSET, ""):
        raise GraphError(f"{node} cannot be exported: operator set {OPSET} of ONNX has no operator {node.op}")
    inputs, moved = list(node.inputs), AS_INPUTS.get(node.op, ())
    for name in moved:
        inputs.append(taken.take(f"{node.result}_{name}"))
        dtype = graph.types[node.inputs[0]].dtype if name in OF_THE_ELEMENTS else "int64"
        constants[inputs[-1]] = np.array(node.attributes[name], dtype)
    proto = helper.make_node(node.op, inputs, _outputs(node, taken), node.name)
    proto.attribute.extend(_attributes(node, moved))
    return proto


def _outputs(node: Node, taken: TakenNames) -> tuple[str, ...]:
    """Return the outputs of a node; for a Split, unused outputs get names too."""
    if node.op != "Split":
        return node.outputs
    names = [*node.outputs, *[""] * (len(node.extents("split")) - len(node.outputs))]
    unread = f"{next(filter(None, names))}_unread"
    return tuple(name or taken.take(f"{unread}_{place}") for place, name in enumerate(names))


def _resize(graph: Graph, node: Node, constants: dict[str, np.ndarray], taken: TakenNames) -> NodeProto:
    """Return a Resize with its scales if they yield its sizes, else with its sizes."""
    values: dict[str, Any] = dict(node.attributes)
    scales, sizes = (np.array(values.pop(name), dtype) for name, dtype in (("scales", "f4"), ("sizes", "i8")))
    by_scales = np.array_equal(np.floor(np.array(graph.types[node.inputs[0]].shape) * scales), sizes)
    name = taken.take(f"{node.result}_extents")
    constants[name] = scales if by_scales else sizes
    inputs = [node.inputs[0], "", name] if by_scales else [node.inputs[0], "", "", name]
    return helper.make_node("Resize", inputs, node.outputs, node.name, mode="nearest", **values)


def _attributes(node: Node, moved: tuple[str, ...]) -> Iterator[AttributeProto]:
    known = defs.get_schema(node.op, OPSET, "").attributes
    for name, value in node.attributes.items():
        if name in moved:
            continue
        if name not in known:
            raise GraphError(f"{node} cannot be exported: {node.op} of ONNX has no attribute {name}")
        if node.op == "Cast":
            value = helper.np_dtype_to_tensor_dtype(np.dtype(str(value)))
        yield helper.make_attribute(name, value, attr_type=known[name].type.value)


# Parts that onnxruntime runs


def unfolded(node: Node, model: bytes, opset: int, taken: TakenNames) -> ModelProto:
    """Return the model of a part, in version `opset` of the main operator set, with unique names of values.

    Args:
        node: the graph's node that runs the part.
        model: the serialised model of the part.
        opset: the version.
        taken: names of the graph's values; the names of the part's inner values are added.

    Raises:
        GraphError: an operator differs in that version, and cannot be converted.
    """
    proto = _in_version(node, ModelProto.FromString(model), opset)
    graph = proto.graph
    names = dict(zip((value.name for value in graph.input), node.inputs[1:], strict=True))
    names |= dict(zip((value.name for value in graph.output), node.outputs, strict=True))
    for inner in graphs_within(graph):
        results = (name for each in inner.node for name in each.output if name)
        for name in (*(value.name for value in _named(inner)), *results):
            if name not in names:
                names[name] = taken.take(name)
    for inner in graphs_within(graph):
        _rename(inner, names)
    return proto


def _in_version(node: Node, proto: ModelProto, opset: int) -> ModelProto:
    version = next((entry.version for entry in proto.opset_import if entry.domain in MAIN_DOMAINS), opset)
    nodes = (node for graph in graphs_within(proto.graph) for node in graph.node)
    if all(node.domain not in MAIN_DOMAINS or same_in(node.op_type, version, opset) for node in nodes):
        return proto
    try:
        return version_converter.convert_version(proto, opset)
    except ONNX_ERRORS as error:
        raise GraphError(
            f"{node} cannot be exported: its operators of operator set {version} cannot be converted to "
            f"{opset}: {' '.join(str(error).split())}"
        ) from error


def _named(graph: GraphProto) -> tuple[ValueInfoProto | TensorProto, ...]:
    return (*graph.input, *graph.initializer, *graph.output)


def _rename(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Rename the values of a graph, but not the values of its subgraphs."""
    del graph.value_info[:]
    for value in _named(graph):
        value.name = names[value.name]
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
