"""Products of tensors that are quantised by their own range as a network runs become those of real numbers.

Tools write `y, s, z = DynamicQuantizeLinear(x)` and `Mul(Cast(ConvInteger(y, w, z, p)), s * t)` for
`Conv(x, (w - p) t)`. Older ones add a bias b to the integers, as `Reshape(Cast(Floor(Div(b, s * t))))`; it is
added to the real numbers. An accelerator needs ranges before it runs, so the network becomes the one of real
numbers that it was made of, but for the rounding of its weights. It is then quantised on samples.

Source: ONNX operator specification, DynamicQuantizeLinear, ConvInteger, MatMulInteger.
"""

from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph.integer_forms.early import DYNAMIC, PRODUCTS
from vdla.compiler.graph.moves import RESHAPING
from vdla.compiler.graph.nodes import Graph, Node, TensorType, consumers, producers
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.rewrite import Rewriting
from vdla.runtime.host.quantise import dequantize_linear

KEEPING_ORDER = ("Identity", *RESHAPING)
ROUNDING = ("Cast", "Floor", "Round")


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
        """Return the graph with products of real numbers."""
        for node in self.graph.nodes:
            self.nodes += self.back(node) or self.product(node) or [node]
        return self.finished()

    def back(self, node: Node) -> list[Node]:
        """Return the real numbers that a DequantizeLinear makes again."""
        dynamic = self.dynamic(node.inputs[0]) if node.op == "DequantizeLinear" else None
        if dynamic is None or node.inputs != dynamic.outputs:
            return []
        return [Node("Identity", dynamic.inputs, node.outputs, {}, node.name)]

    def dynamic(self, name: str) -> Node | None:
        """Return the DynamicQuantizeLinear that makes a value as its integers."""
        maker = self.makers.get(name)
        return maker if maker is not None and maker.op == DYNAMIC and maker.outputs[0] == name else None

    def product(self, last: Node) -> list[Node]:
        """Return a product of real numbers, and its sum with a bias, in place of the Mul that ends one of
        integers."""
        for sums, scales in (last.inputs, last.inputs[::-1]) if last.op == "Mul" else ():
            cast, scaling = self.makers.get(sums), self.makers.get(scales)
            end = self.makers.get(cast.inputs[0]) if cast is not None and cast.op == "Cast" else None
            if end is None or scaling is None:
                continue
            for node, bias in self.summands(end):
                shift = self.shift(bias, scaling) if bias else None
                if self.is_lone(node, end, cast) and (shift is not None or not bias):
                    return self.of_real_numbers(node, scaling, last, shift)
        return []

    def summands(self, end: Node) -> list[tuple[Node, str]]:
        """Return the products of integers whose result, or whose sum with a bias, a node makes; with the name
        of the bias, or ""."""
        if end.op in PRODUCTS:
            return [(end, "")]
        pairs = (end.inputs, end.inputs[::-1]) if end.op == "Add" else ()
        found = [(self.makers.get(one), bias) for one, bias in pairs]
        return [(node, bias) for node, bias in found if node is not None and node.op in PRODUCTS]

    def shift(self, bias: str, scaling: Node) -> np.ndarray | None:
        """Return the real numbers of a bias, in the shape in which it is added to integers; None where it is
        not a constant that is divided by the scale of the integers beside it."""
        shape, node = self.graph.types[bias].shape, self.makers.get(bias)
        while node is not None and node.op in (*KEEPING_ORDER, *ROUNDING):
            node = self.makers.get(node.inputs[0])
        if node is None or node.op != "Div" or node.inputs[0] not in self.graph.constants:
            return None
        divisor = self.makers.get(node.inputs[1])
        if divisor is None or (divisor.op, sorted(divisor.inputs)) != (scaling.op, sorted(scaling.inputs)):
            return None
        scales, divided = self.graph.types[scaling.outputs[0]], self.graph.types[node.outputs[0]].shape
        places = np.arange(scales.size).reshape(scales.shape)
        own = np.broadcast_to(places, divided).reshape(shape)
        beside, along = np.broadcast_arrays(own, places)
        if not np.array_equal(beside, along):
            return None
        return np.broadcast_to(self.graph.constants[node.inputs[0]], divided).reshape(shape)

    def is_lone(self, *nodes: Node | None) -> bool:
        """Whether one node alone reads what each of some makes."""
        results = [node.outputs[0] for node in nodes if node is not None]
        return all(len(self.readers[name]) == 1 and name not in self.graph.outputs for name in results)

    def of_real_numbers(self, node: Node, scaling: Node, last: Node, shift: np.ndarray | None) -> list[Node]:
        """Return a product of real numbers, and its sum with a shift; nothing where scales or zero points are
        not its operands'."""
        dynamic, (integers, weights, *points) = self.dynamic(node.inputs[0]), node.inputs
        point, own = (*points, "", "")[:2]
        factor = [name for name in scaling.inputs if name in self.graph.constants]
        known = all(name in self.graph.constants for name in (weights, own) if name)
        if dynamic is None or not known or (integers, point) != dynamic.outputs[::2] or len(factor) != 1:
            return []
        if scaling.op != "Mul" or dynamic.outputs[1] not in scaling.inputs:
            return []
        real = self.real(node, weights, own, self.graph.constants[factor[0]])
        if real is None:
            return []
        inputs, result = (*dynamic.inputs, self.constant(f"{weights}_real", real)), last.outputs[0]
        if shift is None:
            return [Node(PRODUCTS[node.op], inputs, (result,), node.attributes, node.name)]
        type_ = TensorType(self.graph.types[node.outputs[0]].shape, "float32")
        product, bias = self.value(f"{result}_product", type_), self.constant(f"{result}_bias", shift)
        return [
            Node(PRODUCTS[node.op], inputs, (product,), node.attributes, node.name),
            Node("Add", (product, bias), (result,), {}, last.name),
        ]

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
