"""Running a model under onnxruntime."""

from typing import TYPE_CHECKING

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, numpy_helper

from vdla.runtime.host.onnx_runtime import session_from

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Tensors = dict[str, np.ndarray]

PRODUCTS = {
    "ConvInteger": (2, 1, 3),
    "MatMulInteger": (2, 1, 3),
    "MatMulIntegerToFloat": (4, 1, 5),
    "QGemm": (2, 3, 5),
    "QLinearConv": (2, 3, 5),
    "QLinearMatMul": (2, 3, 5),
}
"""Inputs of operators: the zero point of the activations, the weights, and the zero point of the weights."""


def session_of(model: ModelProto, *, exact: bool = True) -> "InferenceSession":
    """Return a session that uses one thread, as `session_from` does."""
    return session_from(model.SerializeToString(), exact=exact)


def run(session: "InferenceSession", feeds: Tensors) -> Tensors:
    """Return the outputs of a model by name."""
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def unoptimised(model: ModelProto) -> "InferenceSession":
    """Return a session of one thread that runs every operator as it stands, with exact sums."""
    from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    exact = with_unsigned_weights(model).SerializeToString()
    return InferenceSession(exact, options, providers=["CPUExecutionProvider"])


def with_unsigned_weights(model: ModelProto) -> ModelProto:
    """Return a model whose products of uint8 activations have uint8 weights where constant weights were int8.

    onnxruntime saturates sums of products of uint8 activations and int8 weights on processors with AVX2 and
    without VNNI. Its remedy, `vdla.runtime.host.onnx_runtime.EXACT_SUMS`, is an optimisation.
    """
    changed = ModelProto()
    changed.CopyFrom(model)
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    for node in changed.graph.node:
        if node.op_type in PRODUCTS:
            _make_weights_unsigned(changed.graph, node, constants)
    return changed


def _make_weights_unsigned(graph: GraphProto, node: NodeProto, constants: Tensors) -> None:
    activations, *places = PRODUCTS[node.op_type]
    inputs = [*node.input, *[""] * (1 + max(places) - len(node.input))]
    zero, weights = constants.get(inputs[activations]), constants.get(inputs[places[0]])
    if zero is None or zero.dtype != np.uint8 or weights is None or weights.dtype != np.int8:
        return
    for place in places:
        signed = constants.get(inputs[place], np.zeros((), np.int8))
        name = f"{node.output[0]}_unsigned_{place}"
        graph.initializer.append(numpy_helper.from_array(signed.view(np.uint8) ^ np.uint8(128), name))
        inputs[place] = name
    node.ClearField("input")
    node.input.extend(inputs)
