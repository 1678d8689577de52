"""Products of two activations read the parts of their operands where these stand, and write those of the
result where they belong.

Attention moves heads apart before its products, and together behind: Reshape, Transpose, Gather, Split. A
product names the part of a matrix that each head is, so the moves fall away. What changes all elements alike
on the way, as a scale of 1/sqrt(d) does, becomes a table of the operand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from vdla.compiler.graph.by_element import table_of
from vdla.compiler.graph.moves import REARRANGING
from vdla.compiler.graph.nodes import Graph, Node, consumers, producers
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.host.int8 import BYTES

PICKING = ("Gather", "Slice", "Split")
PRODUCTS = "Int8Products"
Places = tuple[int, ...]  # a row and a column of each part


@dataclass(frozen=True, slots=True)
class HeadsInPlace:
    """The pass."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with products that read and write heads in place."""
        return DeadCode().run(_behind(_before(graph)))


@dataclass(frozen=True, slots=True)
class _Found:
    """Where the parts of an operand stand.

    Attributes:
        name: of the tensor they are parts of.
        places: the first row and column of each.
        transposed: their rows are the tensor's columns.
        table: what their values are looked up in; None: in none.
    """

    name: str
    places: Places
    transposed: bool = False
    table: np.ndarray | None = field(default=None, compare=False)


class _Step(NamedTuple):
    """A node that moves elements, and the place of the result that is read."""

    node: Node
    output: int


def _before(graph: Graph) -> Graph:
    """Return `graph` with products that read the tensors before moves."""
    made, makers = GraphBuilder(graph), producers(graph)
    for node in graph.nodes:
        made.nodes.append(_reading(made, makers, node) if node.op == PRODUCTS else node)
    return made.finished()


def _reading(made: GraphBuilder, makers: Mapping[str, Node], node: Node) -> Node:
    graph, (rows, columns, depth) = made.graph, node.extents("size")
    turned = bool(node.integer("transposed"))
    right = (columns, depth) if turned else (depth, columns)
    names = (*node.inputs[3:], "", "")[:2]
    before = [graph.constants.get(name) for name in names]
    first = _Found(node.inputs[0], node.extents("a_places"), table=before[0])
    second = _Found(node.inputs[1], node.extents("b_places"), table=before[1])
    a = _source(graph, makers, first, (rows, depth))
    b = _source(graph, makers, second, right, turns=True)
    tables = [
        name
        if one.table is old or one.table is None
        else made.constant(f"{node.outputs[0]}_table", one.table)
        for name, old, one in zip(names, before, (a, b), strict=True)
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
            "transposed": int(turned != b.transposed),
        },
    )


def _source(
    graph: Graph, makers: Mapping[str, Node], found: _Found, size: tuple[int, int], *, turns: bool = False
) -> _Found:
    """Return the tensor farthest before moves in which the parts of an operand are parts of a matrix."""
    name, places, table, steps = found.name, found.places, found.table, list[_Step]()
    own = graph.types[name].shape[-1]
    while (maker := makers.get(name)) is not None:
        changed = table_of(graph, maker)
        moves = maker.op in REARRANGING or (maker.op in PICKING and _fixed(graph, maker))
        if changed is not None:
            table = changed if table is None else table[changed.astype(np.int16) + len(BYTES) // 2]
        elif not moves or graph.types[name].dtype != "int8":
            break
        else:
            steps.append(_Step(maker, maker.outputs.index(name)))
        name = maker.inputs[0]
        type_ = graph.types[name]
        numbers = _moved(graph, steps, np.arange(type_.size).reshape(type_.shape))
        for turned in (False, True)[: 1 + turns]:
            there = _parts(numbers.reshape(-1, own), places, size, type_.shape[-1], turned=turned)
            if there is not None:
                found = _Found(name, there, turned, table)
                break
    return found


def _fixed(graph: Graph, node: Node) -> bool:
    """Whether a node picks elements by constants alone."""
    return all(name in graph.constants for name in node.inputs[1:])


def _moved(graph: Graph, steps: Sequence[_Step], numbers: np.ndarray) -> np.ndarray:
    """Return the numbers of elements as steps, of which the last comes first, move them."""
    for step in reversed(steps):
        rest = [graph.constants[name] for name in step.node.inputs[1:]]
        numbers = evaluate(step.node.op, [numbers, *rest], step.node.attributes)[step.output]
    return numbers


def _parts(
    numbers: np.ndarray, places: Places, size: tuple[int, int], columns: int, *, turned: bool
) -> Places | None:
    """Return where parts stand in a matrix of `columns` columns; None where one of them is no part of it.

    Args:
        numbers: [rows, columns]: the number in that matrix of each element of the tensor that has the parts.
        turned: rows of parts are columns there.
    """
    high, wide = size
    down, across = (1, columns) if turned else (columns, 1)
    steps = np.arange(high)[:, None] * down + np.arange(wide) * across
    found: list[int] = []
    for row, column in zip(places[::2], places[1::2], strict=True):
        part = numbers[row : row + high, column : column + wide]
        first_row, first_column = divmod(int(part[0, 0]), columns)
        fits = first_column + (high if turned else wide) <= columns
        if not fits or not np.array_equal(part, part[0, 0] + steps):
            return None
        found += [first_row, first_column]
    return tuple(found)


def _behind(graph: Graph) -> Graph:
    """Return `graph` with products whose results stand as the moves behind them leave them."""
    made, readers = GraphBuilder(graph), consumers(graph)
    for node in graph.nodes:
        made.nodes.append(_writing(graph, readers, node) if node.op == PRODUCTS else node)
    produced: set[str] = set()
    kept = []
    for node in made.nodes:
        if not produced.intersection(node.outputs):
            kept.append(node)
        if node.op == PRODUCTS:
            produced.update(node.outputs)
    made.nodes = kept
    return made.finished()


def _writing(graph: Graph, readers: Mapping[str, list[Node]], node: Node) -> Node:
    (name,), (rows, columns, _) = node.outputs, node.extents("size")
    places, best = node.extents("places"), node
    numbers = np.arange(graph.types[name].size).reshape(graph.types[name].shape)
    own = numbers.shape[-1]
    while name not in graph.outputs and len(readers[name]) == 1 and readers[name][0].op in REARRANGING:
        (reader,) = readers[name]
        (numbers,) = evaluate(reader.op, [numbers], reader.attributes)
        (name,) = reader.outputs
        there = np.empty_like(numbers.reshape(-1))
        there[numbers.reshape(-1)] = np.arange(numbers.size)
        found = _parts(there.reshape(-1, own), places, (rows, columns), numbers.shape[-1], turned=False)
        if found is not None:
            attributes = {**node.attributes, "places": found, "shape": numbers.shape}
            best = replace(node, outputs=(name,), attributes=attributes)
    return best
