"""Which operators of a float graph compute with integers, and which of its values become int8.

- Products with constant weights always do; a constant that is added behind and a Relu or Clip go into them.
- Products of two activations always do; a number that multiplies them goes into them, as does a Relu or Clip.
- Sums, products of two tensors and Concat do where int8 comes in and an operator with integers reads the
  result: a tensor between two operators that stay in float is not quantised.
- Pooling and operators that only move elements do where int8 comes in.
- A chain of functions of the elements of one int8 tensor becomes a table: nothing inside it is quantised.
"""

from collections.abc import Collection
from functools import cached_property

import numpy as np

from vdla.compiler.graph.affine import factor_of
from vdla.compiler.graph.conversions import Conversions
from vdla.compiler.graph.integer_forms.rules import FIRST, INSIDE, MOVES, PAIR_SUMS
from vdla.compiler.graph.integer_forms.site import PAIRED, Site, multiplies_activations
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.quantisation.shrinking import shrink
from vdla.compiler.graph.quantise_weights import is_quantisable_product
from vdla.runtime.host import elementwise

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
BOUNDS = ("Clip", "Relu")
PAIRS = ("Add", "Mul")
POOLS = ("AveragePool", "GlobalAveragePool", "MaxPool")
VIEWS = (*(op for op in MOVES if op != "Concat"), "Gather")  # of one tensor
SAME_SCALE = ("MaxPool", *VIEWS)
JOINING = (*PAIRS, *BOUNDS, "Concat")  # worth it only between operators with integers
CARRYING = (*POOLS, *VIEWS)  # worth it behind them


class Roles:
    """The parts that the nodes of a float graph have in its quantised form; nodes go by their first result.

    Args:
        in_float: results of nodes that stay in float.

    Attributes:
        in_float: as given.
        products: nodes that sum products with constant weights.
        pairs: nodes that sum products of two activations.
        biases: sums that add a constant to the rows of a product.
        scales: nodes that multiply a sum of products of two activations by a number.
        fused: biases, scales and bounds, which go into the operator before.
        others: further nodes that compute with integers.
        roots: by value, the int8 tensor whose elements it is a function of.
        wanted: the values that a node with integers reads, or a function of whose elements.
    """

    def __init__(self, graph: Graph, in_float: Collection[str] = ()) -> None:
        self.graph, self.found, self.in_float = graph, Conversions(graph), frozenset(in_float)
        self.makers, self.readers = self.found.makers, self.found.readers
        self.products = {
            node.outputs[0] for node in graph.nodes if self._may(node) and self._is_product(node)
        }
        self.pairs = {node.outputs[0] for node in graph.nodes if self._may(node) and self._is_pair(node)}
        self.biases = {node.outputs[0] for node in graph.nodes if self._may(node) and self._is_bias(node)}
        self.scales: set[str] = set()
        for node in graph.nodes:
            if self._may(node) and self._is_scale(node):
                self.scales.add(node.outputs[0])
        self.others = {node.outputs[0] for node in graph.nodes if self._may(node) and self._is_other(node)}
        self.roots: dict[str, str] = {}
        self.wanted: set[str] = set()
        self.fused = self.biases | self.scales
        shrink(self)
        self.others -= self.fused

    # What is what

    def is_inside(self, node: Node) -> bool:
        """Whether a node computes with integers."""
        (name, *_) = node.outputs
        return name in self.products or name in self.pairs or name in self.fused or name in self.others

    def ends(self, node: Node) -> bool:
        """Whether the result of a node that computes with integers becomes int8, and not that of the one
        behind it."""
        following = self.readers[node.outputs[0]]
        return not (len(following) == 1 and following[0].outputs[0] in self.fused)

    def product_of(self, node: Node) -> tuple[Node, ...]:
        """Return a product and what is fused behind it, in order."""
        chain = [node]
        while not self.ends(chain[-1]):
            chain.append(self.readers[chain[-1].outputs[0]][0])
        return tuple(chain)

    def activations(self, node: Node) -> tuple[str, ...]:
        """Return the inputs of a node with integers that must be int8."""
        if node.outputs[0] in self.fused:
            return ()
        names = node.inputs[:1] if node.outputs[0] in self.products else node.inputs
        return tuple(name for name in names if name not in self.graph.constants)

    @cached_property
    def narrow(self) -> tuple[str, ...]:
        """The values that become int8, in order."""
        names: dict[str, None] = {}
        for node in self.graph.nodes:
            if self.is_inside(node):
                names |= dict.fromkeys(self.activations(node))
                names |= dict.fromkeys(node.outputs if self.ends(node) else ())
        return tuple(names)

    @cached_property
    def leaders(self) -> dict[str, str]:
        """For each int8 value, the one whose scale it has: what only moves has that of its source, and what
        is only joined has that of the result."""
        leaders = {name: name for name in self.narrow}

        def leader(name: str) -> str:
            while leaders[name] != name:
                leaders[name] = leaders[leaders[name]]
                name = leaders[name]
            return name

        for node in self.graph.nodes:
            out = node.outputs[0]
            if out not in self.others or node.op not in (*SAME_SCALE, "Concat"):
                continue
            if node.op != "Concat":
                leaders |= {leader(each): leader(node.inputs[0]) for each in node.outputs}
                continue
            for name in node.inputs:
                if name in leaders and self._only_joined(name, node):
                    leaders[leader(name)] = leader(out)
        return {name: leader(name) for name in leaders}

    def _only_joined(self, name: str, concat: Node) -> bool:
        return all(
            reader is concat or (reader.op in SAME_SCALE and reader.outputs[0] in self.others)
            for reader in self.readers[name]
        )

    # How that is found

    def _may(self, node: Node) -> bool:
        """Whether a node could compute with integers."""
        return self.graph.types[node.outputs[0]].dtype == "float32" and node.outputs[0] not in self.in_float

    def _is_product(self, node: Node) -> bool:
        return (
            node.op in PRODUCTS
            and is_quantisable_product(self.graph, node)
            and all(self._is_finite(name) for name in node.inputs[1:] if name)
        )

    def _is_finite(self, constant: str) -> bool:
        return bool(np.isfinite(self.graph.constants[constant]).all())

    def _is_pair(self, node: Node) -> bool:
        """Whether a node multiplies two activations and has an integer form."""
        site = Site(self.found, node)
        return multiplies_activations(self.found, node) and not any(
            rule.found(site) for rule in (*FIRST[PAIRED], PAIR_SUMS)
        )

    def _is_scale(self, node: Node) -> bool:
        """Whether a node multiplies products of two activations, which nothing else reads, by a number."""
        found = factor_of(self.graph, node)
        if found is None or not self._alone(found[0]):
            return False
        return found[0] in self.pairs or found[0] in self.scales

    def _is_bias(self, node: Node) -> bool:
        """Whether a node adds a constant for each column to a matrix product that nothing else reads."""
        constants = [name for name in node.inputs if name in self.graph.constants]
        if node.op != "Add" or len(constants) != 1 or not self._is_finite(constants[0]):
            return False
        (product,) = (name for name in node.inputs if name not in self.graph.constants)
        maker, shape = self.makers.get(product), self.graph.types[node.outputs[0]].shape
        return (
            maker is not None
            and maker.op == "MatMul"
            and product in self.products
            and self._alone(product)
            and shape == self.graph.types[product].shape
            and self.graph.types[constants[0]].size in (1, shape[-1])
            and self.graph.types[constants[0]].shape[-1:] in ((), (1,), shape[-1:])
        )

    def _alone(self, name: str) -> bool:
        return len(self.readers[name]) == 1 and name not in self.graph.outputs

    def _is_other(self, node: Node) -> bool:
        """Whether a node has an integer form where its inputs are int8."""
        if node.op not in (*JOINING, *CARRYING):
            return False
        if node.outputs[0] in self.biases or node.outputs[0] in self.scales:
            return False
        constant = [name in self.graph.constants for name in node.inputs]
        if constant[0] or (any(constant) if node.op != "Gather" else not all(constant[1:])):
            return False
        shapes = INSIDE[node.op][0] if node.op in PAIRS else None
        return shapes is None or not shapes.found(Site(self.found, node))

    def is_bound(self, node: Node) -> bool:
        """Whether a node is a bound right behind the only operator that makes its input and can bound it."""
        before = self.makers.get(node.inputs[0]) if node.op in BOUNDS and self._may(node) else None
        if before is None or not self._alone(node.inputs[0]):
            return False
        (name, *_) = before.outputs
        if name in self.products or name in self.pairs or name in self.biases or name in self.scales:
            return True
        return before.op == "Add" and name in self.others

    def root_of(self, node: Node) -> str | None:
        """Return the int8 tensor whose elements a node's result is a function of; such nodes are none of the
        others. None where there is none."""
        out = node.outputs[0]
        if node.op not in elementwise.OPERATORS or not self._may(node):
            return None
        if out in self.products or out in self.pairs or out in self.fused:
            return None
        if node.op in BOUNDS and node.inputs[0] not in self.roots:  # requantised with bounds
            return None
        reads = [name for name in node.inputs if name not in self.graph.constants]
        roots = {self.roots.get(name, name if self._is_made(name) else "") for name in reads}
        if len(roots) != 1 or "" in roots or not self._keeps_shape(node, *roots):
            return None
        return next(iter(roots))

    def _keeps_shape(self, node: Node, root: str) -> bool:
        types = self.graph.types
        single = all(types[name].size == 1 for name in node.inputs if name in self.graph.constants)
        return single and len(types[root].shape) > 0 and types[node.outputs[0]].shape == types[root].shape

    def _is_made(self, name: str) -> bool:
        """Whether a node with integers makes a value."""
        maker = self.makers.get(name)
        return maker is not None and self.is_inside(maker) and self.ends(maker)

    def _comes_narrow(self, name: str) -> bool:
        return self._is_made(name) or name in self.roots

    def is_worth(self, node: Node) -> bool:
        """Whether one of `others` need compute with integers."""
        if node.outputs[0] in self.roots:
            return False
        inputs = any(self._comes_narrow(name) for name in node.inputs)
        last = self.product_of(node)[-1].outputs[0]
        return inputs and (node.op in CARRYING or last in self.wanted)

    def is_wanted(self, name: str) -> bool:
        """Whether a node with integers reads a value, or a function of its elements that is known to be
        wanted."""
        return any(
            reader.outputs[0] in self.wanted
            if reader.outputs[0] in self.roots
            else self._computes(reader) and name in self.activations(reader)
            for reader in self.readers[name]
        )

    def _computes(self, node: Node) -> bool:
        (name, *_) = node.outputs
        return name in self.products or name in self.pairs or name in self.others
