"""Expansion of the parts that onnxruntime runs into their ONNX nodes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, version_converter

from vdla.compiler.graph.nodes import GraphError, Node, TakenNames
from vdla.compiler.graph.onnx.part_models import same_in
from vdla.compiler.graph.onnx.read import MAIN_DOMAINS
from vdla.compiler.graph.onnx.subgraphs import nodes_within, subgraphs


@dataclass(frozen=True, slots=True)
class Unfolded:
    """The nodes of a part, renamed for the enclosing graph.

    Attributes:
        nodes: in topological order; inputs and outputs have the graph's names.
        constants: the initializers of the part, with unique names.
        opsets: versions of operator sets by domain, without the main operator set.
    """

    nodes: tuple[NodeProto, ...]
    constants: tuple[TensorProto, ...]
    opsets: Mapping[str, int]


def unfolded(node: Node, model: bytes, opset: int, taken: TakenNames) -> Unfolded:
    """Return the nodes of a part, converted to version `opset` of the main operator set.

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
    for name in dict.fromkeys(_value_names(graph)):
        if name not in names:
            names[name] = taken.take(name)
    _rename(graph, names)
    entries = (entry for entry in proto.opset_import if entry.domain not in MAIN_DOMAINS)
    opsets = {entry.domain: entry.version for entry in entries}
    return Unfolded(tuple(graph.node), tuple(graph.initializer), opsets)


def _in_version(node: Node, proto: ModelProto, opset: int) -> ModelProto:
    version = next((entry.version for entry in proto.opset_import if entry.domain in MAIN_DOMAINS), opset)
    nodes = (inner for outer in proto.graph.node for inner in nodes_within(outer))
    if all(inner.domain not in MAIN_DOMAINS or same_in(inner.op_type, version, opset) for inner in nodes):
        return proto
    try:
        return version_converter.convert_version(proto, opset)
    except (RuntimeError, ValueError) as error:
        raise GraphError(
            f"{node} cannot be exported: its operators of operator set {version} cannot be converted to "
            f"{opset}: {' '.join(str(error).split())}"
        ) from error


def _value_names(graph: GraphProto) -> Iterator[str]:
    """Yield the names of the values of a graph and its subgraphs; names may repeat."""
    yield from (value.name for part in (graph.input, graph.initializer, graph.output) for value in part)
    for node in graph.node:
        yield from filter(None, node.output)
        for _, inner in subgraphs(node):
            yield from _value_names(inner)


def _rename(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Rename all values of a graph and its subgraphs."""
    for part in (graph.input, graph.initializer, graph.output):
        for value in part:
            value.name = names[value.name]
    del graph.value_info[:]
    for node in graph.node:
        node.input[:] = _renamed(node.input, names)
        node.output[:] = _renamed(node.output, names)
        for _, inner in subgraphs(node):
            _rename(inner, names)


def _renamed(values: Sequence[str], names: Mapping[str, str]) -> list[str]:
    return [names[name] if name else "" for name in values]
