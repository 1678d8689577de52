"""Graphs that a module carries equal the graphs of its compilation; damaged texts are refused."""

from dataclasses import replace

import pytest

from tests.compiler.network.compiled import carrying, handmade
from vdla.compiler.graph.nodes import GraphError
from vdla.hw.spec.errors import VdlaError
from vdla.prove.graphs import carried_graphs, graphs_for
from vdla.runtime.module.file import from_bytes, to_bytes
from vdla.runtime.module.plan import ModuleError

TITLES = ("residual", "with the host between", "split", "nothing")


@pytest.mark.parametrize("title", TITLES)
def test_a_module_carries_the_graphs_of_its_compilation(title):
    graph, plan = handmade(title)
    carried, compiled = carried_graphs(from_bytes(to_bytes(carrying(title)))), graphs_for(graph, plan.target)
    assert carried.integers == graph == compiled.integers
    assert carried.target == compiled.target


def test_a_module_without_graphs_is_refused():
    with pytest.raises(ModuleError, match=r"carries no graph .*; give the model .* without --no-graph"):
        carried_graphs(handmade("residual")[1])


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("return ", "return nothing, ", "a value that was defined before is needed here"),
        ("Int8Conv(", "Int9Conv(", "operator 'Int9Conv' is unknown"),
        ("border=", "margin=", "has attributes"),
        ("def ", "def\0 ", "source code string cannot contain null bytes"),
        (": int8[", ": int8[100000, 100000, ", "which takes"),
        ("pads=(", 'pads=("a", ', "is not what Int8Conv takes"),
        ('sha256="', 'sha256="0', "pass its elements"),
    ],
)
def test_a_damaged_text_is_refused(before, after, message):
    plan = carrying("residual")
    text = plan.graphs.integers
    assert before in text
    broken = replace(plan, graphs=replace(plan.graphs, integers=text.replace(before, after, 1)))
    with pytest.raises(VdlaError, match=message):
        carried_graphs(broken)


def test_a_text_with_too_many_brackets_is_refused():
    plan = carrying("residual")
    text = "def net(x: int8[" + "(" * 100_000 + "1]):\n    return x\n"
    with pytest.raises(GraphError):
        carried_graphs(replace(plan, graphs=replace(plan.graphs, target=text)))
