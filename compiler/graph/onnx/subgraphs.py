"""Nodes with subgraphs (If, Loop, Scan): captured values, and renaming.

Source: ONNX intermediate representation, Graphs: a subgraph sees the names of the enclosing graphs, and no
name is defined twice.
"""

from collections.abc import Iterator, Mapping

from onnx import AttributeProto, GraphProto, NodeProto


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """Yield the subgraphs of a node, each with the name of its attribute."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from ((attribute.name, graph) for graph in attribute.graphs)


def nodes_within(node: NodeProto) -> Iterator[NodeProto]:
    """Yield a node and all nodes of its subgraphs."""
    yield node
    for _, outer in subgraphs(node):
        yield from (inner for graph in graphs_within(outer) for inner in graph.node)


def graphs_within(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph and all subgraphs of its nodes."""
    yield graph
    for node in graph.node:
        for _, inner in subgraphs(node):
            yield from graphs_within(inner)


def producers(graph: GraphProto) -> dict[int, set[int]]:
    """Return the positions of the nodes that compute what each node reads, by the node's position.

    If nodes compute the same value, the first of them counts.
    """
    makers: dict[str, int] = {}
    for place, node in enumerate(graph.node):
        for name in filter(None, node.output):
            makers.setdefault(name, place)
    return {
        place: {makers[name] for name in reads(node) if name in makers}
        for place, node in enumerate(graph.node)
    }


def reads(node: NodeProto) -> list[str]:
    """Return the distinct values that a node reads: its inputs, and values that its subgraphs capture."""
    inner = (name for _, graph in subgraphs(node) for name in captured(graph))
    return list(dict.fromkeys((*filter(None, node.input), *inner)))


def captured(graph: GraphProto) -> Iterator[str]:
    """Yield the values that a subgraph captures from outside; names may repeat."""
    defined, outputs = defined_names(graph), (value.name for value in graph.output)
    inner = (name for node in graph.node for name in reads(node))
    yield from (name for name in (*inner, *outputs) if name not in defined)


def defined_names(graph: GraphProto) -> set[str]:
    """Return the names that a graph defines: inputs, constants, and results of nodes."""
    results = {name for node in graph.node for name in node.output}
    sparse = {tensor.values.name for tensor in graph.sparse_initializer}
    return results | sparse | {value.name for value in (*graph.input, *graph.initializer)}


def renamed(node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    """Return a node with renamed values; captured values are renamed in its subgraphs."""
    copy = NodeProto()
    copy.CopyFrom(node)
    _rename(copy, names)
    return copy


def _rename(node: NodeProto, names: Mapping[str, str]) -> None:
    for values in (node.input, node.output):
        values[:] = [names.get(name, name) for name in values]
    for _, graph in subgraphs(node):
        defined = defined_names(graph)
        outer = {name: new for name, new in names.items() if name not in defined}
        for inner in graph.node:
            _rename(inner, outer)
        for value in graph.output:
            value.name = outer.get(value.name, value.name)
