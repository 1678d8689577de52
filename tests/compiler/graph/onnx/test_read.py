"""Reading of models: functions are counted before they are expanded, and nodes are sorted."""

import numpy as np
import pytest
from generators import large
from onnx import ModelProto, helper

from tests.compiler.graph.onnx.networks import model, node
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.onnx.read import expanded_nodes, in_order
from vdla.hw.spec.limits import EXPANDED_NODES

IMPORTS = [helper.make_opsetid("", large.OPSET), helper.make_opsetid("own", 1)]


def calling(**calls: list[str]) -> ModelProto:
    """Return a model that calls the function `f`; each function calls others of its domain, or has a Relu."""
    model = large.functions(1)
    del model.functions[:]
    model.graph.node[0].op_type = "f"
    for name, called in calls.items():
        links = ["a", *(f"{name}{place}" for place in range(len(called)))]
        nodes = [
            helper.make_node(op, [links[place]], [links[place + 1]], domain="own" if op in calls else "")
            for place, op in enumerate(called)
        ]
        model.functions.append(helper.make_function("own", name, ["a"], links[-1:], nodes, IMPORTS))
    return model


@pytest.mark.parametrize("depth", [1, 2, 5, 9])
def test_the_count_is_that_of_the_expanded_model(depth):
    model = large.functions(depth)
    assert expanded_nodes(model, "m") == 2 ** (depth - 1) == len(load(model).nodes)


def test_functions_that_are_not_called_count_nothing():
    assert expanded_nodes(calling(f=["Relu", "Relu"], g=["f"] * 9), "m") == 2


def test_nodes_of_subgraphs_count():
    model = large.functions(3)
    branch = helper.make_graph([helper.make_node("f0", ["x"], ["z"], domain="own")], "b", [], [])
    model.graph.node.append(helper.make_node("If", ["c"], ["w"], then_branch=branch, else_branch=branch))
    assert expanded_nodes(model, "m") == 4 + 1 + 4 + 4


@pytest.mark.parametrize(("depth", "count"), [(31, "1073741824"), (5000, "a number of 5000 bits")])
def test_an_expansion_beyond_the_limit_is_refused_before_inlining(depth, count):
    with pytest.raises(GraphError) as caught:
        load(large.functions(depth))
    assert str(caught.value) == (
        f"large: with its functions in place of their calls, it has {count} nodes, and the limit is "
        f"{EXPANDED_NODES}; VDLA_MEMORY_FACTOR=2 in the environment doubles every limit of memory"
    )


def test_the_limit_follows_the_factor(monkeypatch):
    monkeypatch.setattr("vdla.compiler.graph.onnx.read.EXPANDED_NODES", 4)
    with pytest.raises(GraphError, match=r"it has 8 nodes, and the limit is 4;"):
        load(large.functions(4))
    monkeypatch.setenv("VDLA_MEMORY_FACTOR", "2")
    assert len(load(large.functions(4)).nodes) == 8


@pytest.mark.parametrize(
    ("model", "circle"),
    [
        (calling(f=["f"]), "own.f → own.f"),
        (calling(f=["g", "Relu"], g=["h"], h=["Relu", "g"]), "own.g → own.h → own.g"),
    ],
    ids=["itself", "each other"],
)
def test_recursive_functions_are_refused(model, circle):
    with pytest.raises(GraphError) as caught:
        load(model)
    message = str(caught.value)
    assert message.startswith("large: its functions call each other in a circle: own.")
    assert set(message.rpartition(": ")[2].split(" → ")) == set(circle.split(" → "))


def test_a_chain_of_calls_that_is_too_long_for_the_inliner_is_refused():
    with pytest.raises(GraphError, match=r"^large: its functions cannot be put in place of their calls: "):
        load(large.functions(500, calls=1))


# Models whose nodes are not in topological order

CHAIN = [node("Relu", "x", "a"), node("Neg", "a", "b"), node("Abs", "x", "c"), node("Add", "b c", "y")]


def chain_in_order(places):
    return model([CHAIN[place] for place in places], {"x": [2, 3]}, ["y"])


@pytest.mark.parametrize("places", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2), (2, 3, 0, 1)])
def test_any_order_gives_the_same_results(places):
    x = np.float32([[1, -2, 3], [-4, 5, -6]])
    result = interpret(load(chain_in_order(places)), {"x": x})["y"]
    np.testing.assert_array_equal(result, np.abs(x) - np.maximum(x, 0))


def test_sorting_keeps_the_order_of_the_file_where_possible():
    ordered = in_order(chain_in_order((1, 2, 0, 3))).graph.node
    assert [node_proto.op_type for node_proto in ordered] == ["Abs", "Relu", "Neg", "Add"]


def test_a_model_in_order_is_not_copied():
    proto = chain_in_order((0, 1, 2, 3))
    assert in_order(proto) is proto


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


def test_a_model_of_an_old_version_that_onnx_cannot_convert_is_refused():
    """The TopK lacks an output, which the shape inference of the converter refuses."""
    with pytest.raises(GraphError, match="operator set 6 is not supported; one of 7 to "):
        load(model([node("TopK", "x", "y", k=1)], {"x": [2, 3]}, ["y"], opset=6))
