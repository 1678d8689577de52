"""Inputs fixed to a number, and the advice to fix an input that decides an If."""

import re

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.graph.onnx.networks import model, node
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.fixed import with_fixed
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.onnx.read import read_model
from vdla.compiler.graph.source import WHOLE, Section
from vdla.runtime.host.onnx_runtime import PART
from vdla.runtime.module.reasons import kind_of

RNG = np.random.default_rng(0)


def two_rates():
    """Return a model that computes Neg where its int64 input `rate` is 16000, and Exp elsewhere."""
    value = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    branches = {
        f"{name}_branch": helper.make_graph([node(op, "a", "z")], name, [], [value])
        for name, op in (("then", "Neg"), ("else", "Exp"))
    }
    nodes = [
        node("Abs", "x", "a"),
        node("Equal", "rate wide", "c"),
        node("If", "c", "b", **branches),
        node("Add", "b more", "y"),
    ]
    proto = model(nodes, {"x": [2, 3], "more": ["n", 3]}, ["y"], {"wide": np.array(16000)})
    proto.graph.input.append(helper.make_tensor_value_info("rate", TensorProto.INT64, []))
    return proto


@pytest.mark.parametrize(("rate", "op"), [(16000, "Neg"), (8000, "Exp")])
def test_the_branch_that_a_fixed_input_decides_replaces_the_if(rate, op):
    graph = load(two_rates(), {"more": (1, 3)}, Section(fixed=(("rate", rate),)))
    assert list(graph.inputs) == ["x", "more"]
    assert [graph_node.op for graph_node in graph.nodes if graph_node.op != "Identity"] == ["Abs", op, "Add"]


def test_a_fixed_input_is_filled_in_the_requested_shape():
    section = Section(("a", "rate"), ("y",), (("more", 0.5),))
    graph = load(two_rates(), {"more": (2, 3)}, section)
    assert list(graph.inputs) == ["a", "rate"]
    x = RNG.normal(size=(2, 3)).astype(np.float32)
    result = interpret(graph, {"a": x, "rate": np.array(16000)})["y"]
    np.testing.assert_array_equal(result, 0.5 - x)


def test_a_section_without_fixed_inputs_changes_nothing():
    read = read_model(two_rates())
    assert with_fixed(read, WHOLE, {"x": (2, 3)}) == (read, WHOLE, {"x": (2, 3)})


REFUSED = {
    "'speed' is fixed, but is not an input; there are x, more, rate": (("speed", 1),),
    "'wide' is fixed, but is not an input": (("wide", 1),),
    "'rate' is fixed, and named as an input or fixed once more": (("rate", 1), ("rate", 2)),
    "input 'more' is fixed, but its shape is dynamic": (("more", 1),),
    "or --shape more=...": (("more", 1),),
    "input 'rate' is int64, which cannot be fixed to 0.5": (("rate", 0.5),),
    "input 'x' is float32[2, 3], which cannot be fixed to nan": (("x", float("nan")),),
}


@pytest.mark.parametrize("message", REFUSED)
def test_invalid_fixed_inputs_are_refused(message):
    with pytest.raises(GraphError, match=re.escape(message)):
        load(two_rates(), section=Section(fixed=REFUSED[message]))


def test_an_input_of_a_part_is_not_fixed():
    with pytest.raises(GraphError, match="'rate' is fixed, and named as an input"):
        load(two_rates(), section=Section(("a", "rate"), ("y",), (("rate", 1),)))


def test_a_tensor_of_very_many_elements_is_not_fixed():
    with pytest.raises(GraphError, match="it must have at most 1048576 elements"):
        load(two_rates(), {"more": (1 << 20, 3)}, Section(fixed=(("more", 1),)))


# An If that is left to the host names the input that decides it, and the numbers that take its branches

SUBJECT = "onnxruntime runs it: an If chooses its branch while the network runs"


def branching(nodes, constants, **inputs: int):
    """Return a model with an If on the value c; `inputs` are single numbers, by their types of elements."""
    value = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    branches = {
        f"{name}_branch": helper.make_graph([node(op, "x", "z")], name, [], [value])
        for name, op in (("then", "Neg"), ("else", "Exp"))
    }
    proto = model([*nodes, node("If", "c", "y", **branches)], {"x": [2, 3]}, ["y"], constants)
    proto.graph.input.extend(helper.make_tensor_value_info(name, kind, []) for name, kind in inputs.items())
    return proto


INT, FLOAT, BOOL = TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL
RATE = {"k": np.array(16000)}
EITHER = (
    node("Equal", "rate k", "a"),
    node("Equal", "rate l", "b"),
    node("Or", "a b", "d"),
    node("Not", "d", "c"),
)
SHAPED = (node("Reshape", "rate s", "r"), node("Equal", "r k", "e"), node("Squeeze", "e t", "c"))
SHAPES = {"k": np.array([16000]), "s": np.array([-1]), "t": np.array([0])}
CASES = {
    "equal": (
        branching([node("Equal", "rate k", "c")], RATE, rate=INT),
        ": where its input rate never changes, --fix rate=16000 takes then_branch, another number (--fix rate=16001) "
        "takes else_branch",
    ),
    "greater": (
        branching([node("Greater", "rate k", "c")], RATE, rate=INT),
        ": where its input rate never changes, another number (--fix rate=16001) takes then_branch, --fix rate=16000 "
        "takes else_branch",
    ),
    "two numbers": (
        branching(EITHER, {**RATE, "l": np.array(8000)}, rate=INT),
        ": where its input rate never changes, another number (--fix rate=16001) takes then_branch, --fix rate=16000 "
        "takes else_branch",
    ),
    "a condition that is an input": (
        branching([], {}, c=BOOL),
        ": where its input c never changes, --fix c=1 takes then_branch, --fix c=0 takes else_branch",
    ),
    "a shape among the constants": (
        branching(SHAPED, SHAPES, rate=INT),
        ": where its input rate never changes, --fix rate=16000 takes then_branch, another number (--fix rate=16001) "
        "takes else_branch",
    ),
    "real numbers": (
        branching([node("Less", "gain k", "c")], {"k": np.float32(0.5)}, gain=FLOAT),
        ": where its input gain never changes, another number (--fix gain=-0.5) takes then_branch, --fix gain=0.5 "
        "takes else_branch",
    ),
    "a constant of a node": (
        branching(
            [
                helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.array(7))),
                node("Equal", "rate k", "c"),
            ],
            {},
            rate=INT,
        ),
        ": where its input rate never changes, --fix rate=7 takes then_branch, another number (--fix rate=8) "
        "takes else_branch",
    ),
    "one branch alone": (
        branching([node("Less", "rate rate", "c")], {}, rate=INT),
        ": where its input rate never changes, another number (--fix rate=0) takes else_branch",
    ),
    "two inputs": (
        branching([node("Equal", "a b", "c")], {}, a=INT, b=INT),
        ": where its inputs a and b never change, --fix a=NUMBER --fix b=NUMBER decide it",
    ),
    "data": (
        branching([node("ReduceSum", "x", "s", keepdims=0), node("Less", "s k", "c")], {"k": np.float32(0)}),
        " by its data, which --fix cannot decide",
    ),
}


@pytest.mark.parametrize("title", CASES)
def test_the_reason_names_the_input_that_decides(title):
    proto, expected = CASES[title]
    (reason,) = [
        graph_node.reason
        for graph_node in load(proto).nodes
        if graph_node.op == PART and "If" in graph_node.name
    ]
    assert kind_of(reason) == reason
    assert reason.startswith(SUBJECT + expected)


@pytest.mark.parametrize("title", list(CASES)[:6])
def test_each_option_takes_the_branch_that_is_named(title):
    proto, expected = CASES[title]
    options = re.findall(r"--fix (\w+)=([-\d.]+)\)? takes (\w+)", expected)
    assert {branch for *_, branch in options} == {"then_branch", "else_branch"}
    for name, number, branch in options:
        graph = load(proto, section=Section(fixed=((name, float(number)),)))
        assert {"Neg": "then_branch", "Exp": "else_branch"}[graph.nodes[0].op] == branch


@pytest.mark.parametrize("taken", ["then", "else"])
def test_constants_with_the_same_name_in_branches_and_graph_stay_separate(taken):
    """Both branches and the graph have a constant of one name."""
    result = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    branches = {
        f"{name}_branch": helper.make_graph(
            [node("Mul", "x k", "z")],
            name,
            [],
            [result],
            [numpy_helper.from_array(np.float32([factor]), "k")],
        )
        for name, factor in (("then", 3), ("else", 5))
    }
    constants = {"k": np.float32([7]), "c": np.array(taken == "then")}
    nodes = [node("If", "c", "v", **branches), node("Add", "v k", "y")]
    graph = load(model(nodes, {"x": [2, 3]}, ["y"], constants))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(interpret(graph, {"x": x})["y"], x * {"then": 3, "else": 5}[taken] + 7)
