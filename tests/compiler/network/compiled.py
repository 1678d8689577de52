"""Small compiled networks for tests of what comes behind the compiler."""

from functools import cache

from tests.compiler.network.graphs import HANDMADE, Net
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.network.build import build
from vdla.compiler.network.partition import parts, place
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import TINY
from vdla.runtime.module.plan import Plan


def plan_of(graph: Graph, config: AcceleratorConfig = TINY) -> Plan:
    """Return the plan of a graph of integer operators."""
    return build(graph, parts(graph, place(graph, config), config), config)


@cache
def handmade(title: str) -> tuple[Graph, Plan]:
    """Return one of the graphs by hand with its plan."""
    graph = HANDMADE[title](Net())
    return graph, plan_of(graph)
