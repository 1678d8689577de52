"""A softmax that is written out in pieces becomes one operator.

    e = Exp(Sub(x, ReduceMax(x))),  Div(e, ReduceSum(e))   becomes   Softmax(x)

The maxima may be left out, and the division be a product with Reciprocal. Reductions may drop their dimension
and a Reshape bring it back.
"""

from dataclasses import dataclass

from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.passes.written_out import Pieces
from vdla.compiler.graph.rewrite import rebuilt


@dataclass(frozen=True, slots=True)
class JoinSoftmax:
    """The pass; it joins pieces of float32 whose middle nothing else reads."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with whole softmax operators."""
        pieces = Pieces(graph)
        return DeadCode().run(rebuilt(graph, (_whole(pieces, node) for node in graph.nodes)))


def _whole(pieces: Pieces, node: Node) -> Node:
    """Return the softmax that a node ends; other nodes as they are."""
    (out, *_), types = node.outputs, pieces.graph.types
    for powers, sums in _quotient(pieces, node):
        total, power = pieces.statistic(sums, "ReduceSum"), pieces.made(powers, "Exp")
        if total is None or power is None or total.x != powers:
            continue
        x = _before(pieces, power.inputs[0], total.axis)
        if types[x] == types[out] and types[x].dtype == "float32" and pieces.is_whole(out, x):
            return Node("Softmax", (x,), node.outputs, {"axis": total.axis}, node.name)
    return node


def _quotient(pieces: Pieces, node: Node) -> list[tuple[str, str]]:
    """Return what a node may divide by what."""
    if node.op == "Div":
        return list(pieces.operands(node.outputs[0], "Div"))
    found = pieces.operands(node.outputs[0], "Mul")
    inverses = ((powers, pieces.made(other, "Reciprocal")) for powers, other in found)
    return [(powers, inverse.inputs[0]) for powers, inverse in inverses if inverse is not None]


def _before(pieces: Pieces, below: str, axis: int) -> str:
    """Return what maxima along a dimension are taken off of; `below` itself where there are none."""
    for x, greatest in pieces.operands(below, "Sub"):
        if pieces.statistic(greatest, "ReduceMax") == (x, axis):
            return x
    return below
