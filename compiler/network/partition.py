"""Placement of operators on host and accelerator, in an order that needs few launches.

A launch that does next to nothing between operators on the host is not worth it; the host runs its operators.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from vdla.compiler.graph.conversions import Conversions
from vdla.compiler.graph.integer_forms.host import is_float, why_on_host
from vdla.compiler.graph.nodes import Graph, Node, consumers
from vdla.compiler.network.epilogues import Placements, fused_epilogue
from vdla.compiler.network.offload import OPERATORS, offload
from vdla.compiler.network.placed import Offloaded, OnHost, Placed, View
from vdla.compiler.network.views import VIEW_RULES, VIEWS, Viewed
from vdla.compiler.rules import Unfit, unfit
from vdla.hw.spec.target import Target
from vdla.runtime.layout import Layout
from vdla.runtime.module.reasons import reason_of

Report = Callable[[Node], None]
NONE: Mapping[str, str] = {}
TABLE = "Int8Lookup"
Part = tuple[Placed, ...]  # all on the host, or all on the accelerator


def place(
    graph: Graph, target: Target, report: Report = lambda node: None, on_host: Mapping[str, str] = NONE
) -> list[Placed]:
    """Return where each node runs, in the graph's order.

    Args:
        report: called with each node first.
        on_host: why nodes run on the host that could run on the accelerator, by their first result.
    """
    standing: dict[str, Layout] = {}  # values that the accelerator makes
    found = Conversions(graph)
    placed = Placements(graph, found.readers)
    for node in graph.nodes:
        report(node)
        follower = None if node.outputs[0] in on_host else fused_epilogue(placed, node, target)
        if node.outputs[0] in on_host:
            one: Placed = OnHost(node, on_host[node.outputs[0]])
        elif follower is None:
            one = _place(found, node, target, standing)
        else:
            one = follower.both  # it is carried out where the other operands are there, too
        if not isinstance(one, OnHost):
            layout = one.layout if isinstance(one, View) else one.output[1]
            standing.update(dict.fromkeys(node.outputs, layout))
        placed.add(one, () if follower is None else follower.places)
    return placed.in_order()


def _place(found: Conversions, node: Node, target: Target, standing: Mapping[str, Layout]) -> Placed:
    graph = found.graph
    if node.op in OPERATORS and not is_float(graph, node):
        made = offload(graph, node, target, gathers=_may_gather(found, node, standing))
        return _on_host(graph, node, made) if isinstance(made, Unfit) else made
    if node.op in VIEWS and not is_float(graph, node):
        at = Viewed(graph, node, target.config, standing.get(node.inputs[0]))
        unlike, layout = unfit(node.op, VIEW_RULES, at), at.layout
        if unlike is None and layout is not None:
            return View(node, layout)
        if unlike is not None and node.op != "Transpose":
            return OnHost(node, unlike.reason)
    return OnHost(node, why_on_host(found, node).reason)


def _on_host(graph: Graph, node: Node, unfit_node: Unfit) -> OnHost:
    """Return an operator on the host: a table of int8 would run there but for the target; what other
    operators stand for says itself why it runs on the host."""
    is_table = node.op == TABLE and graph.types[node.outputs[0]].dtype == "int8"
    return OnHost(node, unfit_node.reason if is_table else node.reason or unfit_node.reason)


def _may_gather(found: Conversions, node: Node, inside: Mapping[str, Layout]) -> bool:
    """Whether the node's first input comes from the host, and nobody else reads it."""
    first = node.inputs[0] if node.inputs else ""
    return bool(first) and len(found.readers[first]) == 1 and first not in inside


def parts(placed: Sequence[Placed]) -> list[Part]:
    """Divide the nodes into as few parts as possible, each on one place, in an order that keeps dependencies.

    A value from the accelerator that it cannot read back in its present layout goes through the host, so its
    reader belongs to a later part.
    """
    dividing, found = _Dividing(placed), list[Part]()
    on_host, idle = True, False
    while dividing.waits():
        part = dividing.next(on_host)
        assert part or not idle, "the graph's nodes are in no order in which they can run"
        idle = not part
        if part:
            found.append(part)
        on_host = not on_host
    assert sum(map(len, found)) == len(placed), "every operator is in a part"
    return found


class _Dividing:
    """Operators that wait to become parts: those that can run next, by their places in order.

    Args:
        placed: in an order in which they can run.
    """

    def __init__(self, placed: Sequence[Placed]) -> None:
        self.placed = placed
        made = {name: place for place, one in enumerate(placed) for name in one.node.outputs}
        self.readers: list[list[int]] = [[] for _ in placed]
        self.missing: list[int] = []
        for place, one in enumerate(placed):
            makers = {made[name] for name in one.node.inputs if name in made}
            self.missing.append(len(makers))
            for maker in makers:
                self.readers[maker].append(place)
        self.ready: dict[bool, list[int]] = {True: [], False: []}  # heaps, by whether on the host
        for place, count in enumerate(self.missing):
            if not count:
                self.release(place)

    def release(self, place: int) -> None:
        """Let an operator run next whose operands are all there."""
        heappush(self.ready[isinstance(self.placed[place], OnHost)], place)

    def waits(self) -> bool:
        """Whether an operator waits that can run next."""
        return any(self.ready.values())

    def next(self, on_host: bool) -> Part:
        """Return what can run next on one place, in order."""
        part: list[Placed] = []
        later: list[int] = []
        within: dict[str, Standing] = {}
        while self.ready[on_host]:
            place = heappop(self.ready[on_host])
            one = self.placed[place]
            if not _readable(one, within):
                later.append(place)
                continue
            part.append(one)
            if not isinstance(one, OnHost):
                layout = one.layout if isinstance(one, View) else one.output[1]
                within |= dict.fromkeys(one.node.outputs, Standing(layout.block, layout.stack))
            for reader in self.readers[place]:
                self.missing[reader] -= 1
                if not self.missing[reader]:
                    self.release(reader)
        self.ready[on_host] = later  # in order, which makes it a heap
        return tuple(part)


class Standing(NamedTuple):
    """How a tensor of the accelerator stands in DRAM: in blocks of so many channels, in so many matrices."""

    block: int
    stack: int


def _readable(one: Placed, within: Mapping[str, Standing]) -> bool:
    """Whether what an operator reads of its own part stands as it needs it; a view needs its input there, the
    host nothing."""
    if isinstance(one, View):
        return one.node.inputs[0] in within
    if isinstance(one, OnHost):
        return True
    wanted = ((name, Standing(layout.block, layout.stack)) for name, layout in one.inputs.values())
    return all(standing == within.get(name, standing) for name, standing in wanted)


SHARE = 1000  # of the network's work that a launch must do: one in so many
TAKES = f"the accelerator takes launches with at least 1/{SHARE} of the network's work"

Place = Callable[[Mapping[str, str]], list[Placed]]


def worthwhile(graph: Graph, place: Place) -> list[Part]:
    """Return the parts of a graph, without launches that are not worth it.

    Args:
        place: returns where each node runs; it is given why nodes must run on the host, by their first
            result.
    """
    on_host: dict[str, str] = {}
    while True:
        found = parts(place(on_host))
        small = _small(found)
        if not small:
            return found
        on_host |= dict(_reasons(graph, found, small))


def work(part: Part) -> int:
    """Return the multiply-accumulates of a part on the accelerator, and the elements that it makes."""
    return sum(one.macs + one.output[1].size for one in part if isinstance(one, Offloaded))


def _small(found: Sequence[Part]) -> set[int]:
    """Return the numbers of the parts on the accelerator that do less than their share."""
    done = {number: work(part) for number, part in enumerate(found) if _is_launch(part)}
    return {number for number, own in done.items() if own * SHARE < sum(done.values())}


def _is_launch(part: Part) -> bool:
    return any(isinstance(one, Offloaded) for one in part)


def _reasons(graph: Graph, found: Sequence[Part], small: Collection[int]) -> Iterator[tuple[str, str]]:
    """Yield why each node of some parts runs on the host, by its first result."""
    of = {name: number for number, part in enumerate(found) for one in part for name in one.node.outputs}
    readers = consumers(graph)
    for node in reversed(graph.nodes):
        name = node.outputs[0]
        if name not in of:  # what follows it is carried out with it
            of[name] = of[readers[name][0].outputs[0]]
        if of[name] in small:
            yield name, reason_of(f"{node.op} with little to do between operators on the host", TAKES)
