"""Limits of folding and of memory at import, and conversions with invalid parameters."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.compiler.graph.onnx.networks import attributes_agreed, model, node
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.infer import PARAMETER_ELEMENTS
from vdla.compiler.graph.onnx.load import load

X = {"x": np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)}


@pytest.mark.parametrize(("more", "operators"), [(0, ["Add"]), (1, ["Neg", "Add"])])
def test_small_constant_computations_are_folded_at_import(more, operators):
    """Up to as many elements as a parameter has."""
    count = PARAMETER_ELEMENTS + more
    proto = model(
        [node("Neg", "c", "n"), node("Add", "x n", "y")],
        {"x": [count]},
        ["y"],
        {"c": np.ones(count, np.float32)},
    )
    graph = load(proto)
    assert [graph_node.op for graph_node in graph.nodes] == operators
    x = np.arange(count, dtype=np.float32)
    np.testing.assert_array_equal(interpret(graph, {"x": x})["y"], x - 1)


def test_a_shape_that_is_computed_of_many_numbers_is_known_up_to_as_many():
    proto = model(
        [node("Reshape", "x s", "r"), node("Neg", "r", "y")],
        {"x": [1]},
        ["y"],
        {"s": np.ones(8, np.int64)},
    )
    assert load(proto).types["y"].shape == (1,) * 8


CONVERTED = {
    "a scale for all": ({"s": np.float32(0.1), "z": np.int8(3)}, {}, 0),
    "a scale for all, of one dimension": ({"s": np.float32([0.1]), "z": np.int8([3])}, {}, 0),
    "scales of columns": ({"s": np.float32([0.1, 0.2, 0.3, 0.4]), "z": np.int8([1, 2, 3, 4])}, {}, 1),
    "scales of columns, counted from the end": (
        {"s": np.float32([0.1, 0.2, 0.3, 0.4]), "z": np.int8([1, 2, 3, 4])},
        {"axis": -1},
        1,
    ),
    "scales of rows": ({"s": np.float32([0.1, 0.2, 0.3]), "z": np.int8([1, 2, 3])}, {"axis": 0}, 0),
}


@pytest.mark.parametrize("title", CONVERTED)
def test_conversions_have_the_axis_of_their_scales(title):
    constants, given, axis = CONVERTED[title]
    nodes = [node("QuantizeLinear", "x s z", "q", **given), node("DequantizeLinear", "q s z", "y", **given)]
    attributes = attributes_agreed(nodes, X, constants)
    assert attributes == [("QuantizeLinear", {"axis": axis}), ("DequantizeLinear", {"axis": axis})]


def test_a_zero_point_that_is_left_out_is_0_of_the_type():
    nodes = [node("QuantizeLinear", "x s", "q"), node("DequantizeLinear", "q s", "y")]
    graph = load(model(nodes, {"x": [3, 4]}, ["y"], {"s": np.float32(0.1)}))
    points = [graph.constants[graph_node.inputs[2]] for graph_node in graph.nodes]
    assert [(str(point.dtype), point.tolist()) for point in points] == [("uint8", 0), ("uint8", 0)]
    assert attributes_agreed(nodes, X, {"s": np.float32(0.1)}) == [
        ("QuantizeLinear", {"axis": 0}),
        ("DequantizeLinear", {"axis": 0}),
    ]


SIGMOID = helper.make_node("QLinearSigmoid", list("xszuq"), ["y"], "n", domain="com.microsoft", gamma=1)
POOLED = helper.make_node("QLinearSoftmax", list("xszuq"), ["y"], "n", domain="com.microsoft", gamma=1)
REFUSED = {
    "scale float32[3] is neither one number nor one for each of the 4 of axis 1": (
        node("QuantizeLinear", "x three zeros", "y"),
        13,
    ),
    "scale float32[1, 4] is neither one number nor one for each of the 4 of axis 1": (
        node("QuantizeLinear", "x wide", "y"),
        13,
    ),
    "zero point int8[3] does not match scale float32": (node("QuantizeLinear", "x one zeros", "y"), 13),
    "attribute block_size = 2 is not supported; it may be 0": (
        node("QuantizeLinear", "x blocks", "y", axis=1, block_size=2),
        21,
    ),
    "it has an attribute 'gamma', which QLinearSigmoid does not have; it takes none": (SIGMOID, 13),
    "it has an attribute 'gamma', which QLinearSoftmax does not have; it takes axis, opset": (POOLED, 13),
}
CONSTANTS = {
    "one": np.float32(0.5),
    "three": np.ones(3, np.float32),
    "wide": np.ones((1, 4), np.float32),
    "blocks": np.ones((3, 2), np.float32),
    "zeros": np.zeros(3, np.int8),
    **{name: np.float32(1) for name in "su"},
    **{name: np.uint8(0) for name in "zq"},
}


@pytest.mark.parametrize("message", REFUSED)
def test_invalid_conversions_are_refused(message, without_onnxruntime):
    node_proto, opset = REFUSED[message]
    with pytest.raises(GraphError) as caught:
        load(model([node_proto], {"x": [3, 4]}, ["y"], CONSTANTS, opset))
    assert str(caught.value).splitlines()[1].endswith(f"'{node_proto.name}': {message}")


def test_a_result_larger_than_any_memory_is_refused(without_onnxruntime):
    proto = model([node("Expand", "x s", "y")], {"x": [1]}, ["y"], {"s": np.array([100_000, 100_000])})
    with pytest.raises(
        GraphError, match=r"its output 'y' is float32\[100000, 100000\], which takes 40000000000 bytes"
    ):
        load(proto)


def test_a_domain_that_is_no_text_is_refused():
    proto = model([node("Relu", "x", "y")], {"x": [1]}, ["y"])
    proto.opset_import.append(helper.make_opsetid("some.where", 1))
    data = proto.SerializeToString().replace(b"some.where", b"\xff\xfeme.where")
    with pytest.raises(GraphError, match="damaged"):
        load(data)


def test_an_attribute_whose_name_is_no_text_is_refused():
    data = model([node("LeakyRelu", "x", "y", alpha=0.5)], {"x": [1]}, ["y"]).SerializeToString()
    with pytest.raises(GraphError, match="damaged"):
        load(data.replace(b"alpha", b"\xff\xfepha"))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (TensorProto.UNDEFINED, "element type UNDEFINED is not supported"),
        (TensorProto.STRING, "element type STRING is not supported"),
        (99, "element type 99 is not supported"),
    ],
)
def test_element_types_that_no_array_has_are_named(code, said, without_onnxruntime):
    proto = model([node("Relu", "x", "y")], {"x": [1]}, ["y"])
    proto.graph.input[0].type.tensor_type.elem_type = code
    with pytest.raises(GraphError, match=f"input 'x': {said}$"):
        load(proto)
