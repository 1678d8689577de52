"""Operators that change shapes and orders move integers, not the real numbers that these stand for.

`Reshape(DequantizeLinear(x))` becomes `DequantizeLinear(Reshape(x))`, as do operators that pick elements, and
`QuantizeLinear(Reshape(x))` where nothing else reads the result becomes `Reshape(QuantizeLinear(x))`. So they
do not stand between an operator and its conversions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vdla.compiler.graph.moves import REARRANGING
from vdla.compiler.graph.nodes import Graph, Node, TensorType, consumers, producers
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.rewrite import Rewriting

PICKING = ("Gather", "Slice")  # some elements of their first input


@dataclass(frozen=True, slots=True)
class MoveIntegers:
    """The pass; it changes moves of tensors of one scale."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with moves of integers."""
        return DeadCode().run(_before_readers(_behind_makers(graph)))


def _single(graph: Graph, conversion: Node) -> bool:
    """Whether a conversion has one scale and zero point."""
    return all(graph.types[name].size == 1 for name in conversion.inputs[1:3])


def _behind_makers(graph: Graph) -> Graph:
    """Return `graph` with moves before the DequantizeLinear whose result they read."""
    made, makers = Rewriting(graph), dict(producers(graph))
    for node in graph.nodes:
        before = makers.get(node.inputs[0]) if node.op in (*REARRANGING, *PICKING) else None
        if before is None or before.op != "DequantizeLinear" or not _single(graph, before):
            made.nodes.append(node)
            continue
        name = before.inputs[0]
        integers = made.types.get(name) or graph.types[name]
        whole = TensorType(graph.types[node.outputs[0]].shape, integers.dtype)
        moved = made.value(f"{node.outputs[0]}_moved", whole)
        made.nodes.append(replace(node, inputs=(name, *node.inputs[1:]), outputs=(moved,)))
        last = replace(before, inputs=(moved, *before.inputs[1:]), outputs=node.outputs)
        made.nodes.append(last)
        makers[node.outputs[0]] = last
    return made.finished()


def _quantiser(graph: Graph, node: Node, readers: Mapping[str, list[Node]]) -> Node | None:
    """Return the QuantizeLinear of one scale that alone reads what a node makes; None where there is none."""
    name = node.outputs[0]
    if name in graph.outputs or len(readers[name]) != 1:
        return None
    (reader,) = readers[name]
    return reader if reader.op == "QuantizeLinear" and _single(graph, reader) else None


def _before_readers(graph: Graph) -> Graph:
    """Return `graph` with moves behind the QuantizeLinear that alone reads their result."""
    made, readers = Rewriting(graph), consumers(graph)
    nodes: list[Node] = []
    places: dict[tuple[str, ...], int] = {}
    for node in reversed(graph.nodes):
        reader = _quantiser(graph, node, readers) if node.op in REARRANGING else None
        if reader is None:
            places[node.outputs] = len(nodes)
            nodes.append(node)
            continue
        place = places[reader.outputs]
        integers = made.types.get(reader.outputs[0]) or graph.types[reader.outputs[0]]
        whole = TensorType(graph.types[node.inputs[0]].shape, integers.dtype)
        moved = made.value(f"{node.inputs[0]}_quantised", whole)
        nodes[place] = replace(node, inputs=(moved, *node.inputs[1:]), outputs=reader.outputs)
        places[moved,] = len(nodes)
        nodes.append(replace(reader, inputs=(node.inputs[0], *reader.inputs[1:]), outputs=(moved,)))
        if len(readers[node.inputs[0]]) == 1:  # else it need not be known who reads it
            readers[node.inputs[0]] = [nodes[-1]]
    made.nodes = nodes[::-1]
    return made.finished()
