"""An If that is left to the host names the input that decides it, and the numbers that take its branches."""

import re

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.graph.onnx.networks import model, node
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.section import Section
from vdla.runtime.host.onnx_runtime import PART
from vdla.runtime.module.reasons import kind_of

SUBJECT = "onnxruntime runs it: an If chooses its branch while the network runs"


def branching(nodes, constants, **inputs: int):
    """Return a model with an If on the value c; `inputs` are single numbers, by their types of elements."""
    value = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    branches = {
        f"{name}_branch": helper.make_graph([node(op, "x", "z")], name, [], [value])
        for name, op in (("then", "Neg"), ("else", "Exp"))
    }
    made = model([*nodes, node("If", "c", "y", **branches)], {"x": [2, 3]}, ["y"], constants)
    made.graph.input.extend(helper.make_tensor_value_info(name, kind, []) for name, kind in inputs.items())
    return made


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
    made, expected = CASES[title]
    (reason,) = [one.reason for one in load(made).nodes if one.op == PART and "If" in one.name]
    assert kind_of(reason) == reason
    assert reason.startswith(SUBJECT + expected)


@pytest.mark.parametrize("title", list(CASES)[:6])
def test_each_option_takes_the_branch_that_is_named(title):
    made, expected = CASES[title]
    options = re.findall(r"--fix (\w+)=([-\d.]+)\)? takes (\w+)", expected)
    assert {branch for *_, branch in options} == {"then_branch", "else_branch"}
    for name, number, branch in options:
        graph = load(made, section=Section(fixed=((name, float(number)),)))
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
