"""Sums of several tensors become sums of two: `Sum(a, b, c)` is `Add(Add(a, b), c)`."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from vdla.compiler.graph.nodes import Graph, Node, TensorType, fresh_name
from vdla.compiler.graph.rewrite import rebuilt


@dataclass(frozen=True, slots=True)
class SplitSums:
    """The pass; a sum of one tensor stays, as an identity."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with Add instead of Sum, where all operands have the result's shape."""
        types = _Types(graph)
        nodes = [part for node in graph.nodes for part in (types.split(node) if _splits(graph, node) else (node,))]
        return rebuilt(graph, nodes, types=types.made)


def _splits(graph: Graph, node: Node) -> bool:
    return node.op == "Sum" and len(node.inputs) > 1 and all(graph.types[name] == graph.types[node.outputs[0]] for name in node.inputs)


@dataclass
class _Types:
    graph: Graph
    made: dict[str, TensorType] = field(default_factory=dict)

    def split(self, node: Node) -> Iterator[Node]:
        """Yield the sums of two that a sum is."""
        total, (out,) = node.inputs[0], node.outputs
        for place, name in enumerate(node.inputs[1:], 2):
            result = out if place == len(node.inputs) else fresh_name(f"{out}_{place}", {*self.graph.types, *self.made})
            self.made[result] = self.graph.types[out]
            yield Node("Add", (total, name), (result,), {}, node.name)
            total = result
