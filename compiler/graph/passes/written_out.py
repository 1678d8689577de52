"""Recognising the pieces of which networks make an operator: numbers and squares."""

from vdla.compiler.graph.nodes import Graph, Node


def number(graph: Graph, name: str) -> float | None:
    """Return a constant of one element; None for other values."""
    array = graph.constants.get(name)
    return float(array.item()) if array is not None and array.size == 1 else None


def squared(graph: Graph, node: Node | None) -> str | None:
    """Return the value that a node squares, by Pow or Mul; None where it does something else."""
    if node is None:
        return None
    if node.op == "Mul" and node.inputs[0] == node.inputs[1]:
        return node.inputs[0]
    return node.inputs[0] if node.op == "Pow" and number(graph, node.inputs[1]) == 2 else None
