"""float16 and bfloat16 become float32: what onnxruntime makes of the file, within its precision."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnxruntime.transformers.float16 import convert_float_to_float16

from tests.compiler.graph.onnx.networks import model, node
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.source import Section
from vdla.runtime.host.onnx_runtime import PART

RNG = np.random.default_rng(0)
HALF, BRAIN = TensorProto.FLOAT16, TensorProto.BFLOAT16


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def as_kind(array: np.ndarray, kind: int) -> np.ndarray:
    return array.astype(helper.tensor_dtype_to_np_dtype(kind))


def halved(nodes, inputs, constants, kind=HALF, out=HALF, opset=17) -> ModelProto:
    """Return a model of half precision throughout, but for the outputs' type."""
    weights = {name: as_kind(array, kind) for name, array in constants.items()}
    proto = model(nodes, inputs, ["y"], weights, opset, kind)
    proto.graph.output[0].type.tensor_type.elem_type = out
    return proto


def small(kind=HALF, out=HALF) -> ModelProto:
    nodes = [
        node("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("GlobalAveragePool", "r", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f g", "y"),
    ]
    return halved(
        nodes, {"x": [1, 4, 8, 8]}, {"w": normal(8, 4, 3, 3), "b": normal(8), "g": normal(8, 5)}, kind, out
    )


def check(proto: ModelProto, fed: dict[str, np.ndarray]) -> np.ndarray:
    """Compare with onnxruntime, which must not be needed to run it; return the result."""
    for number, node_proto in enumerate(proto.graph.node):
        node_proto.name = f"n{number}"
    asked = {
        value.name: as_kind(fed[value.name], value.type.tensor_type.elem_type) for value in proto.graph.input
    }
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, asked)
    graph = load(proto)
    assert PART not in [graph_node.op for graph_node in graph.nodes]
    assert {type_.dtype for type_ in graph.inputs.values()} <= {"float32", "int64"}
    inputs = {name: asked[name].astype(type_.dtype) for name, type_ in graph.inputs.items()}
    result = interpret(graph, inputs)["y"]
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-2, atol=1e-2)
    return result


def test_a_network_of_halves_has_inputs_of_float32_and_outputs_of_the_files_type():
    assert check(small(), {"x": normal(1, 4, 8, 8)}).dtype == np.float16


def test_types_that_the_file_keeps_stay():
    """As tools write it with keep_io_types: Cast at both ends, and around what stays in float32."""
    nodes = [
        node("Cast", "x", "h", to=HALF),
        node("Conv", "h w", "c"),
        node("Cast", "c", "s", to=TensorProto.FLOAT),
        node("Softmax", "s", "t", axis=1),
        node("Cast", "t", "u", to=HALF),
        node("Mul", "u u", "v"),
        node("Cast", "v", "y", to=TensorProto.FLOAT),
    ]
    proto = halved(nodes, {"x": [1, 4, 8, 8]}, {"w": normal(8, 4, 3, 3)}, out=TensorProto.FLOAT)
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT
    assert check(proto, {"x": normal(1, 4, 8, 8)}).dtype == np.float32
    assert "Cast" not in [
        graph_node.op for graph_node in load(proto).nodes if graph_node.attributes.get("to") != "float32"
    ]


@pytest.mark.parametrize("keep", [False, True])
def test_a_file_of_onnxruntimes_tool(keep):
    """Which writes the Cast of an input behind the nodes that read it."""
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "r"), node("Add", "r r", "y")]
    wide = model(nodes, {"x": [1, 4, 8, 8]}, ["y"], {"w": normal(8, 4, 3, 3)}, 17)
    proto = convert_float_to_float16(wide, keep_io_types=keep)
    x = normal(1, 4, 8, 8)
    assert check(proto, {"x": x}).dtype == (np.float32 if keep else np.float16)


def test_bfloat16_leaves_as_float32():
    proto = small(BRAIN, BRAIN)
    graph = load(proto)
    assert graph.types[graph.outputs[0]].dtype == graph.types["x"].dtype == "float32"
    wide = small()
    x = normal(1, 4, 8, 8)
    for tensor, source in zip(wide.graph.initializer, proto.graph.initializer, strict=True):
        tensor.CopyFrom(numpy_helper.from_array(as_kind(numpy_helper.to_array(source), HALF), tensor.name))
    result, expected = (interpret(load(variant), {"x": x})["y"] for variant in (proto, wide))
    np.testing.assert_allclose(result, expected, rtol=1e-2, atol=1e-2)


def branch(name: str, scale: float):
    constant = numpy_helper.from_array(np.float16([scale]), f"{name}_scale")
    value = helper.make_tensor_value_info(name, HALF, None)
    return helper.make_graph([node("Mul", f"x {name}_scale", name)], name, [], [value], [constant])


CASES = {
    "a constant of a node": [
        helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.float16([2, 3, 4]))),
        node("Mul", "x k", "y"),
    ],
    "a shape filled with a number": [
        node("Shape", "x", "s"),
        node("ConstantOfShape", "s", "k", value=numpy_helper.from_array(np.float16([2]))),
        node("Add", "x k", "y"),
    ],
    "a value that is read and goes out": [node("Relu", "x", "y"), node("Neg", "y", "n")],
    "conversions of integers": [
        node("Cast", "x", "i", to=TensorProto.INT64),
        node("Cast", "i", "f", to=HALF),
        node("Add", "x f", "y"),
    ],
    "a norm with sums of float32": [node("LayerNormalization", "x g", "y", stash_type=1)],
}


@pytest.mark.parametrize("case", CASES)
def test_constants_attributes_and_conversions(case):
    check(halved(CASES[case], {"x": [2, 3]}, {"g": normal(3)}), {"x": normal(2, 3) * 3})


def test_subgraphs_are_converted_too():
    """onnxruntime runs the If; what goes in and out of it is float32."""
    nodes = [
        node("ReduceMax", "x", "m", keepdims=0),
        node("Cast", "m", "c", to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], "i", then_branch=branch("t", 2), else_branch=branch("e", 3)),
    ]
    proto, x = halved(nodes, {"x": [2, 3]}, {}), normal(2, 3).astype(np.float16)
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    result = interpret(load(proto), {"x": x.astype(np.float32)})["y"]
    np.testing.assert_array_equal(result, expected)


def with_halves_in(place: str) -> ModelProto:
    """Return a model of y = x + 1 that computes with half precision in one place alone."""
    half = helper.make_node("Constant", [], ["h"], value=numpy_helper.from_array(np.float16(1)))
    to_half, to_float = node("Cast", "x", "a", to=HALF), node("Cast", "b", "y", to=TensorProto.FLOAT)
    wide = helper.make_node("Cast", ["h"], ["k"], to=TensorProto.FLOAT)
    proto = model([node("Add", "x k", "y")], {"x": [2]}, ["y"], {"k": np.float32(1)}, 17)
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    nodes, tensors = [node("Add", "x k", "y")], []
    match place:
        case "a constant":
            tensors, nodes = [numpy_helper.from_array(np.float16(1), "h")], [wide, *nodes]
        case "an attribute":
            nodes = [half, wide, *nodes]
        case "a conversion":
            tensors = [numpy_helper.from_array(np.float32(1), "k")]
            nodes = [to_half, node("Identity", "a", "c"), node("Cast", "c", "d", to=TensorProto.FLOAT)]
            nodes.append(node("Add", "d k", "y"))
        case "a stated type":
            proto.graph.value_info.append(helper.make_tensor_value_info("b", HALF, [2]))
            tensors = [numpy_helper.from_array(np.float32(1), "k")]
            nodes = [
                node("CastLike", "x t", "a"),
                node("CastLike", "k t", "c"),
                node("Add", "a c", "b"),
                to_float,
            ]
            proto.graph.input.append(helper.make_tensor_value_info("t", HALF, [1]))
    del proto.graph.node[:], proto.graph.initializer[:]
    proto.graph.node.extend(nodes)
    proto.graph.initializer.extend(tensors)
    return proto


@pytest.mark.parametrize("place", ["a constant", "an attribute", "a conversion", "a stated type"])
def test_half_precision_in_one_place_alone_is_widened(place):
    graph = load(with_halves_in(place))
    assert "float16" not in {type_.dtype for type_ in graph.types.values()}
    fed = {name: np.float32([0.5, 2])[: type_.shape[0]] for name, type_ in graph.inputs.items()}
    np.testing.assert_array_equal(interpret(graph, fed)["y"], np.float32([1.5, 3]))


def test_half_precision_in_a_branch_alone_is_widened():
    """A third stays what it is in float32, which float16 would round."""
    inner = [
        helper.make_node("Cast", ["x"], ["h"], "down", to=HALF),
        helper.make_node("Cast", ["h"], ["t"], "up", to=TensorProto.FLOAT),
    ]
    value = helper.make_tensor_value_info("t", TensorProto.FLOAT, None)
    half_branch = helper.make_graph(inner, "g", [], [value])
    wide_branch = helper.make_graph([node("Identity", "x", "t")], "e", [], [value])
    nodes = [
        node("ReduceMax", "x", "m", keepdims=0),
        node("Cast", "m", "c", to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], "i", then_branch=half_branch, else_branch=wide_branch),
    ]
    x = np.full(3, 1 / 3, np.float32)
    result = interpret(load(model(nodes, {"x": [3]}, ["y"], opset=17)), {"x": x})["y"]
    np.testing.assert_array_equal(result, x)


def test_a_quantised_network_of_halves_has_scales_of_float32():
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")]
    proto = halved(nodes, {"x": [2, 3]}, {"s": np.float32(0.1)}, opset=19)
    proto.graph.initializer.append(numpy_helper.from_array(np.int8(3), "z"))
    check(proto, {"x": normal(2, 3)})


def test_weights_in_another_file(tmp_path):
    proto, x = small(), normal(1, 4, 8, 8)
    expected = interpret(load(proto), {"x": x})["y"]
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    np.testing.assert_array_equal(interpret(load(tmp_path / "m.onnx"), {"x": x})["y"], expected)
    (tmp_path / "m.bin").unlink()
    with pytest.raises(GraphError, match=r"initializer 'w': .*m\.bin"):
        load(tmp_path / "m.onnx")


def test_a_part_of_a_network_of_halves():
    graph = load(small(), section=Section(inputs=("r",), outputs=("f",)), shapes={"r": (1, 8, 8, 8)})
    assert [graph.types[name].dtype for name in ("r", "f")] == ["float32", "float32"]


def test_the_model_that_is_given_stays_as_it_is():
    proto = small()
    before = proto.SerializeToString(deterministic=True)
    load(proto)
    assert proto.SerializeToString(deterministic=True) == before


def test_an_input_that_leaves_unchanged_is_float32():
    proto = halved([node("Relu", "x", "y")], {"x": [2, 3]}, {})
    proto.graph.output.append(helper.make_tensor_value_info("x", HALF, [2, 3]))
    graph = load(proto)
    assert [graph.types[name].dtype for name in graph.outputs] == ["float16", "float32"]
