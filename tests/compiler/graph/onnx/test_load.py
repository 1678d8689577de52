"""Importing: one form whatever the version, what is computed on the way, and what is refused, all of it at
once."""

import random
import re

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.graph.onnx.networks import model, node, small_cnn
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.passes.pipeline import SIMPLIFY
from vdla.compiler.graph.text import print_graph
from vdla.runtime.host import onnx_runtime

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
    [(text, *one) for text, versions in VERSIONS.items() for one in versions],
)
def test_all_versions_come_out_in_one_form(expected, opset, nodes, constants):
    graph = load(model(nodes, {"x": [2, 3, 4]}, ["y"], constants, opset))
    assert print_graph(graph) == f"def net(x: float32[2, 3, 4]):\n    {expected}\n    return y\n"


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("pads", "size"), [([0, 0], 2), ([0, 1], 2), ([1, 0], 3)], ids=["none", "behind", "before"]
)
def test_pooling_has_no_window_that_begins_behind_the_image(op, pads, size):
    attributes = {"kernel_shape": [2], "strides": [3], "pads": pads, "ceil_mode": 1}
    made = model([node(op, "x", "y", **attributes)], {"x": [1, 1, 6]}, ["y"])
    graph = load(made)
    x = RNG.normal(size=(1, 1, 6)).astype(np.float32)
    assert graph.types["y"].shape == interpret(graph, {"x": x})["y"].shape == (1, 1, size)


def test_old_softmax_takes_the_later_dimensions_together():
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


def test_a_network_means_what_onnxruntime_makes_of_it():
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
        "input 'input.1': its shape is dynamic: [N, 3, 16, 16]; give it with shapes={'input.1': "
        "(...)}, or --shape input.1=..."
    )
    with pytest.raises(GraphError, match=re.escape(message)):
        load(small_cnn("N"))
    assert load(small_cnn("N"), shapes={"input.1": (1, 3, 16, 16)}) == load(small_cnn())


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"input": (1, 3, 16, 16)}, "shapes names 'input', which is not an input; there are input.1"),
        (
            {"input.1": (1, 4, 16, 16)},
            "input 'input.1': the shape given, [1, 4, 16, 16], does not go with its own, [N, 3, 16, 16]",
        ),
        (
            {"input.1": (0, 3, 16, 16)},
            "input 'input.1': the shape given, [0, 3, 16, 16], does not go with its own, [N, 3, 16, 16]",
        ),
        (
            {"input.1": (3, 16, 16)},
            "input 'input.1': the shape given, [3, 16, 16], does not go with its own, [N, 3, 16, 16]",
        ),
    ],
)
def test_shapes_that_contradict_the_model_are_refused(shapes, message):
    with pytest.raises(GraphError, match=re.escape(message)):
        load(small_cnn("N"), shapes)


def body(op: str):
    """Return a graph for a branch, which computes z of the x outside of it, by way of another value."""
    return helper.make_graph(
        [node(op, "x", "inner"), node("Identity", "inner", "z")],
        "body",
        [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 3, 4])],
    )


NAN = np.array([1, np.nan, np.inf], np.float32)

# Nodes of a model of x[2, 3, 4], constants, and what is said against it.
REFUSED = {
    "an unknown operator": (
        [node("Einsum", "x", "y", equation="abc->a")],
        {},
        "node 0, Einsum 'the_Einsum': operator Einsum is not supported",
    ),
    "an operator of another time": (
        [node("Upsample", "x s", "y")],
        {"s": np.ones(3, np.float32)},
        "operator set 13 has it no longer",
    ),
    "an unknown attribute": (
        [node("Relu", "x", "y", alpha=1.0)],
        {},
        "it has an attribute 'alpha', which Relu has not; it takes none",
    ),
    "an attribute of another kind": (
        [node("LeakyRelu", "x", "y", alpha=1)],
        {},
        "attribute alpha is not of the kind FLOAT",
    ),
    "a missing attribute": ([node("Concat", "x x", "y")], {}, "attribute axis is missing"),
    "an unsupported attribute": (
        [node("Resize", "x - s", "y", mode="linear")],
        {"s": np.ones(3, np.float32)},
        "attribute mode = 'linear' is not supported; it may be 'nearest'",
    ),
    "weights of other channels": (
        [node("Conv", "x w", "y")],
        {"w": np.ones((2, 1, 1), np.float32)},
        "weights of 2 outputs and 1 inputs in 1 groups do not go with an input float32[2, 3, 4]",
    ),
    "groups that do not divide": (
        [node("Conv", "x w", "y", group=3)],
        {"w": np.ones((4, 1, 1), np.float32)},
        "weights of 4 outputs and 1 inputs in 3 groups do not go with an input float32[2, 3, 4]",
    ),
    "a stride of 0": (
        [node("MaxPool", "x", "y", kernel_shape=[2], strides=[0])],
        {},
        "attribute strides = (0,) must be positive",
    ),
    "indices": ([node("MaxPool", "x", "m y", kernel_shape=[2])], {}, "its output 1 ('y') is not supported"),
    "a branch": (
        [
            node("ReduceMax", "x", "m", keepdims=0),
            node("Greater", "m zero", "c"),
            node("If", "c", "y", then_branch=body("Relu"), else_branch=body("Neg")),
        ],
        {"zero": np.float32(0)},
        "it holds a subgraph (else_branch, then_branch); control flow is not supported",
    ),
    "a shape that is computed": (
        [node("Cast", "x", "i", to=TensorProto.INT64), node("Reshape", "x i", "y")],
        {},
        "node 1, Reshape 'the_Reshape': output 'y': its shape is dynamic",
    ),
    "bounds that are computed": (
        [node("ReduceMax", "x", "m", keepdims=0), node("Clip", "x m", "y")],
        {},
        "min ('m') is computed while the network runs; it must be a constant",
    ),
    "weights that are no numbers": (
        [node("MatMul", "x w", "y")],
        {"w": np.tile(NAN, 4).reshape(4, 3)},
        "its constant 'w' holds 8 NaN or infinite elements, the first, nan, at 1",
    ),
    "an empty tensor": (
        [node("Concat", "x w", "y", axis=1)],
        {"w": np.zeros((2, 0, 4), np.float32)},
        "its constant 'w' is float32[2, 0, 4], which has no elements",
    ),
    "an empty result": (
        [node("Slice", "x one one", "y")],
        {"one": AXES},
        "its output 'y' is float32[0, 3, 4], which has no elements",
    ),
    "other types": (
        [node("Cast", "x", "y", to=TensorProto.DOUBLE)],
        {},
        "its output 'y' is float64[2, 3, 4]; supported element types are float32",
    ),
    "types that do not go together": (
        [node("Add", "x w", "y")],
        {"w": np.ones(4)},
        "its input 1 (B) is float64[4], but an input before it is tensor(float)",
    ),
    "shapes that do not go together": (
        [node("Add", "x w", "y")],
        {"w": np.ones(5, np.float32)},
        "its shape cannot be inferred: ",
    ),
    "too many inputs": ([node("Relu", "x x", "y")], {}, "it has 2 inputs; Relu takes 1 to 1"),
    "an unsorted graph": (
        [node("Neg", "a", "y"), node("Relu", "x", "a")],
        {},
        "node 0, Neg 'the_Neg': it reads 'a' before node 1, Relu 'the_Relu' makes it; nodes must be in order",
    ),
    "a circle": (
        [node("Add", "x b", "a"), node("Relu", "a", "b"), node("Neg", "b", "y")],
        {},
        "nodes form a cycle: node ",
    ),
    "a value from nowhere": (
        [node("Relu", "gone", "y")],
        {},
        "node 0, Relu 'the_Relu': it reads 'gone', which nothing makes",
    ),
    "a value made twice": (
        [node("Relu", "x", "y"), node("Neg", "x", "y")],
        {},
        "node 1, Neg 'the_Neg': it makes 'y', which exists already",
    ),
    "an output from nowhere": ([node("Relu", "x", "a")], {}, "output 'y': nothing makes it"),
}


HINT = (
    "  running other operators on the host needs onnxruntime, which is not installed here; install it with: "
)


@pytest.fixture
def without_onnxruntime(monkeypatch):
    """Let onnxruntime be missing."""
    monkeypatch.setattr(onnx_runtime, "is_there", lambda: False)


@pytest.mark.parametrize("title", REFUSED)
def test_what_cannot_be_imported_is_refused_with_its_reason(title, without_onnxruntime):
    nodes, constants, message = REFUSED[title]
    with pytest.raises(GraphError) as caught:
        load(model(nodes, {"x": [2, 3, 4]}, ["y"], constants))
    assert str(caught.value).startswith("net: cannot be imported, 1 problem:\n")
    assert message in str(caught.value)


RUN_BY_ONNXRUNTIME = {
    "an unknown operator",
    "an unsupported attribute",
    "indices",
    "a branch",
    "bounds that are computed",
    "an empty tensor",
    "an empty result",
    "other types",
}


WITH_ONNXRUNTIME = {"a shape that is computed": "'y' is a tensor of float, of a rank that only a run tells"}


@pytest.mark.parametrize("title", REFUSED)
def test_only_what_onnxruntime_runs_is_not_refused_with_it(title):
    nodes, constants, message = REFUSED[title]
    made = model(nodes, {"x": [2, 3, 4]}, ["y"], constants)
    if title not in RUN_BY_ONNXRUNTIME:
        with pytest.raises(GraphError, match=re.escape(WITH_ONNXRUNTIME.get(title, message))):
            load(made)
        return
    x = RNG.normal(size=(2, 3, 4)).astype(np.float32)
    graph = load(made)
    try:
        (expected,) = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    except Exception:  # the model declares float32 outputs, whatever they are
        expected = None
    found = interpret(graph, {"x": x})["y"]
    assert expected is None or np.array_equal(found, expected, equal_nan=True)


@pytest.mark.parametrize(("condition", "op"), [(True, "Relu"), (False, "Neg")])
def test_a_branch_that_is_always_taken_stands_in_place_of_the_branching(condition, op, without_onnxruntime):
    nodes = [
        node("Abs", "x", "inner"),
        node("If", "c", "b", then_branch=body("Relu"), else_branch=body("Neg")),
        node("Add", "b inner", "y"),
    ]
    graph = load(model(nodes, {"x": [2, 3, 4]}, ["y"], {"c": np.array(condition)}))
    assert [one.op for one in graph.nodes] == ["Abs", op, "Identity", "Identity", "Add"]
    x = RNG.normal(size=(2, 3, 4)).astype(np.float32)
    taken = np.maximum(x, 0) if condition else -x
    np.testing.assert_array_equal(interpret(graph, {"x": x})["y"], taken + np.abs(x))


@pytest.mark.parametrize(
    ("attribute", "value"), [("keep_aspect_ratio_policy", "not_larger"), ("antialias", 1)]
)
def test_forms_of_resize_that_are_not_supported_are_refused(attribute, value, without_onnxruntime):
    resize = node("Resize", "x - - sizes", "y", **{attribute: value})
    with pytest.raises(GraphError, match=f"attribute {attribute} = .* is not supported; it may be"):
        load(model([resize], {"x": [2, 3, 4]}, ["y"], {"sizes": np.array([4, 6, 8])}, 18))


def test_every_problem_is_listed_at_once_and_no_consequence_of_one(without_onnxruntime):
    nodes = [
        node("Einsum", "x", "a", equation="abc->a"),
        node("Relu", "a", "b"),
        node("Det", "b", "c"),
        node("MatMul", "x w", "d"),
        node("Sum", "c d e", "y"),
    ]
    with pytest.raises(GraphError) as caught:
        load(model(nodes, {"x": [2, 3, 4], "e": ["batch", 4]}, ["y"], {"w": np.tile(NAN, 4).reshape(4, 3)}))
    assert str(caught.value).splitlines() == [
        "net: cannot be imported, 4 problems:",
        "  input 'e': its shape is dynamic: [batch, 4]; give it with shapes={'e': (...)}, or --shape e=...",
        "  node 0, Einsum 'the_Einsum': operator Einsum is not supported",
        "  node 2, Det 'the_Det': operator Det is not supported",
        "  node 3, MatMul 'the_MatMul': its constant 'w' holds 8 NaN or infinite elements, the first, nan, at 1",
        HINT + 'pip install "vdla[models]"',
    ]


@pytest.mark.parametrize("opset", [onnx.defs.onnx_opset_version() + 1, 99])
def test_operator_sets_that_are_too_new_are_refused(opset):
    with pytest.raises(
        GraphError,
        match=rf"^net: operator set {opset} is not supported; one of 7 to {onnx.defs.onnx_opset_version()} "
        r"is",
    ):
        load(model([node("Relu", "x", "y")], {"x": [1]}, ["y"], opset=opset))


@pytest.mark.parametrize("opset", [1, 6, 7, 8])
def test_old_operator_sets_come_out_in_todays_form(opset):
    graph = load(model([node("Relu", "x", "y")], {"x": [1]}, ["y"], opset=opset))
    assert print_graph(graph).splitlines()[1].startswith("    y: float32[1] = Relu(x")


def test_a_normalisation_of_each_place_is_not_taken_for_one_of_channels(without_onnxruntime):
    norm = node("BatchNormalization", "x a a a a", "y", spatial=0)
    made = model([norm], {"x": [2, 3, 4]}, ["y"], {"a": np.ones((3, 4), np.float32)}, opset=7)
    with pytest.raises(GraphError, match="attribute spatial = 0 is not supported"):
        load(made)


def test_names_stay_as_they_are():
    nodes = [node("Relu", "input.1", "208"), node("Neg", "208", "a/b"), node("Abs", "a/b", "class")]
    graph = load(model(nodes, {"input.1": [2]}, ["class", "208"]))
    assert list(graph.inputs) == ["input.1"]
    assert graph.outputs == ("class", "208")
    assert [one.outputs for one in graph.nodes] == [("208",), ("a/b",), ("class",)]
    assert parse_graph(print_graph(graph), graph.constants) == graph


def test_names_come_out_on_one_line_and_no_longer_than_a_module_takes():
    long, longer = "y" * 4999, "y" * 5000
    made = model([node("Relu", "x", longer), node("Relu", longer, long)], {"x": [1]}, [long])
    made.graph.node[0].name = "two\nlines"
    made.graph.node[1].name = "n" * 5000
    graph = load(made)
    assert [one.name for one in graph.nodes] == [r"two\nlines", "n" * 997 + "..."]
    assert graph.nodes[0].outputs != graph.nodes[1].outputs
    assert max(map(len, graph.types)) < 1010


def test_a_tensor_larger_than_the_limit_is_refused():
    message = (
        r"input 'x': it is float32\[100000, 100000\], which takes 40000000000 bytes, and the limit "
        r"is 536870912"
    )
    with pytest.raises(GraphError, match=message):
        load(model([node("Relu", "x", "y")], {"x": [100_000, 100_000]}, ["y"]))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(GraphError, match=r"none\.onnx: cannot be read: No such file or directory$"):
        load(tmp_path / "none.onnx")


@pytest.mark.parametrize(
    ("title", "data"),
    [
        ("empty", b""),
        ("text", b"this is no model"),
        ("noise", random.Random(0).randbytes(10_000_000)),
        ("zeros", bytes(1000)),
        ("half a model", small_cnn().SerializeToString()[:5000]),
    ],
)
def test_files_that_are_no_models_are_named_and_refused(tmp_path, title, data):
    file = tmp_path / f"{title}.onnx"
    file.write_bytes(data)
    with pytest.raises(
        GraphError, match=rf"^{re.escape(str(file))}: this is not an ONNX model, or it is damaged"
    ):
        load(file)


def test_flipped_bits_and_cut_ends_give_a_graph_or_a_clear_error():
    generator, data, refused = random.Random(3), small_cnn().SerializeToString(), 0
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(generator.choice([1, 1, 2, 8])):
            damaged[generator.randrange(1200)] ^= 1 << generator.randrange(8)
        if generator.random() < 0.1:
            damaged = damaged[: generator.randrange(len(damaged))]
        try:
            load(bytes(damaged))
        except GraphError:
            refused += 1
    assert 100 < refused < 300


def test_names_that_are_no_text_are_refused():
    data = (
        model([node("Relu", "xx", "y")], {"xx": [1]}, ["y"]).SerializeToString().replace(b"xx", b"\xff\xff")
    )
    with pytest.raises(GraphError, match="damaged"):
        load(data)


def test_numbers_of_elements_that_do_not_match_are_refused():
    made = model([node("Add", "x w", "y")], {"x": [4]}, ["y"])
    made.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "w"))
    made.graph.initializer[0].dims[0] = 5
    with pytest.raises(GraphError, match="initializer 'w': its elements cannot be read"):
        load(made)
