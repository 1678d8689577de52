"""Inputs that are fixed to a number."""

import re

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.compiler.graph.onnx.networks import model, node
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.fixed import with_fixed
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.onnx.read import read_model
from vdla.compiler.graph.section import WHOLE, Section

RNG = np.random.default_rng(0)


def two_rates():
    """Return a model that takes one branch where its int64 input `rate` is 16000, and the other elsewhere."""
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
    made = model(nodes, {"x": [2, 3], "more": ["n", 3]}, ["y"], {"wide": np.array(16000)})
    made.graph.input.append(helper.make_tensor_value_info("rate", TensorProto.INT64, []))
    return made


@pytest.mark.parametrize(("rate", "op"), [(16000, "Neg"), (8000, "Exp")])
def test_the_branch_that_a_fixed_input_decides_replaces_the_if(rate, op):
    graph = load(two_rates(), {"more": (1, 3)}, Section(fixed=(("rate", rate),)))
    assert list(graph.inputs) == ["x", "more"]
    assert [one.op for one in graph.nodes if one.op != "Identity"] == ["Abs", op, "Add"]


def test_a_fixed_input_is_filled_in_the_requested_shape():
    section = Section(("a", "rate"), ("y",), (("more", 0.5),))
    graph = load(two_rates(), {"more": (2, 3)}, section)
    assert list(graph.inputs) == ["a", "rate"]
    x = RNG.normal(size=(2, 3)).astype(np.float32)
    found = interpret(graph, {"a": x, "rate": np.array(16000)})["y"]
    np.testing.assert_array_equal(found, 0.5 - x)


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
