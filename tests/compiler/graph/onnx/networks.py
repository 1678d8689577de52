"""Small models for the tests of the importer."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnxruntime
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.onnx.load import load
from vdla.runtime.host.onnx_runtime import PART

FLOAT = TensorProto.FLOAT


def node(op: str, inputs: str, outputs: str, **attributes) -> NodeProto:
    """Return a node; names are separated by blanks, "-" leaves an input out."""
    return helper.make_node(
        op, [name.strip("-") for name in inputs.split()], outputs.split(), name=f"the_{op}", **attributes
    )


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sequence],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray] | None = None,
    opset: int = 13,
    elem_type: int = FLOAT,
) -> ModelProto:
    """Return a model whose inputs have shapes, with names for dynamic extents, and whose outputs have
    none."""
    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info(name, elem_type, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)],
        ir_version=8,
    )


def _small_cnn_constants() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    return {
        "w1": weights(8, 3, 3, 3),
        "scale": weights(8),
        "shift": weights(8),
        "mean": weights(8),
        "var": np.abs(weights(8)),
        "w2": weights(8, 1, 3, 3),
        "fc": weights(128, 10),
        "bias": weights(10),
        "rest": np.array([-1]),
        "zero": np.array(0),
        "axis": np.array([0]),
        "s": np.float32(0.1),
        "z": np.uint8(3),
    }


def small_cnn(batch: int | str = 1) -> ModelProto:
    """Return a network with what exporters write: normalisation, shortcuts, and a shape that is computed."""
    nodes = [
        node("Conv", "input.1 w1", "/c1", auto_pad="SAME_UPPER", strides=[2, 2]),
        node("BatchNormalization", "/c1 scale shift mean var", "bn"),
        node("Relu", "bn", "r"),
        node("Conv", "r w2", "c2", group=8, pads=[1, 1, 1, 1]),
        node("Add", "c2 r", "a"),
        node("MaxPool", "a", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("QuantizeLinear", "p s z", "q"),
        node("DequantizeLinear", "q s z", "d"),
        node("Shape", "d", "shape"),
        node("Gather", "shape zero", "n", axis=0),
        node("Unsqueeze", "n axis", "n1"),
        node("Concat", "n1 rest", "flat_shape", axis=0),
        node("Reshape", "d flat_shape", "flat"),
        node("Gemm", "flat fc bias", "g"),
        node("Dropout", "g", "dropped"),
        node("Softmax", "dropped", "output"),
    ]
    for place, each in enumerate(nodes):
        each.name = f"{each.op_type}_{place}"
    return model(nodes, {"input.1": [batch, 3, 16, 16]}, ["output"], _small_cnn_constants())


def body(op: str):
    """Return a graph for a branch, which computes z of the x outside of it, by way of another value."""
    return helper.make_graph(
        [node(op, "x", "inner"), node("Identity", "inner", "z")],
        "body",
        [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 3, 4])],
    )


def attributes_agreed(
    nodes: Sequence[NodeProto],
    fed: Mapping[str, np.ndarray],
    constants: Mapping[str, np.ndarray] | None = None,
    opset: int = 13,
) -> Sequence[tuple[str, dict]]:
    """Check that a model of nodes that makes y means what onnxruntime makes of it, and that none of it is left
    to onnxruntime; return its operators with their attributes."""
    proto = model(nodes, {name: array.shape for name, array in fed.items()}, ["y"], constants, opset)
    for value in proto.graph.input:
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(fed[value.name].dtype)
    proto.graph.output[0].ClearField("type")
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, dict(fed))
    graph = load(proto)
    assert PART not in [graph_node.op for graph_node in graph.nodes]
    result = interpret(graph, dict(fed))["y"]
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    return [(graph_node.op, dict(graph_node.attributes)) for graph_node in graph.nodes]
