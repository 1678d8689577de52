"""Pipelines: when they verify the graph."""

from dataclasses import replace

import pytest

from vdla.compiler.graph import pipeline
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.pipeline import Pipeline, Trace

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
