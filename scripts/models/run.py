"""Running a model under onnxruntime."""

from typing import TYPE_CHECKING

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from vdla.runtime.host.onnx_runtime import session_from

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Tensors = dict[str, np.ndarray]

PRODUCTS = {
    "ConvInteger": (1, 3),
    "MatMulInteger": (1, 3),
    "MatMulIntegerToFloat": (1, 5),
    "QGemm": (3, 5),
    "QLinearConv": (3, 5),
    "QLinearMatMul": (3, 5),
}
"""Operators that multiply their first input by another, and the places of that input and its zero point."""


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
    exact = with_unsigned_operands(model).SerializeToString()
    return InferenceSession(exact, options, providers=["CPUExecutionProvider"])


def with_unsigned_operands(model: ModelProto) -> ModelProto:
    """Return a model whose products of uint8 activations have uint8 second operands where these were int8.

    onnxruntime saturates sums of products of uint8 and int8 on processors with AVX2 and without VNNI. Its
    remedy, `vdla.runtime.host.onnx_runtime.EXACT_SUMS`, is an optimisation, and for constant weights only.
    """
    types = operand_types(model)
    changed = ModelProto()
    changed.CopyFrom(model)
    changed.graph.ClearField("node")
    for node in model.graph.node:
        is_mixed = [types[name] for name in _operands(node)] == ["tensor(uint8)", "tensor(int8)"]
        changed.graph.node.extend(_with_unsigned_operand(node) if is_mixed else [node])
    return changed


def operand_types(model: ModelProto) -> dict[str, str]:
    """Return the types of both operands of all integer products, as onnxruntime writes them, by name."""
    names = sorted({name for node in model.graph.node for name in _operands(node)})
    if not names:
        return {}
    shown = ModelProto()
    shown.CopyFrom(model)
    shown.graph.ClearField("output")
    shown.graph.output.extend(ValueInfoProto(name=name) for name in names)
    session = session_from(shown.SerializeToString(), optimised=False)
    return {output.name: output.type for output in session.get_outputs()}


def _operands(node: NodeProto) -> list[str]:
    """Return the names of both operands of an integer product; none of another operator."""
    return [node.input[0], node.input[PRODUCTS[node.op_type][0]]] if node.op_type in PRODUCTS else []


def _with_unsigned_operand(node: NodeProto) -> list[NodeProto]:
    """Return a product of uint8 for a product of uint8 and int8, after nodes that raise the latter by 128."""
    operand, zero_point = PRODUCTS[node.op_type]
    product, prefix = NodeProto(), f"{node.output[0]}_unsigned"
    product.CopyFrom(node)
    product.input.extend([""] * (1 + zero_point - len(node.input)))
    nodes = [_constant(np.array(128, np.int32), f"{prefix}_offset")]
    if not product.input[zero_point]:
        product.input[zero_point] = f"{prefix}_zero"
        nodes.append(_constant(np.array(0, np.int8), f"{prefix}_zero"))
    for place in (operand, zero_point):
        raised = f"{prefix}_{place}"
        nodes += [
            helper.make_node("Cast", [product.input[place]], [f"{raised}_wide"], to=TensorProto.INT32),
            helper.make_node("Add", [f"{raised}_wide", f"{prefix}_offset"], [f"{raised}_sum"]),
            helper.make_node("Cast", [f"{raised}_sum"], [raised], to=TensorProto.UINT8),
        ]
        product.input[place] = raised
    return [*nodes, product]


def _constant(array: np.ndarray, name: str) -> NodeProto:
    """Return a node that makes a constant."""
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))
