"""Pipelines: what they hold, and when they verify the graph."""

import importlib
import pkgutil
from collections import Counter
from dataclasses import replace

import pytest

from tests.compiler.graph.passes.qdq import QdqBuilder, float_operators
from vdla.compiler.graph import pipeline, rewrites
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.pipeline import FLOATS, INTEGERS, SIMPLIFY, Pipeline, Trace, name_of
from vdla.compiler.graph.rewrites.quantised import FIX_RANGES
from vdla.compiler.graph.rules import Rules

GRAPH = parse_graph("def f(x: float32[2]):\n    y: float32[2] = Neg(x)\n    return y\n")


class Renamed:
    """A pass that names the graph after itself."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, graph: Graph) -> Graph:
        return replace(graph, name=self.name)


@pytest.mark.parametrize(
    ("trace", "names"),
    [
        ((), "f b"),
        ((Trace(),), "f b"),
        ((Trace(verifies=False),), "f b"),
        ((Trace(verifies=True),), "f a b b"),
    ],
)
def test_a_graph_is_verified_before_and_after_all_passes_and_between_only_if_asked_for(
    trace, names, monkeypatch
):
    verified: list[str] = []
    monkeypatch.setattr(pipeline, "verify", lambda graph: verified.append(graph.name))
    assert Pipeline((Renamed("a"), Renamed("b"))).run(GRAPH, *trace).name == "b"
    assert verified == names.split()


PIPELINES = (SIMPLIFY, FLOATS, INTEGERS)
AGAIN = {"remove_identity": 2}  # in INTEGERS: the passes before add identities twice


def test_every_table_of_rules_runs():
    modules = [
        importlib.import_module(f"{rewrites.__name__}.{each.name}")
        for each in pkgutil.iter_modules(rewrites.__path__)
    ]
    tables = {value.name for module in modules for value in vars(module).values() if isinstance(value, Rules)}
    used = {name_of(item) for each in PIPELINES for item in each.passes}
    assert tables - used == {FIX_RANGES.name}, "it runs only where samples are given"


def test_a_pass_runs_once_in_a_pipeline():
    for each in PIPELINES:
        counts = Counter(map(name_of, each.passes))
        assert {name: count for name, count in counts.items() if count > 1} == (
            AGAIN if each is INTEGERS else {}
        )


def test_a_softmax_in_pieces_becomes_one_operator():
    graph = parse_graph(
        """def f(x: float32[2, 4]):
    e: float32[2, 4] = Exp(x)
    s: float32[2, 1] = ReduceSum(e, axes=(1,), keepdims=1)
    y: float32[2, 4] = Div(e, s)
    return y
"""
    )
    assert [node.op for node in SIMPLIFY.run(graph).nodes] == ["Softmax"]


def test_quantised_weights_behind_rows_of_an_image_stay_integers():
    """RowsToImages adds a Squeeze between a DequantizeLinear and a product with quantised weights."""
    of = QdqBuilder(0)
    x = of.quantised(1, 2, 6)
    pooled = of.pair(of.add("GlobalAveragePool", x))
    graph = of.finish(of.pair(of.add("MatMul", pooled, of.weights(1, 4, axis=1))))
    lowered = INTEGERS.run(FLOATS.run(graph))
    assert float_operators(lowered) == []
    assert [node.op for node in lowered.nodes].count("Int8MatMul") == 1
