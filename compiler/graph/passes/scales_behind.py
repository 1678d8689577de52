"""A number that multiplies an operand of a product of two activations multiplies the product.

`MatMul(Mul(q, c), Transpose(k))`, as which attention is exported, becomes `Mul(MatMul(q, Transpose(k)), c)`.
Behind the product the number goes into the requantisation; before it, quantisation would round once more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.affine import factor_of
from vdla.compiler.graph.moves import REARRANGING
from vdla.compiler.graph.nodes import Graph, Node, consumers, producers
from vdla.compiler.graph.rewrite import Rewriting, renamed


@dataclass(frozen=True, slots=True)
class ScalesBehind:
    """The pass; a product that something else reads scaled keeps its scale."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with scales behind products of activations."""
        return _Scaling(graph).run()


class _Scaling(Rewriting):
    """A graph with scales behind products in the making.

    Attributes:
        plain: by scaled value, the one before.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.makers, self.readers = producers(graph), consumers(graph)
        self.plain: dict[str, str] = {}

    def run(self) -> Graph:
        """Return the graph with scales behind products."""
        factors = {
            node.outputs[0]: self.factor(node)
            for node in self.graph.nodes
            if node.op == "MatMul" and self.is_paired(node)
        }
        for node in self.graph.nodes:
            if node.outputs[0] not in self.plain:
                self.add_scaled(renamed(node, {name: self.first(name) for name in node.inputs}), factors)
        return self.finished()

    def is_paired(self, product: Node) -> bool:
        """Whether a product multiplies two tensors of float32 that are known when the network runs."""
        constant = any(name in self.graph.constants for name in product.inputs)
        return not constant and self.graph.types[product.outputs[0]].dtype == "float32"

    def first(self, name: str) -> str:
        """Return the value before all scales."""
        while name in self.plain:
            name = self.plain[name]
        return name

    def factor(self, product: Node) -> float:
        """Return the number that multiplies both operands of a product; mark the scales."""
        total = 1.0
        for name in product.inputs:
            while (maker := self.makers.get(name)) is not None and self.alone(name):
                found = factor_of(self.graph, maker)
                if found is not None:
                    self.plain[name] = found[0]
                    total *= found[1]
                elif maker.op not in REARRANGING:
                    break
                name = maker.inputs[0] if found is None else found[0]
        return total

    def alone(self, name: str) -> bool:
        """Whether one node reads a value, once, and nothing else does."""
        readers = self.readers[name]
        return len(readers) == 1 and readers[0].inputs.count(name) == 1 and name not in self.graph.outputs

    def add_scaled(self, node: Node, factors: Mapping[str, float]) -> None:
        """Append a node, and the scale behind it."""
        (out, *_), factor = node.outputs, factors.get(node.outputs[0], 1.0)
        if factor == 1.0:
            self.nodes.append(node)
            return
        sums = self.value(f"{out}_sums", self.graph.types[out])
        number = self.constant(f"{out}_factor", np.array(factor, np.float32))
        self.nodes.append(replace(node, outputs=(sums,)))
        self.add("Mul", (sums, number), out, {}, node.name)
