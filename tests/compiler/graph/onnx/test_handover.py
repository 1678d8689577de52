"""Handover to onnxruntime: constants, shapes, and results that are computed at import."""

import re

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tests.compiler.graph.onnx.networks import FLOAT, model, node
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph, GraphError
from vdla.compiler.graph.onnx import handover
from vdla.compiler.graph.onnx.load import load
from vdla.runtime.host.onnx_runtime import PART

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def open_ended(proto: ModelProto, kind: int = FLOAT) -> ModelProto:
    """Return a model that states no shape of its outputs."""
    for value in proto.graph.output:
        value.CopyFrom(helper.make_tensor_value_info(value.name, kind, None))
        value.ClearField("type")
    return proto


def operators(graph: Graph) -> list[str]:
    return [graph_node.op for graph_node in graph.nodes]


def test_string_tensors_stay_in_onnxruntime():
    words = numpy_helper.from_array(np.array([b"one", b"two", b"three"], object), "words")
    numbers = node(
        "LabelEncoder", "w", "n", domain="ai.onnx.ml", keys_strings=["two", "one"], values_floats=[2.5, 1.5]
    )
    proto = model(
        [node("Gather", "words i", "w"), numbers, node("Add", "n x", "y")],
        {"x": [3]},
        ["y"],
        {"i": np.array([1, 0, 1])},
    )
    proto.graph.initializer.append(words)
    proto.opset_import.add(domain="ai.onnx.ml", version=2)
    graph = load(open_ended(proto))
    x = normal(3)
    np.testing.assert_array_equal(interpret(graph, {"x": x})["y"], x + np.float32([2.5, 1.5, 2.5]))


def nonzero(shape: list | None, kind: int = TensorProto.INT64) -> ModelProto:
    """Return a model with the positions of numbers, of a stated shape."""
    nodes = [node("NonZero", "x", "places"), node("Cast", "places", "f", to=FLOAT), node("Neg", "f", "y")]
    proto = open_ended(model(nodes, {"x": [2, 3]}, ["y"]))
    if shape is not None:
        proto.graph.value_info.append(helper.make_tensor_value_info("places", kind, shape))
    return proto


def test_a_declared_shape_completes_an_unknown_shape():
    graph = load(nonzero([2, 6]))
    assert (operators(graph), graph.types["y"].shape) == ([PART, "Cast", "Neg"], (2, 6))
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(interpret(graph, {"x": x})["y"], -np.array(x.nonzero(), np.float32))


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        (None, TensorProto.INT64),
        ([3, 6], TensorProto.INT64),
        ([2, 6, 1], TensorProto.INT64),
        ([2], TensorProto.INT64),
        ([2, 6], TensorProto.INT32),
        ([2, "n"], TensorProto.INT64),
    ],
    ids=["nothing", "another extent", "more dimensions", "fewer dimensions", "another type", "no number"],
)
def test_a_contradictory_declared_shape_is_ignored(shape, kind):
    """All of it goes to onnxruntime then; what leaves is of a shape that is not known."""
    assert operators(load(nonzero(shape, kind))) == [PART]


def test_an_inferred_shape_precedes_a_less_specific_declaration():
    proto = open_ended(
        model([node("Einsum", "x", "e", equation="ab->ba"), node("Neg", "e", "y")], {"x": [2, 3]}, ["y"])
    )
    proto.graph.value_info.append(helper.make_tensor_value_info("e", FLOAT, [3, 3]))
    assert load(proto).types["y"].shape == (3, 2)


def of_constants(op: str, constants: dict, inputs: str = "c", **attributes) -> ModelProto:
    """Return a model that adds what an operator makes of constants to x."""
    nodes = [node(op, inputs, "k", **attributes), node("Add", "x k", "y")]
    return open_ended(model(nodes, {"x": [2, 2]}, ["y"], constants))


def test_results_that_onnxruntime_computes_from_constants_are_constants():
    c = normal(3, 2, 2)
    graph = load(of_constants("Einsum", {"c": c}, equation="abc->cb"))
    assert operators(graph) == ["Add"]
    np.testing.assert_allclose(graph.constants["k"], c.sum(0).T, rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [("RandomNormalLike", {}), ("RandomUniformLike", {}), ("Bernoulli", {})],
)
def test_random_numbers_are_drawn_in_each_run(op, attributes):
    proto = of_constants(op, {"c": np.full((2, 2), 0.5, np.float32)}, **attributes)
    proto.opset_import[0].version = 15
    assert PART in operators(load(proto))


def test_training_is_not_computed_at_import():
    constants = {"c": normal(2, 2), "s": np.ones(2, np.float32)}
    proto = of_constants("BatchNormalization", constants, "c s s s s", training_mode=1)
    proto.graph.node[0].output.extend(["m", "v"])
    proto.opset_import[0].version = 15
    assert PART in operators(load(proto))


def test_a_large_result_is_left_to_the_run(monkeypatch):
    """Of as many elements as the limit, and of one more."""
    for limit, known in ((4, True), (3, False)):
        monkeypatch.setattr(handover, "MOST_ELEMENTS", limit)
        graph = load(of_constants("Einsum", {"c": normal(2, 2)}, equation="ab->ba"))
        assert operators(graph) == (["Add"] if known else [PART, "Add"])


REFUSED = {
    "'s' is a sequence, which must not leave the nodes that onnxruntime runs together; tensors of known rank": (
        [node("SplitToSequence", "x", "s"), node("Relu", "x", "y")],
        ["y", "s"],
    ),
    "take 's' out of the file's outputs, or export tensors (skl2onnx: options={'zipmap': False})": (
        [node("SplitToSequence", "x", "s"), node("Relu", "x", "y")],
        ["y", "s"],
    ),
    "declare the shape of 'r' in the file (onnx.shape_inference, or value_info)": (
        [
            node("NonZero", "x", "n"),
            node("Cast", "n", "i", to=TensorProto.INT64),
            node("ReduceMax", "i", "t", axes=[1], keepdims=0),
            node("Reshape", "x t", "r"),
        ],
        ["r"],
    ),
    "onnxruntime does not run it: ": ([node("Nonsense", "x", "y", domain="com.microsoft")], ["y"]),
}


@pytest.mark.parametrize("message", REFUSED)
def test_nodes_that_onnxruntime_refuses_too_are_refused(message):
    nodes, outputs = REFUSED[message]
    with pytest.raises(GraphError, match=re.escape(message)):
        load(open_ended(model(nodes, {"x": [2, 3]}, outputs)))
