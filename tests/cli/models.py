"""Small ONNX models, of floats and quantised, for tests of the commands."""

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

RNG = np.random.default_rng(0)
CONSTANTS = {
    "w": RNG.normal(size=(4, 1, 3, 3)).astype(np.float32),
    "m": RNG.normal(size=(64, 5)).astype(np.float32),
}
QUANTISED = {
    "wq": RNG.integers(-127, 128, (4, 1, 3, 3), np.int8),
    "mq": RNG.integers(-127, 128, (64, 5), np.int8),
    "s": np.float32(0.02),
    "ws": np.float32(0.01),
    "ys": np.float32(0.05),
    "z": np.int8(0),
}
POOL = {
    "kernel_shape": [5, 5]
}  # its windows overlap too much for a pooling of sums, so it is a separate task


def node(op: str, inputs: str, output: str, **attributes) -> NodeProto:
    return helper.make_node(op, inputs.split(), [output], name=output.upper(), **attributes)


FLOAT_NODES = (
    node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
    node("Relu", "c", "r"),
    node("MaxPool", "r", "p", **POOL),
    node("Flatten", "p", "f"),
    node("MatMul", "f m", "y"),
)
QDQ_NODES = (
    node("QuantizeLinear", "x s z", "xq"),
    node("DequantizeLinear", "xq s z", "xd"),
    node("DequantizeLinear", "wq ws z", "wd"),
    node("Conv", "xd wd", "c", pads=[1, 1, 1, 1]),
    node("Relu", "c", "r"),
    node("QuantizeLinear", "r ys z", "rq"),
    node("DequantizeLinear", "rq ys z", "rd"),
    node("MaxPool", "rd", "p", **POOL),
    node("QuantizeLinear", "p ys z", "pq"),
    node("DequantizeLinear", "pq ys z", "pd"),
    node("Softmax", "pd", "t", axis=3),
    node("QuantizeLinear", "t ys z", "tq"),
    node("DequantizeLinear", "tq ys z", "td"),
    node("Flatten", "td", "f"),
    node("QuantizeLinear", "f ys z", "fq"),
    node("DequantizeLinear", "fq ys z", "fd"),
    node("DequantizeLinear", "mq ws z", "md"),
    node("MatMul", "fd md", "g"),
    node("QuantizeLinear", "g ys z", "gq"),
    node("DequantizeLinear", "gq ys z", "y"),
)


def model(
    nodes=QDQ_NODES,
    constants: Mapping[str, np.ndarray] = QUANTISED,
    shape=(1, 1, 8, 8),
    elem_type: int = TensorProto.FLOAT,
) -> ModelProto:
    """Return a model of x with the output y."""
    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info("x", elem_type, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def float_model(**changes) -> ModelProto:
    """Return the network in floats."""
    return model(FLOAT_NODES, CONSTANTS, **changes)
