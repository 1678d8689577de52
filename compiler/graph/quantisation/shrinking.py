"""The fixpoint of `Roles`: which operators compute with integers because of their neighbours.

Whether an operator is worth quantising depends on its neighbours, so operators that are not are removed in
rounds. A round visits only nodes whose neighbours the previous round changed. The work therefore grows with
the number of nodes, not with the number of rounds.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Protocol

from vdla.compiler.graph.conversions import BOUNDS
from vdla.compiler.graph.nodes import Graph, Node


class ShrinkingRoles(Protocol):
    """The shrinking sets of `vdla.compiler.graph.quantisation.roles.Roles`, with nodes named by first
    output."""

    graph: Graph
    makers: dict[str, Node]
    readers: dict[str, list[Node]]
    fused: set[str]
    others: set[str]
    roots: dict[str, str]
    wanted: set[str]

    def is_bound(self, node: Node) -> bool:
        """Whether a node is a bound fused into its producer, given the current `others`."""

    def root_of(self, node: Node) -> str | None:
        """Return the int8 tensor of which a node is an elementwise function, given the current sets, or
        None."""

    def is_wanted(self, name: str) -> bool:
        """Whether an integer operator reads a value or an elementwise function of it, given the current
        sets."""

    def is_worth_quantising(self, node: Node) -> bool:
        """Whether a node of `others` is worth quantising, given the current sets."""


def shrink(roles: ShrinkingRoles) -> None:
    """Remove nodes from `others` until all remaining nodes are worth quantising; update the dependent
    sets."""
    graph = roles.graph
    roles.fused |= {node.result for node in graph.nodes if roles.is_bound(node)}
    rounds = _Rounds(roles)
    rounds.update_roots(graph.nodes)
    rounds.update_wanted(
        {name: None for node in graph.nodes for name in (*node.inputs, *node.outputs) if name}
    )
    judged: Iterable[str] = [node.result for node in graph.nodes if node.result in roles.others]
    while out := rounds.not_worth_quantising(judged):
        roles.others -= out
        judged = rounds.update(out)


class _Rounds:
    """The rounds of `shrink`.

    Attributes:
        visits: the number of visits to nodes and values so far.
    """

    def __init__(self, roles: ShrinkingRoles) -> None:
        self.roles = roles
        self.places = {node.result: place for place, node in enumerate(roles.graph.nodes)}
        self.visits = 0

    def not_worth_quantising(self, names: Iterable[str]) -> set[str]:
        """Return the nodes among `names` that are not worth quantising."""
        roles = self.roles
        judged = {name for name in names if name in roles.others and name not in roles.fused}
        self.visits += len(judged)
        return {name for name in judged if not roles.is_worth_quantising(roles.makers[name])}

    def update(self, out: set[str]) -> set[str]:
        """Update the sets after the nodes `out` were removed; return the nodes to judge again."""
        roles = self.roles
        released = {reader.result for reader in self.readers(out) if self.is_no_longer_fused(reader)}
        roles.fused -= released
        changed = out | released
        begun = (*(roles.makers[name] for name in changed), *self.readers(changed))
        changed |= self.update_roots(begun)
        wanted = self.update_wanted(
            {name: None for each in changed for name in roles.makers[each].inputs if name}
        )
        before = {roles.makers[name].inputs[0] for name in released}
        makers = {roles.makers[name].result for name in wanted | before if name in roles.makers}
        heads = {roles.makers[roles.makers[name].inputs[0]].result for name in makers if name in roles.fused}
        return changed | makers | heads | {reader.result for reader in self.readers(changed)}

    def is_no_longer_fused(self, node: Node) -> bool:
        """Whether a bound that was fused into its producer no longer can be."""
        roles = self.roles
        return node.op in BOUNDS and node.result in roles.fused and not roles.is_bound(node)

    def readers(self, names: Iterable[str]) -> list[Node]:
        """Return the readers of the results of nodes."""
        roles = self.roles
        return [
            reader for name in names for out in roles.makers[name].outputs for reader in roles.readers[out]
        ]

    def update_roots(self, nodes: Iterable[Node]) -> set[str]:
        """Update the roots of nodes and of their transitive readers; return the nodes whose root changed."""
        roles, changed = self.roles, set[str]()
        waiting = sorted({self.places[node.result] for node in nodes})
        known = set(waiting)
        while waiting:
            place = heappop(waiting)
            known.discard(place)
            node, self.visits = roles.graph.nodes[place], self.visits + 1
            out, root = node.result, roles.root_of(node)
            if root == roles.roots.get(out):
                continue
            changed.add(out)
            if root is None:
                del roles.roots[out]
            else:
                roles.roots[out] = root
            for reader in roles.readers[out]:
                if (place := self.places[reader.result]) not in known:
                    known.add(place)
                    heappush(waiting, place)
        return changed

    def update_wanted(self, names: Iterable[str]) -> set[str]:
        """Update `wanted` for values and for the values they are computed from; return the changed values."""
        roles, changed = self.roles, set[str]()
        known = dict.fromkeys(names)
        waiting = sorted((-self.position_of(name), name) for name in known)
        while waiting:
            _, name = heappop(waiting)
            del known[name]
            self.visits += 1
            if roles.is_wanted(name) == (name in roles.wanted):
                continue
            changed.add(name)
            roles.wanted ^= {name}
            for before in roles.makers[name].inputs if name in roles.roots else ():
                if before and before not in known:
                    known[before] = None
                    heappush(waiting, (-self.position_of(before), before))
        return changed

    def position_of(self, name: str) -> int:
        """Return the position of the producer of a value; -1 if no node produces it."""
        maker = self.roles.makers.get(name)
        return -1 if maker is None else self.places[maker.result]
