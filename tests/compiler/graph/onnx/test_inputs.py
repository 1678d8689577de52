"""Declared types of the inputs of a model, and advice on dynamic shapes."""

import pytest
from onnx import TensorProto, helper

from vdla.compiler.graph.onnx.inputs import inputs_of, shape_advice


def value(shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info("x", kind, shape)


def declared(value_info, **shapes):
    graph = helper.make_graph([], "net", [value_info], [])
    return inputs_of(graph, shapes)["x"]


CASES = {
    "a batch": (["batch", 3], "float32[batch, 3]", True),
    "a batch of 1": ([1, 3], "float32[1, 3]", True),
    "a batch of 2": ([2, 3], "float32[2, 3]", False),
    "a sequence": (["seq", 3], "float32[seq, 3]", False),
    "without a name": ([None, 3], "float32[?, 3]", True),
    "negative": ([-1, 3], "float32[?, 3]", True),
    "signs in place of names": (["?", "-1", "*", "None"], "float32[?, ?, ?, ?]", True),
    "of one axis": ([None], "float32[?]", False),
    "a number": ([], "float32[]", False),
    "no rank": (None, "float32[...]", False),
}


@pytest.mark.parametrize("title", CASES)
def test_dynamic_extents_and_batches_are_recognised(title):
    shape, text, is_batch = CASES[title]
    input_type = declared(value(shape))
    assert (str(input_type), input_type.is_batch) == (text, is_batch)


def test_extents_without_a_name_are_not_the_same_extent():
    assert declared(value(["batch", 3, "?", "?"])).names == ("batch", "", "", "")


def test_a_given_shape_replaces_the_declared_shape():
    input_type = declared(value(["batch", 3]), x=(4, 3))
    assert (input_type.shape, input_type.is_batch, input_type.names) == ((4, 3), True, ())
    assert not declared(value(["seq", 3]), x=(4, 3)).is_batch
    assert declared(value(["seq", 3]), x=(1, 3)).is_batch


def test_other_inputs_than_tensors_are_left_to_the_importer():
    sequence = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, [1])
    assert inputs_of(helper.make_graph([], "net", [sequence], []), {}) is None


@pytest.mark.parametrize(
    ("shape", "option"),
    [
        (["N", 3, "height", None], "--shape x=1,3,height,?;"),
        (["seq", 1, 80], "--shape x=seq,1,80;"),
        (None, "--shape x=...;"),
    ],
)
def test_the_advice_has_the_option_as_far_as_it_is_known(shape, option):
    assert option in shape_advice(value(shape))
