"""QLinear operators become float operators between DequantizeLinear and QuantizeLinear.

`QLinearConv(x, w) -> y` becomes `QuantizeLinear(Conv(DequantizeLinear(x), DequantizeLinear(w)))`, so that
quantised networks have one form.

Source: ONNX operator specification, QLinearConv, QLinearMatMul.
"""

from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph.integer_forms.early import MEANINGS, becomes_another
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.rewrite import Rewriting


@dataclass(frozen=True, slots=True)
class ExpandQLinear:
    """The pass; scales and zero points must be constants, else the operator stays as it is."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with float operators between conversions."""
        return _Expansion(graph).run()


class _Expansion(Rewriting):
    """A graph with float operators between conversions in the making."""

    def run(self) -> Graph:
        """Return the graph with float operators between conversions."""
        for node in self.graph.nodes:
            if node.op in MEANINGS and becomes_another(self.graph, node):
                self.expand(node)
            else:
                self.nodes.append(node)
        return self.finished()

    def expand(self, node: Node) -> None:
        """Append the float operator that is meant, with conversions around it."""
        first, second, out = node.inputs[:3], node.inputs[3:6], node.inputs[6:8]
        operands = [
            self.real(part, _axis(node, place, len(self.graph.types[part[0]].shape)))
            for place, part in enumerate((first, second))
        ]
        if node.op == "QLinearConv" and len(node.inputs) > 8 and node.inputs[8]:
            operands.append(self.bias(node))
        result = self.real_value(node.outputs[0])
        self.add(MEANINGS[node.op], tuple(operands), result, node.attributes, node.name)
        zero = self.zero_point(out[1] if len(out) > 1 else "", node.outputs[0])
        self.add("QuantizeLinear", (result, out[0], zero), node.outputs[0], {"axis": 0}, node.name)

    def real(self, quantised: tuple[str, ...], axis: int) -> str:
        """Return the real numbers of a quantised tensor: value, scale and zero point."""
        name, scale, *zero = quantised
        result = self.real_value(name)
        return self.add(
            "DequantizeLinear",
            (name, scale, self.zero_point(zero[0] if zero else "", name)),
            result,
            {"axis": axis},
        )

    def bias(self, node: Node) -> str:
        """Return the real bias of a convolution, whose scale is that of the products."""
        scale = self.graph.constants[node.inputs[1]] * self.graph.constants[node.inputs[4]]
        names = (
            self.constant(f"{node.inputs[8]}_scale", scale),
            self.constant(f"{node.inputs[8]}_zero", np.zeros(scale.shape, np.int32)),
        )
        result = self.real_value(node.inputs[8])
        return self.add("DequantizeLinear", (node.inputs[8], *names), result, {"axis": 0})

    def zero_point(self, name: str, of: str) -> str:
        """Return the zero point of a quantised tensor; where it has none, a 0 of its type."""
        return name or self.constant(f"{of}_zero", np.zeros((), self.graph.types[of].dtype))


def _axis(node: Node, place: int, rank: int) -> int:
    """Return the axis along which scales of an operand may differ: rows of the left matrix, columns of the
    right one, output channels."""
    return max(rank - 2 + place, 0) if node.op == "QLinearMatMul" else 0
