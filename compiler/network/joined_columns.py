"""Concatenation of columns: of parts of blocks by products with weights of 0 and 1, and of rows by Slices.

A row stands in whole elements, so a Concat of other columns moves single numbers. The outputs of both
directions of a recurrence are an example. A product copies the columns of an operand to their places in the
result, with zeros elsewhere, and the store unit adds the products.

A Reshape that joins rows, as before a dense layer that reads all steps of a recurrence, is the Concat of a
Slice for each of the joined rows.
"""

from collections.abc import Collection, Sequence
from math import prod

import numpy as np

from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.nodes import RESHAPING, Attribute, Graph, Node, TensorType
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.compiler.network.channels import SAME, selected_channels
from vdla.compiler.network.views import VIEWS
from vdla.compiler.operands.interleaved import activation_block
from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.layout import IMAGE_RANK

MOST_ROWS = 64  # joined to a row: each takes a Slice, and of parts of blocks a product


def joined_columns(graph: Graph, config: AcceleratorConfig, taken: Collection[str]) -> Graph:
    """Return a graph with products in place of Concats of parts of blocks of columns, and with Slices in
    place of Reshapes that join rows; `graph` itself if it has neither.

    Args:
        taken: the integer operators that the accelerator supports.
    """
    joins = _Joins(graph, config, taken)
    chosen = {node.result for node in graph.nodes if joins.is_worth(node)}
    return _ColumnJoiner(joins).run(chosen) if chosen else graph


class _Joins:
    """The Concats and Reshapes of a graph that join columns.

    Args:
        taken: the integer operators that the accelerator supports.

    Attributes:
        block: columns of a block.
    """

    def __init__(self, graph: Graph, config: AcceleratorConfig, taken: Collection[str]) -> None:
        self.graph, self._uses, self._taken = graph, DefUse(graph), taken
        self.block, self._batch = activation_block(config), config.batch

    def is_worth(self, node: Node) -> bool:
        """Whether a node joins columns between operators on the accelerator, which moves whole blocks
        only."""
        if not {"Concat", "Int8Add", "Int8MatMul", "Slice"}.issubset(self._taken):
            return False
        joins = (
            self._is_concat(node) and self.in_parts(node.inputs) if node.op == "Concat" else self.rows(node)
        )
        return bool(joins) and all(map(self._is_made, node.inputs)) and self._is_read(node.result)

    def _is_concat(self, node: Node) -> bool:
        """Whether a Concat joins columns of rows."""
        rank = len(self.graph.types[node.result].shape)
        along_columns = rank not in (1, IMAGE_RANK) and node.integer("axis") % rank == rank - 1
        return along_columns and all(map(self._is_rows, node.inputs))

    def _is_rows(self, name: str) -> bool:
        type_ = self.graph.types[name]
        return type_.dtype == "int8" and type_.is_known and len(type_.shape) not in (0, IMAGE_RANK)

    def in_parts(self, names: Sequence[str]) -> bool:
        """Whether an operand of a Concat ends within a block that another operand continues."""
        return any(self.graph.types[name].shape[-1] % self.block for name in names[:-1])

    def rows(self, node: Node) -> int:
        """Return how many rows a Reshape joins to a row; 0 for other operators, or if elements have rows."""
        if (
            self._batch > 1
            or node.op not in RESHAPING
            or not (self._is_rows(node.inputs[0]) and self._is_rows(node.result))
        ):
            return 0
        before, after = (self.graph.types[name].shape[-1] for name in (node.inputs[0], node.result))
        count = after // before
        return count if 1 < count <= MOST_ROWS and after % before == 0 else 0

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

    def __init__(self, joins: _Joins) -> None:
        super().__init__(joins.graph)
        self.joins = joins

    def run(self, chosen: Collection[str]) -> Graph:
        """Return the graph with products or Slices in place of the nodes with the results `chosen`."""
        for node in self.graph.nodes:
            if node.result not in chosen:
                self.nodes.append(node)
            elif node.op == "Concat":
                self.join(node)
            else:
                self.join_rows(node)
        return self.finished()

    def join_rows(self, node: Node) -> None:
        """Append a Slice for each of the rows that a Reshape joins to a row, and their concatenation."""
        count, (source,) = self.joins.rows(node), node.inputs[:1]
        columns, rows = self.type_of(source).shape[-1], prod(self.type_of(source).shape[:-1])
        matrix = self.value(f"{node.result}_matrix", TensorType((rows, columns), "int8"))
        self.nodes.append(Node("Reshape", (source,), (matrix,), {"shape": (rows, columns)}, node.name))
        parts = []
        for first in range(count):
            parts.append(self.value(f"{node.result}_row", TensorType((rows // count, columns), "int8")))
            cut: dict[str, Attribute] = {"axes": (0,), "starts": (first,), "ends": (rows,), "steps": (count,)}
            self.nodes.append(Node("Slice", (matrix,), (parts[-1],), cut, node.name))
        wide = self.value(f"{node.result}_wide", TensorType((rows // count, count * columns), "int8"))
        concat = Node("Concat", tuple(parts), (wide,), {"axis": 1}, node.name)
        if columns % self.joins.block:
            self.join(concat)
        else:
            self.nodes.append(concat)
        shape = self.type_of(node.result).shape
        self.nodes.append(Node("Reshape", (wide,), node.outputs, {"shape": shape}, node.name))

    def join(self, node: Node) -> None:
        """Append the products that copy the columns of each operand, and their sum."""
        total, words, joined, begin = self.type_of(node.result), "", "", 0
        for place, name in enumerate(node.inputs):
            count = self.type_of(name).shape[-1]
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
