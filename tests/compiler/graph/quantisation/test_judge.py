"""The distance between graphs, and the work that judging takes."""

import numpy as np
import pytest

from tests.compiler.graph.quantisation.graphs import residual, samples
from vdla.compiler.graph.macs import macs
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.quantisation.judge import Judge, work


def test_the_error_is_relative_to_how_results_vary():
    graph = parse_graph("def f(x: float32[2]):\n    y: float32[2] = Neg(x)\n    return y\n")
    other = parse_graph("def f(x: float32[2]):\n    y: float32[2] = Abs(x)\n    return y\n")
    judge = Judge(graph, [{"x": np.array([1, 3], np.float32)}], 1)
    assert judge.error(graph) == 0
    assert judge.error(other) == pytest.approx((4 + 36) / 2)


def test_a_softmax_is_judged_by_what_it_reads():
    text = "def f(x: float32[2]):\n    a: float32[2] = OP(x)\n    y: float32[2] = Softmax(a, axis=0)\n    return y\n"
    judge = Judge(parse_graph(text.replace("OP", "Neg")), [{"x": np.array([1, 3], np.float32)}], 1)
    assert judge.error(parse_graph(text.replace("OP", "Abs"))) == pytest.approx((4 + 36) / 2)


def test_work_is_counted_in_multiply_accumulates():
    graph = residual()
    assert [macs(graph, node) for node in graph.nodes if node.op == "MatMul"] == [16, 16]
    assert work(graph) == 32 + 64 * 28
    assert len(Judge(graph, samples(20), 4).samples) == 8
