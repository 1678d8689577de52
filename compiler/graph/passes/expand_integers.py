"""Operators of ONNX on quantised tensors become float operators between conversions.

Tools leave MaxPool, and operators that move elements, between quantised operators as they are:
`MaxPool(x)` on bytes becomes `QuantizeLinear(MaxPool(DequantizeLinear(x)))` with a scale of 1. Products of
integers that are cast to float32 become `Conv` and `MatMul` of what the integers stand for with a scale of 1;
the scales that follow are those of the network. So quantised networks have one form.

Source: ONNX operator specification, ConvInteger, MatMulInteger, MaxPool.
"""

from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph.integer_forms.rules import MOVES
from vdla.compiler.graph.nodes import Graph, Node, consumers
from vdla.compiler.graph.rewrite import Rewriting

PRODUCTS = {"ConvInteger": "Conv", "MatMulInteger": "MatMul"}
BYTES = ("int8", "uint8")


@dataclass(frozen=True, slots=True)
class ExpandIntegers:
    """The pass; it leaves moves of int8 as they are, and products with zero points that are not constant or
    that are not cast to float32."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with float operators between conversions."""
        return _Expansion(graph).run()


class _Expansion(Rewriting):
    """A graph in the making.

    Attributes:
        gone: the casts of products, by what they make.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.readers = consumers(graph)
        self.gone: dict[str, Node] = {}

    def run(self) -> Graph:
        """Return the graph with operators of real numbers between conversions."""
        for node in self.graph.nodes:
            if node.op in PRODUCTS and self.is_cast(node):
                self.product(node)
            elif self.is_direct(node):
                self.direct(node)
            elif node.outputs[0] in self.gone:
                self.nodes.append(self.gone[node.outputs[0]])
            else:
                self.nodes.append(node)
        return self.finished()

    def is_direct(self, node: Node) -> bool:
        """Whether a node pools or moves bytes that it should pool or move as real numbers."""
        kinds = {self.graph.types[name].dtype for name in node.inputs}
        wanted = BYTES if node.op == "MaxPool" else ("uint8",) if node.op in MOVES else ()
        return len(kinds) == 1 and kinds <= set(wanted)

    def direct(self, node: Node) -> None:
        """Put conversions around a node."""
        dtype = self.graph.types[node.inputs[0]].dtype
        inputs = tuple(self.real(name, "") for name in node.inputs)
        outputs = tuple(self.real_value(name) for name in node.outputs)
        self.nodes.append(Node(node.op, inputs, outputs, node.attributes, node.name))
        for made, out in zip(outputs, node.outputs, strict=True):
            parameters = self.parameters(np.zeros((), dtype))
            self.add("QuantizeLinear", (made, *parameters), out, {"axis": 0}, node.name)

    def is_cast(self, node: Node) -> bool:
        """Whether zero points are constants and all that reads a product of integers casts it to float32."""
        readers = self.readers[node.outputs[0]]
        casts = all(reader.op == "Cast" and reader.attributes["to"] == "float32" for reader in readers)
        known = all(name in self.graph.constants for name in node.inputs[2:] if name)
        return casts and bool(readers) and known and node.outputs[0] not in self.graph.outputs

    def product(self, node: Node) -> None:
        """Make a product of integers one of real numbers, and its casts the same."""
        points = (*node.inputs[2:], "", "")
        operands = tuple(
            self.real(name, point, self.axis(node, place))
            for place, (name, point) in enumerate(zip(node.inputs[:2], points, strict=False))
        )
        result = self.real_value(node.outputs[0])
        self.add(PRODUCTS[node.op], operands, result, node.attributes, node.name)
        for cast in self.readers[node.outputs[0]]:
            self.gone[cast.outputs[0]] = Node("Identity", (result,), cast.outputs, {}, cast.name)

    def axis(self, node: Node, place: int) -> int:
        """Return the axis along which zero points of an operand may differ: rows, columns or output
        channels."""
        rank = len(self.graph.types[node.inputs[place]].shape)
        return max(rank - 2 + place, 0) if node.op == "MatMulInteger" else 0

    def real(self, name: str, point: str, axis: int = 0) -> str:
        """Return what bytes stand for with a scale of 1 and a zero point that is given, else 0."""
        dtype = self.graph.types[name].dtype
        zero = self.graph.constants[point] if point else np.zeros((), dtype)
        return self.add(
            "DequantizeLinear", (name, *self.parameters(zero)), self.real_value(name), {"axis": axis}
        )

    def parameters(self, zero: np.ndarray) -> tuple[str, str]:
        """Return a scale of 1 and a zero point, for each channel that has one."""
        ones = np.ones(zero.shape, np.float32)
        return self.constant("one", ones), self.constant("zero", zero)
