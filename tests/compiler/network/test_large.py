"""Large networks: the work of every stage follows the number of nodes, and no stage goes deeper with it."""

import sys

import numpy as np
import pytest
from generators import large

from vdla.api import Module, target_of
from vdla.compiler.codegen.choose import by_estimate
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.serialise import graph_from_bytes, graph_to_bytes
from vdla.compiler.graph.text import print_graph
from vdla.compiler.network.compile import integers_of, simplified
from vdla.compiler.network.stages import plan_of
from vdla.runtime.module.file import from_bytes, to_bytes

TARGET = target_of("default")
FEW = 60
MORE = 3  # times as many nodes take at most as many times as many steps, but for a share
SHARE = 1.15


def compiled(model, *, calibrates=False):
    """Return the plan of a model, written to bytes and read again, as the command does."""
    graph = load(model)
    samples = [zeros(graph)] if calibrates else None
    graph = integers_of(simplified(graph, calibrates), samples, options()).graph
    graph = graph_from_bytes(graph_to_bytes(graph))
    return from_bytes(to_bytes(plan_of(graph, TARGET, choose=by_estimate)))


def options():
    from vdla.compiler.graph.quantisation.options import Options

    return Options(percentile=99.9)


def zeros(of):
    return {name: np.zeros(type_.shape, type_.dtype) for name, type_ in of.inputs.items()}


def steps(work):
    """Return how many lines of Python a work runs, an iteration of a comprehension counted as a line."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("kind", [kind for kind in large.KINDS if kind not in ("ifs", "known_ifs", "loops")])
def test_the_work_follows_the_number_of_nodes(kind):
    few, more = (large.KINDS[kind](count) for count in (FEW, MORE * FEW))
    calibrates = kind == "float_convs"
    compiled(few, calibrates=calibrates)  # what is made once is there
    counts = [steps(lambda model=model: compiled(model, calibrates=calibrates)) for model in (few, more)]
    assert counts[1] <= SHARE * MORE * counts[0]


@pytest.mark.parametrize("kind", ["relus", "mixed", "conversions", "qdq_relus", "scales"])
def test_a_chain_longer_than_pythons_stack_compiles_and_runs(kind):
    assert sys.getrecursionlimit() < 3000
    plan = compiled(large.KINDS[kind](3000))
    for device in ("functional", "cycle"):
        assert Module(plan).run(zeros(plan), device=device).outputs


def test_a_long_chain_prints_and_reads_back_equal():
    graph = load(large.relus(3000))
    assert parse_graph(print_graph(graph)) == graph
