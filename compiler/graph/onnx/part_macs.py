"""Multiply-accumulates of a part that onnxruntime runs."""

from math import prod

from onnx import GraphProto, ModelProto, NodeProto, shape_inference

from vdla.compiler.graph.macs import PRODUCTS, macs_of_shapes

RECURRENT = ("DynamicQuantizeLSTM", "GRU", "LSTM", "RNN")
Shapes = dict[str, tuple[int, ...]]


def macs_of_part(model: bytes) -> int:
    """Return the multiply-accumulates of products and recurrent operators whose shapes are known, without
    those in subgraphs.

    Args:
        model: an ONNX model that onnxruntime takes.
    """
    graph = shape_inference.infer_shapes(ModelProto.FromString(model)).graph
    shapes = _shapes(graph)
    return sum(_macs(node, shapes) for node in graph.node)


def _shapes(graph: GraphProto) -> Shapes:
    """Return the shapes that are known to the last extent."""
    found = {one.name: tuple(one.dims) for one in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        extents = value.type.tensor_type.shape.dim
        if value.type.tensor_type.HasField("shape") and all(one.HasField("dim_value") for one in extents):
            found[value.name] = tuple(one.dim_value for one in extents)
    return found


def _macs(node: NodeProto, shapes: Shapes) -> int:
    if node.op_type in RECURRENT and all(name in shapes for name in node.input[:3]):
        steps, weights, own = (shapes[name] for name in node.input[:3])
        return prod(steps[:2]) * (prod(weights) + prod(own))
    names = (*node.input[:2], *node.output[:1])
    if node.op_type not in PRODUCTS or not all(shapes.get(name) for name in names):
        return 0
    turned = any(one.name == "transA" and one.i for one in node.attribute)
    x, weights, result = (shapes[name] for name in names)
    return macs_of_shapes(node.op_type, x, weights, result, turned)
