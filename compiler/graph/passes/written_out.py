"""Recognising the pieces of which networks make an operator: numbers, squares, means and maxima, and whether
nothing else reads what is in their middle."""

from collections.abc import Iterator
from math import isclose
from typing import NamedTuple

from vdla.compiler.graph.moves import RESHAPING
from vdla.compiler.graph.nodes import Graph, Node, consumers, producers

LOWEST = -3.4e38  # what is less bounds no float32


class Statistic(NamedTuple):
    """One number for all elements of a value along one dimension, which is kept with the extent 1."""

    x: str
    axis: int


class Pieces:
    """The nodes of a graph with who makes and who reads each value.

    Methods return None, or yield nothing, where a value is made otherwise than they look for.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.makers, self.readers = graph, producers(graph), consumers(graph)

    def made(self, name: str, *ops: str) -> Node | None:
        """Return the node that makes a value, if it is one of `ops`."""
        node = self.makers.get(name)
        return node if node is not None and node.op in ops else None

    def operands(self, name: str, op: str) -> Iterator[tuple[str, str]]:
        """Yield both operands of the node that makes a value, if it is `op`; in both orders where these are
        equal."""
        node = self.made(name, op)
        if node is not None and len(node.inputs) == 2:
            first, second = node.inputs
            yield first, second
            if op in ("Add", "Max", "Mul"):
                yield second, first

    def number(self, name: str) -> float | None:
        """Return a constant of one element."""
        array = self.graph.constants.get(name)
        return float(array.item()) if array is not None and array.size == 1 else None

    def squared(self, name: str) -> str | None:
        """Return what a value is the square of, by Pow or Mul."""
        node = self.made(name, "Mul", "Pow")
        if node is None:
            return None
        if node.op == "Mul":
            return node.inputs[0] if node.inputs[0] == node.inputs[1] else None
        return node.inputs[0] if self.number(node.inputs[1]) == 2 else None

    def statistic(self, name: str, op: str) -> Statistic | None:
        """Return what a reduction `op` over one dimension makes a value of, that has the extent 1 there, or
        that of x behind an Expand."""
        wide = self.made(name, "Expand")
        inner = self.unshaped(name if wide is None else wide.inputs[0])
        found = self.mean(inner) if op == "ReduceMean" else self.reduced(inner, op)
        if found is None:
            return None
        if wide is not None and self.graph.types[name].shape != self.graph.types[found.x].shape:
            return None
        return found if self.keeps(name if wide is None else wide.inputs[0], found) else None

    def keeps(self, name: str, found: Statistic) -> bool:
        """Whether a value has the shape of what a statistic is of, but for the extent 1."""
        shape, kept = self.graph.types[found.x].shape, self.graph.types[name].shape
        expected = (*shape[: found.axis], 1, *shape[found.axis + 1 :])
        return (1,) * (len(shape) - len(kept)) + kept == expected

    def unshaped(self, name: str) -> str:
        """Return what changes of shape make a value of."""
        while (node := self.made(name, *RESHAPING)) is not None:
            name = node.inputs[0]
        return name

    def mean(self, name: str) -> Statistic | None:
        """Return what a value is the mean of along one dimension, whether the dimension is kept or not."""
        for op in ("Div", "Mul"):
            for total, constant in self.operands(name, op):
                sums, number = self.reduced(self.unshaped(total), "ReduceSum"), self.number(constant)
                if sums is None or not number:
                    continue
                count = self.graph.types[sums.x].shape[sums.axis]
                if isclose(number if op == "Div" else 1 / number, count, rel_tol=1e-6):
                    return sums
        return self.reduced(name, "ReduceMean")

    def reduced(self, name: str, op: str) -> Statistic | None:
        """Return what a reduction over one dimension makes a value of; for ReduceMax, a bound below all
        numbers may stand behind it."""
        if op == "ReduceMax":
            bounds = (other for other, bound in self.operands(name, "Max") if self.is_lowest(bound))
            name = next(bounds, name)
        node = self.made(name, op)
        if node is None or len(node.extents("axes")) != 1 or not self.graph.types[node.inputs[0]].is_known:
            return None
        return Statistic(node.inputs[0], *node.extents("axes"))

    def is_lowest(self, name: str) -> bool:
        """Whether a value is a number below all others."""
        number = self.number(name)
        return number is not None and number < LOWEST

    def is_whole(self, out: str, x: str) -> bool:
        """Whether nothing but the nodes between `x` and `out` reads what is between them."""
        inside, waiting = {out}, [out]
        while waiting:
            node = self.makers.get(waiting.pop())
            fresh = {name for name in (node.inputs if node else ()) if name} - {x} - inside
            waiting += [name for name in fresh if name not in self.graph.constants]
            inside |= fresh
        middle = {name for name in inside if name in self.makers} - {out}
        nodes = {self.makers[name].outputs for name in (*middle, out)}
        return not middle & {*self.graph.outputs} and all(
            reader.outputs in nodes for name in middle for reader in self.readers[name]
        )
