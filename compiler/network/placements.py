"""Where the operators of a graph run that have been placed so far."""

from collections.abc import Iterable, Mapping

from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.network.maker import Offloaded, OnHost, Placed, View


class Placements:
    """The operators of a graph that have been placed so far, in order, by numbers that only grow.

    Args:
        readers: the nodes that read each value, once for each read.
    """

    def __init__(self, graph: Graph, readers: Mapping[str, list[Node]]) -> None:
        self.graph, self._readers = graph, readers
        self._placed: dict[int, Placed] = {}
        self._makers: dict[str, int] = {}
        self._next = 0

    def add(self, one: Placed, without: Iterable[int] = ()) -> None:
        """Place an operator last, which also does what the operators of the numbers `without` did."""
        for number in without:
            del self._placed[number]
        self._placed[self._next] = one
        if not isinstance(one, OnHost):
            made = (one.output[0],) if isinstance(one, Offloaded) else one.node.outputs
            self._makers |= dict.fromkeys(made, self._next)
        self._next += 1

    def maker(self, name: str) -> tuple[int, Offloaded | View] | None:
        """Return the number of the operator on the accelerator that makes a value, and the operator; None
        where there is none."""
        number = self._makers.get(name)
        one = None if number is None else self._placed.get(number)
        return None if number is None or one is None or isinstance(one, OnHost) else (number, one)

    def is_read_once(self, name: str) -> bool:
        """Whether one operator alone reads a value, once, and it does not leave the network."""
        return len(self._readers[name]) == 1 and name not in self.graph.outputs

    def in_order(self) -> list[Placed]:
        """Return the operators."""
        return list(self._placed.values())
