"""Graphs of integer operators against what the passes for a target make of them."""

from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.network import shuffles
from tests.compiler.network.graphs import HANDMADE, Net, random_graph, random_inputs
from tests.compiler.network.test_phases import CASES as PHASES
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.network.target_passes import target_passes
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY
from vdla.hw.spec.target import Target
from vdla.prove.domain import Domain
from vdla.prove.graph_equality import difference_of

TARGETS = [Target(config) for config in (DEFAULT, SMALL, TINY.with_changes(name="rows", batch=2))]
GRAPHS = {
    **HANDMADE,
    **{make.__name__: make for make in PHASES},
    **{f"random {seed}": lambda net, seed=seed: random_graph(seed) for seed in range(20)},
    "units": lambda net: shuffles.units(net, 6, 2),
    **{f"shuffled {seed}": lambda net, seed=seed: shuffles.at_random(seed) for seed in range(12)},
}


def for_target(graph, target):
    return target_passes(target).run(graph)


@pytest.mark.parametrize("name", GRAPHS)
def test_passes_for_targets_change_no_result(name):
    graph = GRAPHS[name](Net())
    for target in TARGETS:
        assert difference_of(Domain(1), graph, for_target(graph, target)) == ""


def changed_constants(graph: Graph):
    """Yield a graph for each constant, the first element of which is changed."""
    for name, array in graph.constants.items():
        other = array.copy()
        flat = other.reshape(-1)
        flat[0] = flat[0] + 1 if flat[0] < 100 else flat[0] - 1
        yield replace(graph, constants={**graph.constants, name: other})


def changed_attributes(graph: Graph):
    """Yield a graph for each change of an attribute that keeps all shapes."""
    for place, node in enumerate(graph.nodes):
        for name, value in node.attributes.items():
            if name in ("border", "zero"):
                yield with_node(graph, place, replace(node, attributes={**node.attributes, name: value + 1}))
            elif name in ("factors", "zeros"):
                other = (value[0] + 1, *value[1:])
                yield with_node(graph, place, replace(node, attributes={**node.attributes, name: other}))


def with_node(graph: Graph, place: int, node: Node) -> Graph:
    return replace(graph, nodes=(*graph.nodes[:place], node, *graph.nodes[place + 1 :]))


@pytest.mark.parametrize(
    "name", ["depthwise", "spread", "averaged", "scaled", "wide weights", "joined", "several ends"]
)
def test_every_change_of_a_result_is_noticed(name):
    graph = GRAPHS[name](Net())
    ready = for_target(graph, TARGETS[0])
    noticed = 0
    for changed in (*changed_constants(ready), *changed_attributes(ready)):
        difference = difference_of(Domain(1), graph, changed)
        if differs(graph, changed):
            assert "elements of output" in difference
            noticed += 1
    assert noticed >= 4


def differs(graph: Graph, changed: Graph) -> bool:
    for seed in range(3):
        feeds = random_inputs(graph, seed)
        before, after = interpret(graph, feeds), interpret(changed, feeds)
        if any(not np.array_equal(values, after[name]) for name, values in before.items()):
            return True
    return False


def test_graphs_that_agree_are_not_evaluated():
    domain, graph = Domain(1), HANDMADE["residual"](Net())
    assert difference_of(domain, graph, graph) == ""
    assert domain.failure_probability == 0


def test_only_what_differs_is_evaluated():
    net = Net()
    x = net.conv(net.input(1, 4, 6, 6), 4, (3, 3))
    y = net.conv(x, 4, weights=net.wide(4, 4, 1, 1))
    graph = net.graph(net.conv(net.conv(y, 5, (2, 2)), 3))
    domain = Domain(1)
    assert difference_of(domain, graph, for_target(graph, TARGETS[0])) == ""
    assert 0 < domain._named.count <= 4 * np.prod(graph.types[y].shape)


def test_other_inputs_or_outputs_are_told():
    graph = HANDMADE["several ends"](Net())
    fewer = replace(graph, outputs=tuple(graph.outputs)[:-1])
    assert difference_of(Domain(1), graph, fewer) == "the graphs net and net have different inputs or outputs"


def test_a_value_of_the_same_name_need_not_be_the_same():
    """Values of the same name are compared, not taken for equal."""
    first, second = Net(), Net()
    for net, factor in ((first, 2), (second, 3)):
        x = net.scale(net.input(2, 3), -1, np.full(3, factor, np.int8))
        net.out = net.requantise(x)
    difference = difference_of(Domain(1), first.graph(first.out), second.graph(second.out))
    assert difference.startswith("6 of 6 elements of output v1 differ")
    assert difference.endswith("the first at (0, 0)")
