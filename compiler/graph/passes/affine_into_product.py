"""Scales and shifts of columns go into the matrix product before them.

`Mul(Add(MatMul(x, W), b), g)` becomes `Add(MatMul(x, W g), b g)`, and `Mul(Gemm(x, W, b), g)` becomes
`Gemm(x, W g, b g)`. Then quantisation rounds once, and nothing multiplies the result.
"""

from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.affine import Affine, affine_of
from vdla.compiler.graph.nodes import Graph, Node, consumers
from vdla.compiler.graph.quantise_weights import is_quantisable_product, product_parts, without_factors
from vdla.compiler.graph.rewrite import Rewriting

PRODUCTS = ("Gemm", "MatMul")


@dataclass(frozen=True, slots=True)
class AffineIntoProduct:
    """The pass; it changes products with constant float32 weights."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with changes of columns in the weights."""
        return _Merging(graph).run()


class _Merging(Rewriting):
    """A graph with changes of columns in weights in the making."""

    def run(self) -> Graph:
        """Return the graph with changes of columns in the weights."""
        readers, merged = consumers(self.graph), set[str]()
        for node in self.graph.nodes:
            if node.outputs[0] in merged:
                continue
            chain, total = self.behind(node, readers) if self.is_product(node) else ([], None)
            if total is None or bool((total.factors == 1).all()):
                self.nodes.append(node)
            else:
                merged |= {each.outputs[0] for each in chain}
                self.merge(node, total, chain[-1])
        return self.finished()

    def is_product(self, node: Node) -> bool:
        """Whether a node is a product whose weights can be changed."""
        if node.op not in PRODUCTS or not is_quantisable_product(self.graph, node):
            return False
        return self.graph.types[node.outputs[0]].dtype == "float32"

    def behind(self, node: Node, readers: dict[str, list[Node]]) -> tuple[list[Node], Affine | None]:
        """Return the changes of columns of a product that nothing else reads, in order, and all in one."""
        (name,), chain, total = node.outputs, list[Node](), None
        while len(readers[name]) == 1 and name not in self.graph.outputs:
            (reader,) = readers[name]
            change = affine_of(self.graph, reader, -1)
            if change is None or change.x != name:
                break
            total = change if total is None else change.after(total)
            chain.append(reader)
            (name,) = reader.outputs
        return chain, total

    def merge(self, node: Node, total: Affine, last: Node) -> None:
        """Append a product with a change of its columns, which makes the result of `last`."""
        (out,), (weights, axis, bias) = last.outputs, product_parts(self.graph, node)
        along = total.factors if axis else total.factors[:, None]
        shifts = total.shifts + (0 if bias is None else bias * total.factors)
        names = [node.inputs[0], self.array(f"{out}_weights", weights * along)]
        if node.op == "Gemm":
            names.append(self.array(f"{out}_bias", shifts))
            self.nodes.append(replace(without_factors(node), inputs=tuple(names), outputs=(out,)))
            return
        product = self.value(f"{out}_product", self.graph.types[out]) if shifts.any() else out
        self.nodes.append(replace(node, inputs=tuple(names), outputs=(product,)))
        if product != out:
            self.add("Add", (product, self.array(f"{out}_bias", shifts)), out, {}, last.name)

    def array(self, wish: str, values: np.ndarray) -> str:
        """Add a constant of float32; return its name."""
        return self.constant(wish, np.ascontiguousarray(values, np.float32))
