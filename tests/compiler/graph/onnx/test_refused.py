"""Refusals of the importer, all reported together, and damaged files."""

import random
import re

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper

from tests.compiler.graph.onnx.networks import body, model, node, small_cnn
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.load import load

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"input": (1, 3, 16, 16)}, "shapes names 'input', which is not an input; there are input.1"),
        (
            {"input.1": (1, 4, 16, 16)},
            "input 'input.1': the shape given, [1, 4, 16, 16], does not match the declared shape, [N, 3, 16, 16]",
        ),
        (
            {"input.1": (0, 3, 16, 16)},
            "input 'input.1': the shape given, [0, 3, 16, 16], does not match the declared shape, [N, 3, 16, 16]",
        ),
        (
            {"input.1": (3, 16, 16)},
            "input 'input.1': the shape given, [3, 16, 16], does not match the declared shape, [N, 3, 16, 16]",
        ),
    ],
)
def test_shapes_that_contradict_the_model_are_refused(shapes, message):
    with pytest.raises(GraphError, match=re.escape(message)):
        load(small_cnn("N"), shapes)


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
        "operator set 13 no longer has it",
    ),
    "an unknown attribute": (
        [node("Relu", "x", "y", alpha=1.0)],
        {},
        "it has an attribute 'alpha', which Relu does not have; it takes none",
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
        "weights of 2 outputs and 1 inputs in 1 groups do not match an input float32[2, 3, 4]",
    ),
    "groups that do not divide": (
        [node("Conv", "x w", "y", group=3)],
        {"w": np.ones((4, 1, 1), np.float32)},
        "weights of 4 outputs and 1 inputs in 3 groups do not match an input float32[2, 3, 4]",
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
        "an If chooses its branch while the network runs by its data, which --fix cannot decide",
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
        {"one": np.array([1])},
        "its output 'y' is float32[0, 3, 4], which has no elements",
    ),
    "other types": (
        [node("Cast", "x", "d", to=TensorProto.DOUBLE), node("Neg", "d", "y")],
        {},
        "its input 'd' is float64[2, 3, 4]; supported element types are float32",
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


@pytest.mark.parametrize("title", REFUSED)
def test_unsupported_models_are_refused_with_the_reason(title, without_onnxruntime):
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
WITH_ONNXRUNTIME = {"a shape that is computed": "'y' is a tensor of float, of unknown rank"}


@pytest.mark.parametrize("title", REFUSED)
def test_onnxruntime_takes_exactly_the_nodes_that_it_supports(title):
    nodes, constants, message = REFUSED[title]
    proto = model(nodes, {"x": [2, 3, 4]}, ["y"], constants)
    if title not in RUN_BY_ONNXRUNTIME:
        with pytest.raises(GraphError, match=re.escape(WITH_ONNXRUNTIME.get(title, message))):
            load(proto)
        return
    x = RNG.normal(size=(2, 3, 4)).astype(np.float32)
    graph = load(proto)
    try:
        (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    except Exception:  # the model declares float32 outputs, whatever they are
        expected = None
    result = interpret(graph, {"x": x})["y"]
    assert expected is None or np.array_equal(result, expected, equal_nan=True)


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
        "  input 'e': its shape is dynamic: [batch, 4]; pass samples (--calibrate), or --shape e=1,4; in Python samples=... or shapes=...",
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


def test_an_old_operator_set_with_an_undefined_input_is_refused():
    old = model([node("Add", "x undefined", "y")], {"x": [1]}, ["y"], opset=6)
    with pytest.raises(GraphError, match=r"^net: operator set 6 is not supported; one of 7 to "):
        load(old)


def test_a_normalisation_of_each_place_is_not_taken_for_one_of_channels(without_onnxruntime):
    norm = node("BatchNormalization", "x a a a a", "y", spatial=0)
    proto = model([norm], {"x": [2, 3, 4]}, ["y"], {"a": np.ones((3, 4), np.float32)}, opset=7)
    with pytest.raises(GraphError, match="attribute spatial = 0 is not supported"):
        load(proto)


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
def test_invalid_files_are_named_and_refused(tmp_path, title, data):
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


@pytest.mark.parametrize("attribute", ["kernel_shape", "ceil_mode"])
def test_an_attribute_that_refers_to_a_function_is_refused_outside_a_function(attribute):
    pool = node("MaxPool", "x", "y", kernel_shape=[2], ceil_mode=1)
    next(proto for proto in pool.attribute if proto.name == attribute).ref_attr_name = "size"
    message = f"attribute '{attribute}' refers to attribute 'size' of a model function, but the node is in no"
    with pytest.raises(GraphError, match=re.escape(message)):
        load(model([pool], {"x": (2, 3, 4)}, ["y"]))


def test_names_that_are_not_utf8_are_refused():
    data = (
        model([node("Relu", "xx", "y")], {"xx": [1]}, ["y"]).SerializeToString().replace(b"xx", b"\xff\xff")
    )
    with pytest.raises(GraphError, match="damaged"):
        load(data)


def test_numbers_of_elements_that_do_not_match_are_refused():
    proto = model([node("Add", "x w", "y")], {"x": [4]}, ["y"])
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "w"))
    proto.graph.initializer[0].dims[0] = 5
    with pytest.raises(GraphError, match="initializer 'w': its elements cannot be read"):
        load(proto)
