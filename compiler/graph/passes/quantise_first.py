"""Maxima are taken of integers where they are quantised anyway.

`QuantizeLinear(MaxPool(x))` becomes `QuantizeLinear(MaxPool(DequantizeLinear(QuantizeLinear(x))))`, all with
one scale and zero point: the greatest of some numbers is quantised to the greatest of their integers. Files
leave such a MaxPool behind an activation in real numbers. With integers in between, the activation becomes a
table, and the MaxPool one of integers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vdla.compiler.graph.nodes import Graph, Node, TensorType, consumers, producers
from vdla.compiler.graph.rewrite import Rewriting


@dataclass(frozen=True, slots=True)
class QuantiseFirst:
    """The pass; it takes a MaxPool of real numbers that one QuantizeLinear of one scale alone reads."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with conversions before such maxima."""
        made, makers, readers = Rewriting(graph), producers(graph), consumers(graph)
        for node in graph.nodes:
            quantise = _quantiser(graph, makers, readers, node)
            made.nodes.append(node if quantise is None else _converted(made, node, quantise))
        return made.finished()


def _quantiser(
    graph: Graph, makers: Mapping[str, Node], readers: Mapping[str, list[Node]], node: Node
) -> Node | None:
    """Return the QuantizeLinear that reads a MaxPool of real numbers; None for other nodes."""
    if node.op != "MaxPool" or len(readers[node.outputs[0]]) != 1 or node.outputs[0] in graph.outputs:
        return None
    (reader,), maker = readers[node.outputs[0]], makers.get(node.inputs[0])
    if reader.op != "QuantizeLinear" or (maker is not None and maker.op == "DequantizeLinear"):
        return None
    known = all(name in graph.constants and graph.types[name].size == 1 for name in reader.inputs[1:])
    return reader if known else None


def _converted(made: Rewriting, node: Node, quantise: Node) -> Node:
    """Append both conversions of what a MaxPool reads; return the MaxPool behind them."""
    (x, *_), types = node.inputs, made.graph.types
    (out,) = node.outputs
    integers = made.value(f"{out}_integers", TensorType(types[x].shape, types[quantise.outputs[0]].dtype))
    real = made.value(f"{out}_real", TensorType(types[x].shape, "float32"))
    parameters = quantise.inputs[1:]
    made.add("QuantizeLinear", (x, *parameters), integers, quantise.attributes, quantise.name)
    made.add("DequantizeLinear", (integers, *parameters), real, quantise.attributes, quantise.name)
    return replace(node, inputs=(real,))
