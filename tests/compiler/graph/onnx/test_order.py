"""Models whose nodes are not in topological order."""

import numpy as np
import pytest

from tests.compiler.graph.onnx.networks import model, node
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.onnx.order import in_order

CHAIN = [node("Relu", "x", "a"), node("Neg", "a", "b"), node("Abs", "x", "c"), node("Add", "b c", "y")]


def made_of(places):
    return model([CHAIN[place] for place in places], {"x": [2, 3]}, ["y"])


@pytest.mark.parametrize("places", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2), (2, 3, 0, 1)])
def test_any_order_gives_the_same_results(places):
    x = np.float32([[1, -2, 3], [-4, 5, -6]])
    found = interpret(load(made_of(places)), {"x": x})["y"]
    np.testing.assert_array_equal(found, np.abs(x) - np.maximum(x, 0))


def test_sorting_keeps_the_order_of_the_file_where_possible():
    ordered = in_order(made_of((1, 2, 0, 3))).graph.node
    assert [one.op_type for one in ordered] == ["Abs", "Relu", "Neg", "Add"]


def test_a_model_in_order_is_not_copied():
    made = made_of((0, 1, 2, 3))
    assert in_order(made) is made


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([node("Neg", "b", "y"), node("Relu", "y", "b")], "nodes form a cycle"),
        ([node("Neg", "b", "y"), node("Abs", "x", "b"), node("Relu", "x", "b")], "which exists already"),
        ([node("Neg", "b", "y")], "which nothing makes"),
    ],
)
def test_other_faults_of_order_are_refused(nodes, said):
    with pytest.raises(GraphError, match=said):
        load(model(nodes, {"x": [2, 3]}, ["y"]))
