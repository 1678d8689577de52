"""Names of values in a graph."""

from onnx import GraphProto


def names_read(graph: GraphProto) -> set[str]:
    """Return the names that nodes read, those in their branches included."""
    found = {name for node in graph.node for name in node.input}
    for node in graph.node:
        for attribute in node.attribute:
            found |= names_read(attribute.g) | {output.name for output in attribute.g.output}
    return found
