"""Placement of operators on host and accelerator, in an order that needs few launches.

The host also runs the operators of launches with too little work.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from heapq import heappop, heappush

from vdla.compiler.graph.conversions import Conversions
from vdla.compiler.graph.integer_forms.rules import MOVES
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.passes.to_integers import is_float, moved_by_elements, unsupported
from vdla.compiler.lower.tables import OPERATORS
from vdla.compiler.network.groups import grouped
from vdla.compiler.network.offload import offload
from vdla.compiler.network.placed import Offloaded, OnHost, Placed, Placements, Stored, View
from vdla.compiler.network.views import VIEW_RULES, VIEWS, ViewCase
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
    """Return the placed operators in the order of `Placements.in_order`.

    Args:
        report: called with each node before it is placed.
        on_host: reasons why nodes must run on the host, by their first result.
    """
    layouts: dict[str, Layout] = {}  # of values in the accelerator's DRAM
    conversions = Conversions(graph)
    placed = Placements(conversions)
    for node in graph.nodes:
        report(node)
        operator: Placed
        if node.result in on_host:
            operator = OnHost(node, on_host[node.result])
        else:  # a group runs when all its operands are available
            operator = grouped(placed, node, target) or _place(conversions, node, target, layouts)
        if not isinstance(operator, OnHost):
            layouts[operator.output.value] = operator.output.layout
        placed.add(operator)
    return placed.in_order()


def _place(conversions: Conversions, node: Node, target: Target, layouts: Mapping[str, Layout]) -> Placed:
    graph = conversions.graph
    if node.op in VIEWS and not is_float(graph, node):
        at = ViewCase(graph, node, target.config, layouts.get(node.inputs[0]))
        unlike, layout = unfit(node.op, VIEW_RULES, at), at.layout
        if unlike is None and layout is not None:
            return View(node, Stored(node.result, layout))
        if unlike is not None and node.op not in OPERATORS:
            return OnHost(node, unlike.reason)
    if node.op in OPERATORS and not is_float(graph, node):
        packs = _may_pack(conversions, node, layouts)
        offloaded = offload(graph, node, target, packs=packs, layouts=layouts)
        return _stays_on_host(graph, node, offloaded) if isinstance(offloaded, Unfit) else offloaded
    why = moved_by_elements(graph, node) if node.op in MOVES else unsupported(node)
    return OnHost(node, node.reason or why.reason)


def _stays_on_host(graph: Graph, node: Node, unfit_node: Unfit) -> OnHost:
    """Return an operator on the host with the reason. The reason that a pass gave the node comes before the
    reason of the target, except for a table of int8, which only the target keeps on the host."""
    is_table = node.op == TABLE and graph.types[node.result].dtype == "int8"
    return OnHost(node, unfit_node.reason if is_table else node.reason or unfit_node.reason)


def _may_pack(conversions: Conversions, node: Node, layouts: Mapping[str, Layout]) -> bool:
    """Whether the node's first input comes from the host and has no other reader."""
    first = node.inputs[0] if node.inputs else ""
    alone = len(conversions.readers(first)) == 1 and node.inputs.count(first) == 1
    return bool(first) and alone and first not in layouts


def parts(placed: Sequence[Placed]) -> list[Part]:
    """Return as few parts as possible, in an order that keeps dependencies. Each part runs either on the host
    or on the accelerator, and has all operators that can run next there, in order.

    If an operator reads a value of the accelerator in another layout, the value crosses to the host and back.
    The operator then belongs to a later part.

    Args:
        placed: operators in topological order.
    """
    places = {name: place for place, each in enumerate(placed) for name in each.node.outputs}
    order = TopologicalSorter[int]()
    for place, each in enumerate(placed):
        order.add(place, *(places[name] for name in each.node.inputs if name in places))
    order.prepare()
    ready: dict[bool, list[int]] = {True: [], False: []}  # heaps of places, by whether on the host
    for place in sorted(order.get_ready()):
        ready[isinstance(placed[place], OnHost)].append(place)
    divided, on_host, idle = list[Part](), False, False
    while order.is_active():
        on_host = not on_host
        part = _next_part(placed, order, ready, on_host)
        assert part or not idle, "the graph's nodes are in no order in which they can run"
        idle = not part
        divided += [part] if part else []
    return divided


def _next_part(
    placed: Sequence[Placed], order: "TopologicalSorter[int]", ready: dict[bool, list[int]], on_host: bool
) -> Part:
    """Return all operators that can run next on the host, or on the accelerator.

    Args:
        order: the order of the places of operators; operators of the part are marked as done.
        ready: places of the operators whose operands are all available, by whether on the host.
    """
    part: list[Placed] = []
    later: list[int] = []
    within: dict[str, Layout] = {}
    while ready[on_host]:
        place = heappop(ready[on_host])
        operator = placed[place]
        if not _readable(operator, within):
            later.append(place)
            continue
        part.append(operator)
        if not isinstance(operator, OnHost):
            within[operator.output.value] = operator.output.layout
        order.done(place)
        for reader in order.get_ready():
            heappush(ready[isinstance(placed[reader], OnHost)], reader)
    ready[on_host] = later  # sorted, so it is a heap
    return tuple(part)


def _readable(operator: Placed, within: Mapping[str, Layout]) -> bool:
    """Whether all operands from the same part have the layout that an operator reads. The input of a view
    must be in the same part; operators on the host accept any layout."""
    if isinstance(operator, View):
        return operator.node.inputs[0] in within
    if isinstance(operator, OnHost):
        return True
    return all(layout == within.get(name, layout) for name, layout in operator.inputs.values())


WORK_RATIO = 1000  # a launch does at least 1/1000 of the network's work
TAKES = f"the accelerator takes launches with at least 1/{WORK_RATIO} of the network's work"

Place = Callable[[Mapping[str, str]], list[Placed]]


def worthwhile(graph: Graph, place: Place) -> list[Part]:
    """Return the parts of a graph; the host runs operators whose launch would do too little work.

    Args:
        place: returns the placed operators; its argument has the reasons why nodes must run on the host, by
            their first result.
    """
    on_host: dict[str, str] = {}
    while True:
        divided = parts(place(on_host))
        small = _small_launches(divided)
        if not small:
            return divided
        on_host |= dict(_reasons(graph, divided, small))


def work(part: Part) -> int:
    """Return the multiply-accumulates of a part on the accelerator plus the bytes that its operators compute.
    A copy computes none: between operators on the host, it is the host's."""
    return sum(
        operator.macs + operator.output.layout.size
        for operator in part
        if isinstance(operator, Offloaded) and not operator.copied
    )


def _small_launches(parts: Sequence[Part]) -> set[int]:
    """Return the numbers of the launches that do too little work."""
    done = {
        number: work(part)
        for number, part in enumerate(parts)
        if any(isinstance(operator, Offloaded) for operator in part)
    }
    return {number for number, share in done.items() if share * WORK_RATIO < sum(done.values())}


def _reasons(graph: Graph, parts: Sequence[Part], small: Collection[int]) -> Iterator[tuple[str, str]]:
    """Yield the first result of each node in a small launch, and the reason why the node runs on the host."""
    of = {
        name: number
        for number, part in enumerate(parts)
        for operator in part
        for name in (*operator.node.outputs, *(operator.inner if isinstance(operator, Offloaded) else ()))
    }
    for node in graph.nodes:
        if of[node.result] in small:
            yield node.result, reason_of(f"{node.op} with little to do between operators on the host", TAKES)
