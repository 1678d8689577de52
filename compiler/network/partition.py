"""Placement of operators on host and accelerator, in an order that needs few launches."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from vdla.compiler.graph.conversions import Conversions
from vdla.compiler.graph.integer_forms.host import is_float, why_on_host
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.network.following import following
from vdla.compiler.network.maker import OnHost, Placed, View
from vdla.compiler.network.offload import OPERATORS, offload
from vdla.compiler.network.views import VIEW_RULES, VIEWS, Viewed
from vdla.compiler.rules import Unfit, unfit
from vdla.hw.spec.target import Target
from vdla.runtime.layout import Layout

Report = Callable[[Node], None]
NONE: Mapping[str, str] = {}
Part = tuple[Placed, ...]  # all on the host, or all on the accelerator


def place(
    graph: Graph, target: Target, report: Report = lambda node: None, on_host: Mapping[str, str] = NONE
) -> list[Placed]:
    """Return where each node runs, in the graph's order.

    Args:
        report: called with each node first.
        on_host: why nodes run on the host that could run on the accelerator, by their first result.
    """
    placed: list[Placed] = []
    standing: dict[str, Layout] = {}  # values that the accelerator makes
    found = Conversions(graph)
    for node in graph.nodes:
        report(node)
        follower = None if node.outputs[0] in on_host else following(graph, node, placed, target)
        if node.outputs[0] in on_host:
            one: Placed = OnHost(node, on_host[node.outputs[0]])
        elif follower is None:
            one = _place(found, node, target, standing)
        else:
            for number in sorted(follower.places, reverse=True):
                del placed[number]  # it is carried out where the other operands are there, too
            one = follower.both
        if not isinstance(one, OnHost):
            layout = one.layout if isinstance(one, View) else one.output[1]
            standing.update(dict.fromkeys(node.outputs, layout))
        placed.append(one)
    return placed


def _place(found: Conversions, node: Node, target: Target, standing: Mapping[str, Layout]) -> Placed:
    graph = found.graph
    if node.op in OPERATORS and not is_float(graph, node):
        made = offload(graph, node, target, gathers=_may_gather(graph, node, standing))
        return OnHost(node, node.reason or made.reason) if isinstance(made, Unfit) else made
    if node.op in VIEWS and not is_float(graph, node):
        at = Viewed(graph, node, target.config, standing.get(node.inputs[0]))
        unlike, layout = unfit(node.op, VIEW_RULES, at), at.layout
        if unlike is None and layout is not None:
            return View(node, layout)
        if unlike is not None and node.op != "Transpose":
            return OnHost(node, unlike.reason)
    return OnHost(node, why_on_host(found, node).reason)


def _may_gather(graph: Graph, node: Node, inside: Mapping[str, Layout]) -> bool:
    """Whether the node's first input comes from the host, and nobody else reads it."""
    readers = (
        sum(name == node.inputs[0] for other in graph.nodes for name in other.inputs) if node.inputs else 0
    )
    return readers == 1 and node.inputs[0] not in inside


def parts(graph: Graph, placed: list[Placed]) -> list[Part]:
    """Divide the nodes into as few parts as possible, each on one place, in an order that keeps dependencies.

    A value from the accelerator that it cannot read back in its present layout goes through the host, so its
    reader belongs to a later part.
    """
    made = set(graph.inputs) | set(graph.constants)
    waiting, found = list(placed), []
    on_host, idle = True, False
    while waiting:
        part = _ready(waiting, made, on_host)
        assert part or not idle, "the graph's nodes are in no order in which they can run"
        idle = not part
        if part:
            found.append(tuple(part))
            taken = {id(one) for one in part}
            waiting = [one for one in waiting if id(one) not in taken]
            made.update(name for one in part for name in one.node.outputs)
        on_host = not on_host
    return found


def _ready(waiting: list[Placed], made: set[str], on_host: bool) -> list[Placed]:
    """Return what can run next on one place, in order."""
    available, part = set(made), []
    within: dict[str, Standing] = {}
    for one in waiting:
        needed = [name for name in one.node.inputs if name]
        here = isinstance(one, OnHost) is on_host
        if here and all(name in available for name in needed) and _readable(one, within):
            part.append(one)
            available.update(one.node.outputs)
            if not isinstance(one, OnHost):
                layout = one.layout if isinstance(one, View) else one.output[1]
                within |= dict.fromkeys(one.node.outputs, Standing(layout.block, layout.stack))
    return part


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
