"""Concatenation of columns that are parts of blocks: products with weights of 0 and 1, and their sums.

A row stands in whole elements, so a Concat of other columns moves single numbers. The outputs of both
directions of a recurrence are an example. A product copies the columns of an operand to their places in the
result, with zeros elsewhere, and the store unit adds the products.
"""

from collections.abc import Collection

import numpy as np

from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.nodes import Attribute, Graph, Node
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.compiler.network.channels import SAME, selected_channels
from vdla.compiler.network.views import VIEWS
from vdla.compiler.operands.interleaved import activation_block
from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.layout import IMAGE_RANK


def joined_columns(graph: Graph, config: AcceleratorConfig, taken: Collection[str]) -> Graph:
    """Return a graph with products in place of Concats of parts of blocks of columns; `graph` itself if it
    has none.

    Args:
        taken: the integer operators that the accelerator supports.
    """
    joins = _Joins(graph, activation_block(config), taken)
    chosen = {node.result for node in graph.nodes if joins.is_worth(node)}
    return _ColumnJoiner(graph).run(chosen) if chosen else graph


class _Joins:
    """The Concats of a graph.

    Args:
        block: columns of a block.
        taken: the integer operators that the accelerator supports.
    """

    def __init__(self, graph: Graph, block: int, taken: Collection[str]) -> None:
        self._graph, self._uses, self._block, self._taken = graph, DefUse(graph), block, taken

    def is_worth(self, node: Node) -> bool:
        """Whether a Concat joins parts of blocks between operators on the accelerator."""
        if node.op != "Concat" or not {"Int8Add", "Int8MatMul"}.issubset(self._taken):
            return False
        types = [self._graph.types[name] for name in node.inputs]
        rank = len(types[0].shape)
        if rank in (1, IMAGE_RANK) or node.integer("axis") % rank != rank - 1:
            return False
        if any(type_.dtype != "int8" or not type_.is_known for type_ in types):
            return False
        in_parts = any(type_.shape[-1] % self._block for type_ in types[:-1])
        return in_parts and all(map(self._is_made, node.inputs)) and self._is_read(node.result)

    def _is_made(self, name: str) -> bool:
        """Whether an operator on the accelerator computes a value, as far as its kind tells."""
        maker = self._uses.makers.get(name)
        while maker is not None and maker.op in VIEWS:
            maker = self._uses.makers.get(maker.inputs[0])
        return maker is not None and maker.op in self._taken

    def _is_read(self, name: str) -> bool:
        """Whether an operator on the accelerator reads a value, as far as the kinds of its readers tell."""
        return any(
            self._is_read(reader.result) if reader.op in VIEWS else reader.op in self._taken
            for reader in self._uses.readers(name)
        )


class _ColumnJoiner(GraphBuilder):
    """The new graph under construction."""

    def run(self, chosen: Collection[str]) -> Graph:
        """Return the graph with products in place of the Concats with the results `chosen`."""
        for node in self.graph.nodes:
            if node.result in chosen:
                self.join(node)
            else:
                self.nodes.append(node)
        return self.finished()

    def join(self, node: Node) -> None:
        """Append the products that copy the columns of each operand, and their sum."""
        total, words, joined, begin = self.graph.types[node.result], "", "", 0
        for place, name in enumerate(node.inputs):
            count = self.graph.types[name].shape[-1]
            selection = np.eye(total.shape[-1], count, -begin, dtype=np.int8)
            part = self.value(f"{node.result}_part", total)
            selected_channels(self, name, part, selection, groups=None)
            if place:
                words = words or self.constant(f"{node.result}_words", SAME)
                is_last = place == len(node.inputs) - 1
                out = node.result if is_last else self.value(f"{node.result}_sum", total)
                factors: dict[str, Attribute] = {"factors": (1, 1)}
                self.nodes.append(Node("Int8Add", (part, joined, words), (out,), factors, node.name))
                part = out
            joined, begin = part, begin + count
