"""Products of two activations read and write attention heads in place.

Attention separates heads before its products and joins them after: Reshape, Transpose, Gather, Split. A
product lists the part of a matrix for each head instead, so these moves become dead code. An elementwise
operator between the moves, for example a scale of 1/sqrt(d), becomes a lookup table of the operand.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import NamedTuple

import numpy as np

from vdla.compiler.graph.by_element import table_of
from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.nodes import PICKING, REARRANGING, Graph, Node
from vdla.compiler.graph.passes.cleanup import DeadCode
from vdla.compiler.graph.rewrite import GraphBuilder, rebuilt
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.host.int8 import BYTES

MOVES = (*REARRANGING, *PICKING, "Split")
PRODUCTS = "Int8Products"
Places = tuple[int, ...]  # first row and first column of each part


@dataclass(frozen=True, slots=True)
class HeadsInPlace:
    """The pass."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with products that read and write heads in place."""
        return DeadCode().run(_with_writes_in_place(_with_reads_in_place(graph)))


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand of products: parts of a tensor.

    Attributes:
        name: name of the tensor.
        places: first row and first column of each part.
        transposed: the rows of the parts are columns of the tensor.
        table: int8 lookup table for the values; None if they are used directly.
    """

    name: str
    places: Places
    transposed: bool = False
    table: np.ndarray | None = field(default=None, compare=False)


class _Move(NamedTuple):
    """A node that moves elements, and the index of the output that is read."""

    node: Node
    output: int


def _with_reads_in_place(graph: Graph) -> Graph:
    """Return `graph` with products that read the tensors before the moves."""
    builder, at = GraphBuilder(graph), DefUse(graph)
    for node in graph.nodes:
        builder.nodes.append(_reading(builder, at, node) if node.op == PRODUCTS else node)
    return builder.finished()


def _reading(builder: GraphBuilder, at: DefUse, node: Node) -> Node:
    rows, columns, depth = node.extents("size")
    transposed = bool(node.integer("transposed"))
    right = (columns, depth) if transposed else (depth, columns)
    names = (*node.inputs[3:], "", "")[:2]
    old_tables = [at.constants.get(name) for name in names]
    first = _Operand(node.inputs[0], node.extents("a_places"), table=old_tables[0])
    second = _Operand(node.inputs[1], node.extents("b_places"), table=old_tables[1])
    a = _source(at, first, (rows, depth))
    b = _source(at, second, right, turns=True)
    tables = [
        name
        if operand.table is old or operand.table is None
        else builder.constant(f"{node.result}_table", operand.table)
        for name, old, operand in zip(names, old_tables, (a, b), strict=True)
    ]
    while tables and not tables[-1]:
        del tables[-1]
    return replace(
        node,
        inputs=(a.name, b.name, node.inputs[2], *tables),
        attributes={
            **node.attributes,
            "a_places": a.places,
            "b_places": b.places,
            "transposed": int(transposed != b.transposed),
        },
    )


def _source(at: DefUse, operand: _Operand, size: tuple[int, int], *, turns: bool = False) -> _Operand:
    """Return an operand as parts of the earliest tensor before the moves in which each part is a submatrix.

    Args:
        size: rows and columns of a part.
        turns: the parts may be transposed.
    """
    name, places, table, steps = operand.name, operand.places, operand.table, list[_Move]()
    columns = at.types[name].shape[-1]
    while (maker := at.maker(name)) is not None:
        lookup = table_of(at, maker)
        moves = maker.op in MOVES and at.are_constant(*maker.inputs[1:])
        if lookup is not None:
            table = lookup if table is None else table[lookup.astype(np.int16) + len(BYTES) // 2]
        elif not moves or at.types[name].dtype != "int8":
            break
        else:
            steps.append(_Move(maker, maker.outputs.index(name)))
        name = maker.inputs[0]
        type_ = at.types[name]
        numbers = _moved_numbers(at, steps, np.arange(type_.size).reshape(type_.shape))
        for turned in (False, True)[: 1 + turns]:
            corners = _parts(numbers.reshape(-1, columns), places, size, type_.shape, turned=turned)
            if corners is not None:
                operand = _Operand(name, corners, turned, table)
                break
    return operand


def _moved_numbers(at: DefUse, steps: Sequence[_Move], numbers: np.ndarray) -> np.ndarray:
    """Return the numbers of elements after the moves `steps`, which are given in reverse order."""
    for step in reversed(steps):
        rest = [at.constants[name] for name in step.node.inputs[1:]]
        numbers = evaluate(step.node.op, [numbers, *rest], step.node.attributes)[step.output]
    return numbers


def _parts(
    numbers: np.ndarray, places: Places, size: tuple[int, int], shape: tuple[int, ...], *, turned: bool
) -> Places | None:
    """Return the first row and column of each part in a source matrix.

    The result is None if a part is no submatrix of the source, or does not have all rows of one of the
    matrices that are stacked in it. No accelerator reads such parts in place.

    Args:
        numbers: int64[rows, columns]: for each element of the tensor with the parts, its number in the
            source.
        places: first row and column of each part in the tensor.
        size: rows and columns of a part.
        shape: shape of the source; its last dimension is the columns of the matrix.
        turned: the rows of the parts are columns of the source.
    """
    (high, wide), columns = size, shape[-1]
    rows = wide if turned else high
    if prod(shape[:-1]) % rows:
        return None
    down, across = (1, columns) if turned else (columns, 1)
    steps = np.arange(high)[:, None] * down + np.arange(wide) * across
    corners: list[int] = []
    for row, column in zip(places[::2], places[1::2], strict=True):
        part = numbers[row : row + high, column : column + wide]
        first_row, first_column = divmod(int(part[0, 0]), columns)
        fits = first_row % rows == 0 and first_column + (high if turned else wide) <= columns
        if not fits or not np.array_equal(part, part[0, 0] + steps):
            return None
        corners += [first_row, first_column]
    return tuple(corners)


def _with_writes_in_place(graph: Graph) -> Graph:
    """Return `graph` with products that write their results in the order after the following moves."""
    at, produced, kept = DefUse(graph), set[str](), list[Node]()
    for node in graph.nodes:
        node = _writing(at, node) if node.op == PRODUCTS else node
        if not produced.intersection(node.outputs):
            kept.append(node)
        if node.op == PRODUCTS:
            produced.update(node.outputs)
    return rebuilt(graph, kept)


def _writing(at: DefUse, node: Node) -> Node:
    (name,), (rows, columns, _) = node.outputs, node.extents("size")
    places, best = node.extents("places"), node
    numbers = np.arange(at.types[name].size).reshape(at.types[name].shape)
    columns = numbers.shape[-1]
    while (reader := at.only_reader(name, *REARRANGING)) is not None:
        (numbers,) = evaluate(reader.op, [numbers], reader.attributes)
        (name,) = reader.outputs
        there = np.empty_like(numbers.reshape(-1))
        there[numbers.reshape(-1)] = np.arange(numbers.size)
        corners = _parts(there.reshape(-1, columns), places, (rows, columns), numbers.shape, turned=False)
        if corners is not None:
            attributes = {**node.attributes, "places": corners, "shape": numbers.shape}
            best = replace(node, outputs=(name,), attributes=attributes)
    return best
