"""Import of all versions into the same form, with constants folded."""

import re

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

from tests.compiler.graph.onnx.networks import body, model, node, small_cnn
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.pipeline import SIMPLIFY
from vdla.compiler.graph.text import print_graph

RNG = np.random.default_rng(0)
AXES, SHAPE = np.array([1]), np.array([0, -1])

# What is the same in several versions: (opset, nodes, constants) of a model of x[2, 3, 4], each of which
# becomes the node.
VERSIONS = {
    'y: float32[2, 3, 4] = Identity(x, name="the_ReduceSum")': [
        (13, [node("ReduceSum", "x axes", "y", noop_with_empty_axes=1)], {"axes": np.array([], np.int64)}),
        (13, [node("ReduceSum", "x", "y", noop_with_empty_axes=1)], {}),
    ],
    'y: float32[2, 3, 4] = Clip(x, max=6.0, min=0.0, name="the_Clip")': [
        (9, [node("Clip", "x", "y", min=0.0, max=6.0)], {}),
        (11, [node("Clip", "x low high", "y")], {"low": np.float32(0), "high": np.float32(6)}),
        (13, [node("Clip", "x low high", "y")], {"low": np.float32(0), "high": np.float32(6)}),
    ],
    'y: float32[2, 3, 4] = Clip(x, max=3.4028235e+38, min=0.5, name="the_Clip")': [
        (9, [node("Clip", "x", "y", min=0.5)], {}),
        (13, [node("Clip", "x low", "y")], {"low": np.float32(0.5)}),
    ],
    'y: float32[2, 4] = ReduceSum(x, axes=(1,), keepdims=0, name="the_ReduceSum")': [
        (9, [node("ReduceSum", "x", "y", axes=[-2], keepdims=0)], {}),
        (13, [node("ReduceSum", "x axes", "y", keepdims=0)], {"axes": AXES}),
    ],
    'y: float32[2, 4] = ReduceMean(x, axes=(1,), keepdims=0, name="the_ReduceMean")': [
        (13, [node("ReduceMean", "x", "y", axes=[1], keepdims=0)], {}),
        (18, [node("ReduceMean", "x axes", "y", keepdims=0)], {"axes": AXES}),
    ],
    'y: float32[2, 1, 3, 4] = Unsqueeze(x, axes=(1,), name="the_Unsqueeze")': [
        (11, [node("Unsqueeze", "x", "y", axes=[-3])], {}),
        (13, [node("Unsqueeze", "x axes", "y")], {"axes": AXES}),
    ],
    'y: float32[2, 2, 4] = Slice(x, axes=(1,), ends=(3,), starts=(1,), steps=(1,), name="the_Slice")': [
        (9, [node("Slice", "x", "y", axes=[1], starts=[-2], ends=[99])], {}),
        (
            10,
            [node("Slice", "x start end axes", "y")],
            {"start": np.array([1]), "end": np.array([1 << 62]), "axes": AXES},
        ),
    ],
    'y: float32[2, 3, 6] = Pad(x, mode="constant", pads=(0, 0, 1, 0, 0, 1), value=0.5, name="the_Pad")': [
        (9, [node("Pad", "x", "y", pads=[0, 0, 1, 0, 0, 1], value=0.5)], {}),
        (
            11,
            [node("Pad", "x pads value", "y")],
            {"pads": np.array([0, 0, 1, 0, 0, 1]), "value": np.float32(0.5)},
        ),
        (
            18,
            [node("Pad", "x pads value axes", "y")],
            {"pads": np.array([1, 1]), "value": np.float32(0.5), "axes": np.array([-1])},
        ),
    ],
    'y: float32[2, 12] = Reshape(x, shape=(2, 12), name="the_Reshape")': [
        (9, [node("Reshape", "x shape", "y")], {"shape": SHAPE}),
        (14, [node("Reshape", "x shape", "y", allowzero=1)], {"shape": np.array([2, -1])}),
        (
            13,
            [
                node("Shape", "x", "s"),
                node("Gather", "s zero", "n"),
                node("Mul", "n one", "m"),
                node("Unsqueeze", "m axes", "u"),
                node("Concat", "u rest", "shape", axis=0),
                node("Reshape", "x shape", "y"),
            ],
            {"zero": np.array(0), "one": np.array(1), "axes": np.array([0]), "rest": np.array([-1])},
        ),
        (13, [node("Constant", "", "shape", value_ints=[2, 12]), node("Reshape", "x shape", "y")], {}),
    ],
    'y: float32[2, 3, 4] = Softmax(x, axis=2, name="the_Softmax")': [
        (9, [node("Softmax", "x", "y", axis=2)], {}),
        (12, [node("Softmax", "x", "y", axis=-1)], {}),
        (13, [node("Softmax", "x", "y")], {}),
    ],
    'y: float32[2, 3, 4] = Dropout(x, name="the_Dropout")': [
        (9, [node("Dropout", "x", "y mask", ratio=0.3)], {}),
        (13, [node("Dropout", "x ratio no", "y")], {"ratio": np.float32(0.3), "no": np.array(False)}),
    ],
    'y: float32[2, 3, 8] = Resize(x, coordinate_transformation_mode="asymmetric", nearest_mode="floor", '
    "scales=(1.0, 1.0, 2.0), "
    'sizes=(2, 3, 8), name="the_Resize")': [
        (10, [node("Resize", "x scales", "y")], {"scales": np.array([1, 1, 2], np.float32)}),
        (
            11,
            [
                node(
                    "Resize",
                    "x none none sizes",
                    "y",
                    coordinate_transformation_mode="asymmetric",
                    nearest_mode="floor",
                )
            ],
            {"sizes": np.array([2, 3, 8]), "none": np.array([], np.float32)},
        ),
        (
            18,
            [
                node(
                    "Resize",
                    "x - scales",
                    "y",
                    coordinate_transformation_mode="asymmetric",
                    nearest_mode="floor",
                    axes=[2],
                )
            ],
            {"scales": np.array([2], np.float32)},
        ),
    ],
    "y: float32[2, 3, 4] = AveragePool(x, ceil_mode=0, count_include_pad=0, dilations=(1,), "
    "kernel_shape=(2,), pads=(0, 1), strides=(1,), "
    'name="the_AveragePool")': [
        (9, [node("AveragePool", "x", "y", kernel_shape=[2], auto_pad="SAME_UPPER")], {}),
        (19, [node("AveragePool", "x", "y", kernel_shape=[2], pads=[0, 1])], {}),
    ],
}


@pytest.mark.parametrize(
    ("expected", "opset", "nodes", "constants"),
    [(text, *version) for text, versions in VERSIONS.items() for version in versions],
)
def test_all_versions_are_imported_in_the_same_form(expected, opset, nodes, constants):
    graph = load(model(nodes, {"x": [2, 3, 4]}, ["y"], constants, opset))
    assert print_graph(graph) == f"def net(x: float32[2, 3, 4]):\n    {expected}\n    return y\n"


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("pads", "size"), [([0, 0], 2), ([0, 1], 2), ([1, 0], 3)], ids=["none", "behind", "before"]
)
def test_pooling_has_no_window_that_begins_beyond_the_image(op, pads, size):
    attributes = {"kernel_shape": [2], "strides": [3], "pads": pads, "ceil_mode": 1}
    proto = model([node(op, "x", "y", **attributes)], {"x": [1, 1, 6]}, ["y"])
    graph = load(proto)
    x = RNG.normal(size=(1, 1, 6)).astype(np.float32)
    assert graph.types["y"].shape == interpret(graph, {"x": x})["y"].shape == (1, 1, size)


def test_old_softmax_flattens_the_later_dimensions():
    x = RNG.normal(size=(2, 3, 4)).astype(np.float32)
    graph = load(model([node("Softmax", "x", "y", axis=1)], {"x": [2, 3, 4]}, ["y"], opset=9))
    assert [node.op for node in graph.nodes] == ["Flatten", "Softmax", "Reshape"]
    powers = np.exp(x)
    np.testing.assert_allclose(
        interpret(graph, {"x": x})["y"], powers / powers.sum((1, 2), keepdims=True), rtol=1e-5
    )


def test_a_network_comes_out_plain_and_reads_back_equal():
    graph = load(small_cnn())
    assert [node.op for node in graph.nodes] == [
        "Conv",
        "BatchNormalization",
        "Relu",
        "Conv",
        "Add",
        "MaxPool",
        "QuantizeLinear",
        "DequantizeLinear",
        "Reshape",
        "Gemm",
        "Dropout",
        "Softmax",
    ]
    assert list(graph.inputs) == ["input.1"]
    assert graph.nodes[0].attributes["pads"] == (0, 0, 1, 1)
    assert parse_graph(print_graph(graph), graph.constants) == graph


def test_a_network_computes_the_same_as_in_onnxruntime():
    x = RNG.normal(size=(1, 3, 16, 16)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(small_cnn().SerializeToString()).run(None, {"input.1": x})
    graph = load(small_cnn())
    for each in (graph, SIMPLIFY.run(graph)):
        np.testing.assert_allclose(interpret(each, {"input.1": x})["output"], expected, rtol=1e-4, atol=1e-6)


def test_quantised_additions_of_onnxruntime_are_taken():
    points = {"s": np.float32(0.5), "z": np.uint8(1)}
    added = node("QLinearAdd", "x s z x s z s z", "y")
    added.domain = "com.microsoft"
    graph = load(model([added], {"x": [3]}, ["y"], points, elem_type=TensorProto.UINT8))
    np.testing.assert_array_equal(interpret(graph, {"x": np.array([0, 5, 200], np.uint8)})["y"], [0, 9, 255])


def test_a_dynamic_extent_needs_a_shape_from_the_caller():
    message = (
        "input 'input.1': its shape is dynamic: [N, 3, 16, 16]; pass samples (--calibrate), or "
        "--shape input.1=1,3,16,16; in Python samples=... or shapes=..."
    )
    with pytest.raises(GraphError, match=re.escape(message)):
        load(small_cnn("N"))
    assert load(small_cnn("N"), shapes={"input.1": (1, 3, 16, 16)}) == load(small_cnn())


@pytest.mark.parametrize(("condition", "op"), [(True, "Relu"), (False, "Neg")])
def test_a_branch_that_is_always_taken_replaces_the_if(condition, op, without_onnxruntime):
    nodes = [
        node("Abs", "x", "inner"),
        node("If", "c", "b", then_branch=body("Relu"), else_branch=body("Neg")),
        node("Add", "b inner", "y"),
    ]
    graph = load(model(nodes, {"x": [2, 3, 4]}, ["y"], {"c": np.array(condition)}))
    assert [graph_node.op for graph_node in graph.nodes] == ["Abs", op, "Identity", "Identity", "Add"]
    x = RNG.normal(size=(2, 3, 4)).astype(np.float32)
    taken = np.maximum(x, 0) if condition else -x
    np.testing.assert_array_equal(interpret(graph, {"x": x})["y"], taken + np.abs(x))


def test_a_model_of_another_domain_alone_needs_no_main_operator_set():
    gelu = node("Gelu", "x", "y")
    gelu.domain = "com.microsoft"
    proto = model([gelu], {"x": [3]}, ["y"])
    del proto.opset_import[0]
    assert [opset.domain for opset in proto.opset_import] == ["com.microsoft"]
    x = np.float32([-1, 0, 2])
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(interpret(load(proto), {"x": x})["y"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [1, 6, 7, 8])
def test_old_operator_sets_are_converted(opset):
    graph = load(model([node("Relu", "x", "y")], {"x": [1]}, ["y"], opset=opset))
    assert print_graph(graph).splitlines()[1].startswith("    y: float32[1] = Relu(x")


def test_names_stay_as_they_are():
    nodes = [node("Relu", "input.1", "208"), node("Neg", "208", "a/b"), node("Abs", "a/b", "class")]
    graph = load(model(nodes, {"input.1": [2]}, ["class", "208"]))
    assert list(graph.inputs) == ["input.1"]
    assert graph.outputs == ("class", "208")
    assert [graph_node.outputs for graph_node in graph.nodes] == [("208",), ("a/b",), ("class",)]
    assert parse_graph(print_graph(graph), graph.constants) == graph


def test_names_come_out_on_one_line_and_no_longer_than_a_module_takes():
    long, longer = "y" * 4999, "y" * 5000
    proto = model([node("Relu", "x", longer), node("Relu", longer, long)], {"x": [1]}, [long])
    proto.graph.node[0].name = "two\nlines"
    proto.graph.node[1].name = "n" * 5000
    graph = load(proto)
    assert [graph_node.name for graph_node in graph.nodes] == [r"two\nlines", "n" * 997 + "..."]
    assert graph.nodes[0].outputs != graph.nodes[1].outputs
    assert max(map(len, graph.types)) < 1010
