"""Softmax and layer normalisation between an int8 tensor and the conversion of their result take and make
int8 tensors.

`QuantizeLinear(DequantizedSoftmax(x))` becomes `Int8Softmax(x)`, and
`QuantizeLinear(LayerNormalization(DequantizeLinear(x)))` becomes `Int8LayerNormalization(x)`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.compiler.graph.nodes import Graph, Node, consumers, producers
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.rewrite import rebuilt


@dataclass(frozen=True, slots=True)
class FuseNormalisation:
    """The pass; it fuses where there is one scale on either side, and the conversion alone reads the real
    numbers."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with fused operators."""
        makers, readers = producers(graph), consumers(graph)

        def fused(node: Node) -> Node:
            maker = makers.get(node.inputs[0]) if node.op == "QuantizeLinear" else None
            alone = maker is not None and len(readers[node.inputs[0]]) == 1
            if maker is None or not alone or maker.outputs[0] in graph.outputs or not _is_narrow(graph, node):
                return node
            return _softmax(maker, node) or _normalisation(graph, makers, maker, node) or node

        return DeadCode().run(rebuilt(graph, map(fused, graph.nodes)))


def _is_narrow(graph: Graph, conversion: Node) -> bool:
    """Whether a conversion is between real numbers and int8, by one constant scale and zero point."""
    integers = conversion.inputs[0] if conversion.op == "DequantizeLinear" else conversion.outputs[0]
    parameters = conversion.inputs[1:3]
    return graph.types[integers].dtype == "int8" and all(
        name in graph.constants and graph.types[name].size == 1 for name in parameters
    )


def _softmax(softmax: Node, quantise: Node) -> Node | None:
    if softmax.op != "DequantizedSoftmax":
        return None
    x, scale, _ = softmax.inputs
    inputs = (x, scale, *quantise.inputs[1:3])
    return Node("Int8Softmax", inputs, quantise.outputs, softmax.attributes, softmax.name)


def _normalisation(graph: Graph, makers: Mapping[str, Node], normal: Node, quantise: Node) -> Node | None:
    conversion = makers.get(normal.inputs[0]) if normal.op == "LayerNormalization" else None
    if conversion is None or conversion.op != "DequantizeLinear" or not _is_narrow(graph, conversion):
        return None
    shape = graph.types[normal.inputs[0]].shape
    if normal.integer("axis") % len(shape) != len(shape) - 1:
        return None
    bias = normal.inputs[2] if len(normal.inputs) > 2 else ""
    inputs = (*conversion.inputs[:2], normal.inputs[1], bias, *quantise.inputs[1:3])
    attributes = {"epsilon": normal.attributes["epsilon"]}
    return Node("Int8LayerNormalization", inputs, quantise.outputs, attributes, normal.name)
