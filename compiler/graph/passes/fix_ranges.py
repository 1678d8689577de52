"""Products of tensors that are quantised by their own range as a network runs become those of real numbers.

Tools write `y, s, z = DynamicQuantizeLinear(x)` and `Mul(Cast(ConvInteger(y, w, z, p)), s * t)` for
`Conv(x, (w - p) t)`. An accelerator needs ranges before it runs, so the network becomes the one of real
numbers that it was made of, but for the rounding of its weights. It is then quantised on samples.

Source: ONNX operator specification, DynamicQuantizeLinear, ConvInteger, MatMulInteger.
"""

from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph.integer_forms.early import DYNAMIC
from vdla.compiler.graph.nodes import Graph, Node, consumers, producers
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.passes.expand_integers import PRODUCTS
from vdla.compiler.graph.rewrite import Rewriting
from vdla.runtime.host.quantise import dequantize_linear


@dataclass(frozen=True, slots=True)
class FixRanges:
    """The pass; it takes products with constant weights, and DequantizeLinear of what is quantised so."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with products of real numbers."""
        return DeadCode().run(_Fixing(graph).run())


class _Fixing(Rewriting):
    """A graph in the making."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.makers, self.readers = producers(graph), consumers(graph)

    def run(self) -> Graph:
        for node in self.graph.nodes:
            self.nodes.append(self.back(node) or self.product(node) or node)
        return self.finished()

    def back(self, node: Node) -> Node | None:
        """Return the real numbers that a DequantizeLinear makes again."""
        dynamic = self.dynamic(node.inputs[0]) if node.op == "DequantizeLinear" else None
        if dynamic is None or node.inputs != dynamic.outputs:
            return None
        return Node("Identity", dynamic.inputs, node.outputs, {}, node.name)

    def dynamic(self, name: str) -> Node | None:
        """Return the DynamicQuantizeLinear that makes a value as its integers."""
        maker = self.makers.get(name)
        return maker if maker is not None and maker.op == DYNAMIC and maker.outputs[0] == name else None

    def product(self, last: Node) -> Node | None:
        """Return a product of real numbers in place of the Mul that ends one of integers."""
        for sums, scales in (last.inputs, last.inputs[::-1]) if last.op == "Mul" else ():
            cast, scaling = self.makers.get(sums), self.makers.get(scales)
            node = self.makers.get(cast.inputs[0]) if cast is not None and cast.op == "Cast" else None
            if node is not None and scaling is not None and node.op in PRODUCTS and self.is_lone(node, cast):
                return self.of_real_numbers(node, scaling, last)
        return None

    def is_lone(self, *nodes: Node | None) -> bool:
        """Whether one node alone reads what each of some makes."""
        results = [node.outputs[0] for node in nodes if node is not None]
        return all(len(self.readers[name]) == 1 and name not in self.graph.outputs for name in results)

    def of_real_numbers(self, node: Node, scaling: Node, last: Node) -> Node | None:
        """Return a product of real numbers; None where scales or zero points are not its operands'."""
        dynamic, (integers, weights, *points) = self.dynamic(node.inputs[0]), node.inputs
        point, own = (*points, "", "")[:2]
        factor = [name for name in scaling.inputs if name in self.graph.constants]
        known = all(name in self.graph.constants for name in (weights, own) if name)
        if dynamic is None or not known or (integers, point) != dynamic.outputs[::2] or len(factor) != 1:
            return None
        if scaling.op != "Mul" or dynamic.outputs[1] not in scaling.inputs:
            return None
        real = self.real(node, weights, own, self.graph.constants[factor[0]])
        if real is None:
            return None
        name = self.constant(f"{weights}_real", real)
        return Node(PRODUCTS[node.op], (*dynamic.inputs, name), last.outputs, node.attributes, node.name)

    def real(self, node: Node, weights: str, point: str, scale: np.ndarray) -> np.ndarray | None:
        """Return weights as float32; None where scales do not go along the channels of the result."""
        integers = self.graph.constants[weights]
        own = self.graph.constants[point] if point else np.zeros((), integers.dtype)
        axis, along = (0, 1) if node.op == "ConvInteger" else (integers.ndim - 1, -1)
        rank, channels = len(self.graph.types[node.outputs[0]].shape), integers.shape[axis]
        wide = (1,) * (rank - scale.ndim) + scale.shape
        if scale.size > 1 and (scale.size != channels or wide[along] != channels):
            return None
        if own.size > 1 and own.size != channels:
            return None
        one = np.ones(own.shape, np.float32)
        values = dequantize_linear(integers, one, own, axis=axis)
        shape = [channels if place == axis else 1 for place in range(integers.ndim)]
        real: np.ndarray = values * (scale.reshape(shape) if scale.size > 1 else scale.reshape(()))
        return real.astype(np.float32)
