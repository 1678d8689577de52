"""Multiply-accumulates of operators, wherever they run."""

from collections.abc import Sequence
from math import prod

from vdla.compiler.graph.nodes import Graph, Node

CONVOLUTIONS = ("Conv", "ConvInteger", "Int8Conv")
TRANSPOSED = ("ConvTranspose", "Int8ConvTranspose")
MATRICES = ("Gemm", "Int8MatMul", "MatMul", "MatMulInteger")
BETWEEN_ACTIVATIONS = "Int8Products"
PRODUCTS = (*CONVOLUTIONS, *TRANSPOSED, *MATRICES)

Shape = Sequence[int]


def macs(graph: Graph, node: Node) -> int:
    """Return the multiply-accumulates of a product; 0 for other operators."""
    if node.op == BETWEEN_ACTIVATIONS:
        return len(node.extents("places")) // 2 * prod(node.extents("size"))
    if node.op not in PRODUCTS:
        return 0
    turned = bool(node.attributes.get("transA", 0))
    x, weights, result = (graph.types[name].shape for name in (*node.inputs[:2], node.outputs[0]))
    return macs_of_shapes(node.op, x, weights, result, turned)


def macs_of_shapes(op: str, x: Shape, weights: Shape, result: Shape, turned: bool = False) -> int:
    """Return the multiply-accumulates of one of `PRODUCTS`.

    Args:
        x, weights, result: shapes of its first two inputs and of its output, as ONNX defines them.
        turned: the first input of a Gemm is transposed.
    """
    if op in TRANSPOSED:
        return prod(x) * prod(weights[1:])
    if op in CONVOLUTIONS:
        return prod(result) * prod(weights[1:])
    return prod(result) * x[-2 if turned else -1]
