"""Small compiled networks for tests of what comes behind the compiler."""

from dataclasses import replace
from functools import cache

from tests.compiler.network.graphs import HANDMADE, Net
from vdla.compiler.codegen.choose import by_estimate
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.network import stages
from vdla.compiler.network.target_passes import target_passes
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.runtime.module.plan import Plan


def plan_of(graph: Graph, config: AcceleratorConfig = TINY) -> Plan:
    """Return the plan of a graph of integer operators."""
    return stages.plan_of(graph, Target(config), choose=by_estimate)


@cache
def carrying(title: str) -> Plan:
    """Return the plan of a handmade graph, which carries its graphs."""
    graph, plan = handmade(title)
    return replace(plan, graphs=stages.texts_of(graph, target_passes(plan.target).run(graph)))


@cache
def handmade(title: str) -> tuple[Graph, Plan]:
    """Return a handmade graph with its plan."""
    graph = HANDMADE[title](Net())
    return graph, plan_of(graph)
