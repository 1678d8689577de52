"""Names of values in a graph."""

from onnx import GraphProto


def names_read(graph: GraphProto) -> set[str]:
    """Return the names that nodes and their branches read."""
    names = {name for node in graph.node for name in node.input}
    for node in graph.node:
        for attribute in node.attribute:
            names |= names_read(attribute.g) | {output.name for output in attribute.g.output}
    return names
