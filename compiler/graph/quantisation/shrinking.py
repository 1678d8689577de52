"""Finding the operators that compute with integers for the sake of others: the fixpoint of `Roles`.

Whether an operator is worth it depends on its neighbours, so those that are not are taken out in rounds. A
round looks only at nodes about whose neighbours the round before has changed something. So the work follows
the number of nodes, not that of rounds.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Protocol

from vdla.compiler.graph.conversions import BOUNDS
from vdla.compiler.graph.nodes import Graph, Node


class Subject(Protocol):
    """What shrinks: `vdla.compiler.graph.quantisation.roles.Roles`. Values go by their names, nodes by their
    first results."""

    graph: Graph
    makers: dict[str, Node]
    readers: dict[str, list[Node]]
    fused: set[str]
    others: set[str]
    roots: dict[str, str]
    wanted: set[str]

    def is_bound(self, node: Node) -> bool:
        """Whether a node is a bound that goes into the operator before it, as `others` is."""

    def root_of(self, node: Node) -> str | None:
        """Return the int8 tensor whose elements a node's result is a function of, as the rest is."""

    def is_wanted(self, name: str) -> bool:
        """Whether a node with integers reads a value, or a function of its elements, as the rest is."""

    def is_worth(self, node: Node) -> bool:
        """Whether one of `others` need compute with integers, as the rest is."""


def shrink(subject: Subject) -> None:
    """Take nodes out of `others` until all that are left are worth it, and find all that follows from it."""
    graph = subject.graph
    subject.fused |= {node.outputs[0] for node in graph.nodes if subject.is_bound(node)}
    rounds = _Rounds(subject)
    rounds.find_roots(graph.nodes)
    rounds.find_wanted({name: None for node in graph.nodes for name in (*node.inputs, *node.outputs) if name})
    judged: Iterable[str] = [node.outputs[0] for node in graph.nodes if node.outputs[0] in subject.others]
    while out := rounds.not_worth(judged):
        subject.others -= out
        judged = rounds.followed(out)


class _Rounds:
    """The rounds of `shrink`.

    Attributes:
        looked: how many nodes and values were looked at.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.places = {node.outputs[0]: place for place, node in enumerate(subject.graph.nodes)}
        self.looked = 0

    def not_worth(self, names: Iterable[str]) -> set[str]:
        """Return those of some nodes that need not compute with integers."""
        of = self.subject
        judged = {name for name in names if name in of.others and name not in of.fused}
        self.looked += len(judged)
        return {name for name in judged if not of.is_worth(of.makers[name])}

    def followed(self, out: set[str]) -> set[str]:
        """Find what follows for the rest from nodes that were taken out; return whom it concerns."""
        of = self.subject
        loosened = {reader.outputs[0] for reader in self.readers(out) if self.is_loosened(reader)}
        of.fused -= loosened
        changed = out | loosened
        begun = (*(of.makers[name] for name in changed), *self.readers(changed))
        changed |= self.find_roots(begun)
        wanted = self.find_wanted({name: None for each in changed for name in of.makers[each].inputs if name})
        before = {of.makers[name].inputs[0] for name in loosened}
        makers = {of.makers[name].outputs[0] for name in wanted | before if name in of.makers}
        heads = {of.makers[of.makers[name].inputs[0]].outputs[0] for name in makers if name in of.fused}
        return changed | makers | heads | {reader.outputs[0] for reader in self.readers(changed)}

    def is_loosened(self, node: Node) -> bool:
        """Whether a bound that went into the operator before it does not any more."""
        of = self.subject
        return node.op in BOUNDS and node.outputs[0] in of.fused and not of.is_bound(node)

    def readers(self, names: Iterable[str]) -> list[Node]:
        """Return who reads a result of some nodes."""
        of = self.subject
        return [reader for name in names for made in of.makers[name].outputs for reader in of.readers[made]]

    def find_roots(self, nodes: Iterable[Node]) -> set[str]:
        """Find the roots of some nodes, and of those behind them; return where something has changed."""
        of, changed = self.subject, set[str]()
        waiting = sorted({self.places[node.outputs[0]] for node in nodes})
        known = set(waiting)
        while waiting:
            place = heappop(waiting)
            known.discard(place)
            node, self.looked = of.graph.nodes[place], self.looked + 1
            out, root = node.outputs[0], of.root_of(node)
            if root == of.roots.get(out):
                continue
            changed.add(out)
            if root is None:
                del of.roots[out]
            else:
                of.roots[out] = root
            for reader in of.readers[out]:
                if (behind := self.places[reader.outputs[0]]) not in known:
                    known.add(behind)
                    heappush(waiting, behind)
        return changed

    def find_wanted(self, names: Iterable[str]) -> set[str]:
        """Find which of some values are wanted, and of those before them; return where something has
        changed."""
        of, changed = self.subject, set[str]()
        known = dict.fromkeys(names)
        waiting = sorted((-self.place_of(name), name) for name in known)
        while waiting:
            _, name = heappop(waiting)
            del known[name]
            self.looked += 1
            if of.is_wanted(name) == (name in of.wanted):
                continue
            changed.add(name)
            of.wanted ^= {name}
            for before in of.makers[name].inputs if name in of.roots else ():
                if before and before not in known:
                    known[before] = None
                    heappush(waiting, (-self.place_of(before), before))
        return changed

    def place_of(self, name: str) -> int:
        """Return the position of the node that makes a value; -1 where none does."""
        maker = self.subject.makers.get(name)
        return -1 if maker is None else self.places[maker.outputs[0]]
