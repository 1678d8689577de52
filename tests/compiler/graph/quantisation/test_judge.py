"""The error between graphs, and the budget of a judge."""

import numpy as np
import pytest

from tests.compiler.graph.quantisation.graphs import residual
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.macs import macs
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.quantisation import judge
from vdla.compiler.graph.quantisation.judge import Judge, work


def test_the_error_is_relative_to_how_results_vary():
    graph = parse_graph("def f(x: float32[2]):\n    y: float32[2] = Neg(x)\n    return y\n")
    other = parse_graph("def f(x: float32[2]):\n    y: float32[2] = Abs(x)\n    return y\n")
    judge = Judge(graph, [{"x": np.array([1, 3], np.float32)}], 1)
    assert judge.assess(graph).error == 0
    assert judge.assess(other).error == pytest.approx((4 + 36) / 2)


def scaled(call: str, factors: list[float], dtype: str = "float32") -> Graph:
    """Return a graph that makes a result of two numbers `a`, each a factor of an element of `x`."""
    return parse_graph(
        "def f(x: float32[2]):\n"
        f"    k: float32[2] = constant({factors})\n"
        "    a: float32[2] = Mul(x, k)\n"
        f"    b: float32[2] = {call}\n"
        "    y: float32[1, 2] = Reshape(b, shape=[1, 2])\n"
        + ("" if dtype == "float32" else f'    z: {dtype}[1, 2] = Cast(y, to="{dtype}")\n')
        + f"    return {'y' if dtype == 'float32' else 'z'}\n"
    )


@pytest.mark.parametrize(
    ("call", "wanted", "found", "error"),
    [
        # the distances from the greatest are 0 and -2, then -2 and 0
        ("Softmax(a, axis=0)", [3.0, 1.0], [-3.0, -1.0], (4 + 4) / 2),
        ("Softmax(a, axis=0)", [0.0, 9.0], [0.0, 20.0], 0),
        ("Sigmoid(a)", [-1.0, 3.0], [1.0, 3.0], 4 / 8),
        ("Sigmoid(a)", [-9.0, 9.0], [-20.0, 7.0], 0),
        ("Identity(a)", [-9.0, 9.0], [-20.0, 7.0], (121 + 4) / 162),
    ],
)
def test_a_saturating_result_is_judged_by_its_clipped_input_too(call, wanted, found, error):
    sample = {"x": np.ones(2, np.float32)}
    judge = Judge(scaled(call, wanted), [sample], 1)
    expected, result = (interpret(scaled(call, factors), sample)["y"] for factors in (wanted, found))
    itself = float(np.square(expected - result).sum() / np.square(expected - expected.mean()).sum())
    assert itself > 0
    counted = error if "Identity" in call else error + itself
    assert judge.assess(scaled(call, found)).error == pytest.approx(counted, rel=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("call", ["Identity(a)", "Softmax(a, axis=0)"])
def test_outputs_of_another_float_type_are_judged_as_those_of_float32(dtype, call):
    sample = {"x": np.ones(2, np.float32)}
    wanted, actual = [3.0, 1.0], [1.0, 2.0]
    plain = Judge(scaled(call, wanted), [sample], 1).assess(scaled(call, actual)).error
    assert Judge(scaled(call, wanted, dtype), [sample], 1).assess(
        scaled(call, actual, dtype)
    ).error == pytest.approx(plain, rel=1e-2)


def test_a_graph_that_is_right_before_a_sigmoid_and_wrong_where_it_matters_is_not_preferred():
    """An error of 2 far from the ends of the Sigmoid weighs more than an error of 3 near them."""
    graph = scaled("Sigmoid(a)", [-6.0, 0.0])
    judge = Judge(graph, [{"x": np.ones(2, np.float32)}], 1)
    near_ends, in_the_middle = scaled("Sigmoid(a)", [-3.0, 0.0]), scaled("Sigmoid(a)", [-6.0, 2.0])
    assert judge.assess(near_ends).error < judge.assess(in_the_middle).error


def test_an_assessment_may_use_the_first_samples_only():
    graph, other = scaled("Identity(a)", [1.0, 3.0]), scaled("Identity(a)", [1.0, 2.0])
    judge = Judge(graph, [{"x": np.array(each, np.float32)} for each in ([1, 0], [0, 1])], 1)
    assert judge.assess(other, 1).error == 0
    assert judge.assess(other).error > 0


def test_the_float_graph_is_run_once_on_the_samples_that_graphs_are_compared_on(monkeypatch):
    graph = parse_graph("def f(x: float32[2]):\n    y: float32[2] = Neg(x)\n    return y\n")
    other = parse_graph("def f(x: float32[2]):\n    y: float32[2] = Abs(x)\n    return y\n")
    run = []
    monkeypatch.setattr(
        judge, "interpret", lambda evaluated, *rest: (run.append(evaluated), interpret(evaluated, *rest))[1]
    )
    assessor = Judge(graph, [{"x": np.array([1, 3], np.float32)}] * 3, 1)
    assert run == []
    for count, runs in ((1, 1), (2, 2), (1, 2), (None, 3)):
        assessor.assess(other, count)
        assert sum(evaluated is graph for evaluated in run) == runs


def test_work_is_counted_in_multiply_accumulates():
    graph = residual()
    assert [macs(graph, node) for node in graph.nodes if node.op == "MatMul"] == [16, 16]
    assert work(graph) == 32 + 64 * 28


@pytest.mark.parametrize(("elements", "given", "used"), [(1, 90, 64), (1, 5, 5), (4, 90, 16), (64, 90, 8)])
def test_small_outputs_are_judged_on_more_samples(elements, given, used):
    text = f"def f(x: float32[{elements}]):\n    y: float32[{elements}] = Neg(x)\n    return y\n"
    assert len(Judge(parse_graph(text), [{"x": np.ones(elements, np.float32)}] * given, 4).samples) == used


@pytest.mark.parametrize(("runs", "compares"), [(0, False), (1, False), (2, True), (9, True)])
def test_graphs_are_compared_where_the_work_allows_more_than_one_run(monkeypatch, runs, compares):
    graph = residual()
    monkeypatch.setattr(judge, "WORK", (runs + 0.5) * work(graph))
    allowed = Judge(graph, [{"x": np.zeros(graph.inputs["x"].shape, np.float32)}] * 5, 1)
    assert allowed.runs == runs
    assert allowed.can_compare == compares
    assert len(allowed.samples) == min(5, max(1, runs))
