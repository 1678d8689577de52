"""Parts that onnxruntime runs, as the nodes that they are made of."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, version_converter

from vdla.compiler.graph.nodes import GraphError, Node, TakenNames
from vdla.compiler.graph.onnx.part import same_in
from vdla.compiler.graph.onnx.read import MAIN_DOMAINS
from vdla.compiler.graph.onnx.subgraphs import nodes_within, subgraphs


@dataclass(frozen=True, slots=True)
class Unfolded:
    """A part in terms of a larger graph.

    Attributes:
        nodes: in order, with the names of the graph.
        constants: that they read, with names that nothing else has.
        opsets: versions of the operator sets beside the main one, by domain.
    """

    nodes: tuple[NodeProto, ...]
    constants: tuple[TensorProto, ...]
    opsets: Mapping[str, int]


def unfolded(node: Node, model: bytes, opset: int, taken: TakenNames) -> Unfolded:
    """Return the nodes of a part in a version of the main operator set.

    Args:
        node: that stands for the part.
        model: of the part.
        taken: names of the graph, which nothing within the part may have; the part's are added.

    Raises:
        GraphError: one of its operators is another one in that version, and cannot be converted.
    """
    proto = _in_version(node, ModelProto.FromString(model), opset)
    graph = proto.graph
    names = dict(zip((one.name for one in graph.input), node.inputs[1:], strict=True))
    names |= dict(zip((one.name for one in graph.output), node.outputs, strict=True))
    for name in dict.fromkeys(_made(graph)):
        if name not in names:
            names[name] = taken.take(name)
    _rename(graph, names)
    opsets = {one.domain: one.version for one in proto.opset_import if one.domain not in MAIN_DOMAINS}
    return Unfolded(tuple(graph.node), tuple(graph.initializer), opsets)


def _in_version(node: Node, proto: ModelProto, opset: int) -> ModelProto:
    own = next((one.version for one in proto.opset_import if one.domain in MAIN_DOMAINS), opset)
    inner = (one for outer in proto.graph.node for one in nodes_within(outer))
    if all(one.domain not in MAIN_DOMAINS or same_in(one.op_type, own, opset) for one in inner):
        return proto
    try:
        return version_converter.convert_version(proto, opset)
    except (RuntimeError, ValueError) as error:
        raise GraphError(
            f"{node} cannot be exported: its operators of operator set {own} cannot be converted to "
            f"{opset}: {' '.join(str(error).split())}"
        ) from error


def _made(graph: GraphProto) -> Iterator[str]:
    """Yield the names that a graph and its subgraphs give to values."""
    yield from (one.name for part in (graph.input, graph.initializer, graph.output) for one in part)
    for node in graph.node:
        yield from filter(None, node.output)
        for _, inner in subgraphs(node):
            yield from _made(inner)


def _rename(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Give all values of a graph and its subgraphs other names."""
    for part in (graph.input, graph.initializer, graph.output):
        for one in part:
            one.name = names[one.name]
    del graph.value_info[:]
    for node in graph.node:
        node.input[:] = _renamed(node.input, names)
        node.output[:] = _renamed(node.output, names)
        for _, inner in subgraphs(node):
            _rename(inner, names)


def _renamed(values: Sequence[str], names: Mapping[str, str]) -> list[str]:
    return [names[name] if name else "" for name in values]
