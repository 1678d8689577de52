"""The operators of the network that each layer of a run computes."""

import pytest

import vdla
from tests.cli.models import model
from vdla.compiler.graph.parse import parse_graph
from vdla.explore.runs.operators import layer_operators
from vdla.prove.graphs import carried_graphs
from vdla.runtime.module.plan import HostStep, LaunchStep, Layer

FOUR = """\
def net(x: float32[4]):
    a: float32[4] = Relu(x, name="A")
    b: float32[4] = Neg(a, name="B")
    c: float32[4] = Add(b, a, name="C")
    d: float32[4] = Abs(c, name="D")
    return d
"""
SPLIT = """\
def net(x: float32[4]):
    a: float32[4] = Relu(x, name="A")
    b1: float32[4] = Neg(a, name="B")
    b2: float32[4] = Neg(b1)
    b: float32[4] = Neg(b2)
    c: float32[4] = Add(b, a, name="C")
    d: float32[4] = Abs(c, name="D")
    return d
"""
JOINED = """\
def net(x: float32[4]):
    a: float32[4] = Relu(x, name="A")
    d: float32[4] = Abs(a, name="whole")
    return d
"""
UNNAMED = """\
def net(x: float32[4]):
    a: float32[4] = Relu(x, name="A")
    b: float32[4] = Neg(a, name="A")
    d: float32[4] = Abs(b)
    return d
"""


def launch(*labels: str) -> LaunchStep:
    return LaunchStep("s", (), (), tuple(Layer(label.upper(), "Op", label, 0, 0, 0, 0) for label in labels))


def host(*outputs: str) -> HostStep:
    return HostStep("H", "Op", (), outputs)


@pytest.mark.parametrize(
    ("steps", "integers", "target", "operators"),
    [
        ((launch("a", "b", "c", "d"),), FOUR, FOUR, "A B C D"),
        ((launch("b", "d"),), FOUR, FOUR, "A+B A+C+D"),
        ((host("a"), launch("c"), host("d")), FOUR, FOUR, "A B+C D"),
        ((launch("d"),), FOUR, FOUR, "A+B+C+D"),
        ((launch("a", "b1", "b2", "b", "c", "d"),), FOUR, SPLIT, "A B B B C D"),
        ((launch("a", "b2", "c", "d"),), FOUR, SPLIT, "A B B+C D"),
        ((launch("a", "d"),), FOUR, JOINED, "A B+C+D"),
        ((launch("a", "b", "d"),), UNNAMED, UNNAMED, "a b d"),
        ((launch("z"),), FOUR, FOUR, ""),
    ],
)
def test_a_layer_computes_the_operators_between_its_result_and_those_of_others(
    steps, integers, target, operators
):
    names_by_layer = layer_operators(steps, parse_graph(integers), parse_graph(target))
    assert " ".join("+".join(names) for names in names_by_layer) == operators


def test_a_layer_without_instructions_is_found_by_its_name():
    views = LaunchStep("s", (), (), (Layer("B", "Neg", "", 0, 0, 0, 0), Layer("D", "Abs", "d", 0, 0, 0, 0)))
    steps = (host("a"), views)
    assert layer_operators(steps, parse_graph(FOUR), parse_graph(FOUR)) == (("A",), ("B",), ("C", "D"))


@pytest.mark.parametrize("preset", ["tiny", "small", "default"])
def test_each_operator_of_a_compiled_network_is_in_one_layer(preset):
    plan = vdla.compile(model().SerializeToString(), preset).plan
    graphs = carried_graphs(plan)
    layers = layer_operators(plan.steps, graphs.integers, graphs.target)
    names = [name for operators in layers for name in operators]
    assert sorted(names) == sorted({node.name or node.result for node in graphs.integers.nodes})
    assert all(layers)
