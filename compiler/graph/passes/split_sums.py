"""Sums of several tensors become sums of two: `Sum(a, b, c)` is `Add(Add(a, b), c)`."""

from dataclasses import dataclass

from vdla.compiler.graph.integer_forms.early import becomes_another
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.rewrite import Rewriting


@dataclass(frozen=True, slots=True)
class SplitSums:
    """The pass; a sum of one tensor stays, as an identity."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with Add instead of Sum, where all operands have the result's shape."""
        made = Rewriting(graph)
        for node in graph.nodes:
            if _splits(graph, node):
                _split(made, node)
            else:
                made.nodes.append(node)
        return made.finished()


def _splits(graph: Graph, node: Node) -> bool:
    return node.op == "Sum" and len(node.inputs) > 1 and becomes_another(graph, node)


def _split(made: Rewriting, node: Node) -> None:
    """Append the sums of two that a sum is."""
    total, (out,) = node.inputs[0], node.outputs
    for place, name in enumerate(node.inputs[1:], 2):
        result = out if place == len(node.inputs) else made.value(f"{out}_{place}", made.graph.types[out])
        total = made.add("Add", (total, name), result, {}, node.name)
