"""A softmax of a dequantised tensor reads the int8 tensor, so one pass converts and normalises.

`Softmax(DequantizeLinear(x))` becomes `DequantizedSoftmax(x)`.
"""

from dataclasses import dataclass

from vdla.compiler.graph.nodes import Graph, Node, consumers, producers
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.rewrite import rebuilt


@dataclass(frozen=True, slots=True)
class FuseSoftmax:
    """The pass; it fuses where there is one scale, and the softmax alone reads the real numbers."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with fused softmax operators."""
        readers, makers = consumers(graph), producers(graph)

        def fused(node: Node) -> Node:
            conversion = makers.get(node.inputs[0]) if node.op == "Softmax" else None
            if conversion is None or not _can_fuse(graph, conversion, readers[node.inputs[0]]):
                return node
            return Node("DequantizedSoftmax", conversion.inputs, node.outputs, node.attributes, node.name)

        return DeadCode().run(rebuilt(graph, map(fused, graph.nodes)))


def _can_fuse(graph: Graph, conversion: Node, readers: list[Node]) -> bool:
    alone = len(readers) == 1 and conversion.outputs[0] not in graph.outputs
    if conversion.op != "DequantizeLinear" or not alone:
        return False
    integers, scale, zero = (graph.types[name] for name in conversion.inputs)
    return integers.dtype == "int8" and scale.size == 1 and zero.size == 1
