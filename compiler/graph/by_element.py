"""Operators that change every element of an int8 tensor alike: products are what scalars between two
conversions become."""

import numpy as np

from vdla.compiler.graph.nodes import Graph, Node
from vdla.runtime.host.int8 import BYTES
from vdla.runtime.requantise import requantise

IMAGE_RANK = 4


def changes_alike(graph: Graph, node: Node) -> bool:
    """Whether a node multiplies all elements of a tensor by one number, and requantises all alike."""
    return _factor(graph, node) is not None


def changed(graph: Graph, node: Node, values: np.ndarray) -> np.ndarray:
    """Return what a node of `changes_alike` makes of int8[...], element by element."""
    factor = _factor(graph, node)
    assert factor is not None, f"{node} changes elements by their channels"
    words = graph.constants[node.inputs[2]][:, :1]
    return requantise(values.astype(np.int64) * factor, words.reshape(len(words), *[1] * values.ndim))


def table_of(graph: Graph, node: Node) -> np.ndarray | None:
    """Return int8[256]: what an operator makes of each value of its input; None for other operators."""
    if changes_alike(graph, node):
        return changed(graph, node, BYTES)
    words = graph.constants.get(node.inputs[1]) if node.op == "Int8Requantise" else None
    if words is not None and words.size == len(words):
        return requantise(BYTES, words.reshape(-1, 1))
    table = graph.constants.get(node.inputs[1]) if node.op == "Int8Lookup" else None
    return table if table is not None and table.dtype == np.int8 else None


def _factor(graph: Graph, node: Node) -> int | None:
    """Return the number that multiplies all elements; None where there is no such number."""
    if node.op not in ("Int8Conv", "Int8MatMul"):
        return None
    weights, words = (graph.constants.get(name) for name in node.inputs[1:])
    if weights is None or words is None or not bool((words == words[:, :1]).all()):
        return None
    factors = _diagonal(weights) if node.op == "Int8MatMul" else _pointwise(graph, node, weights)
    if factors is None or not bool((factors == factors[0]).all()):
        return None
    return int(factors[0])


def _diagonal(weights: np.ndarray) -> np.ndarray | None:
    """Return the diagonal of a matrix; None where something stands beside it."""
    diagonal = np.diagonal(weights)
    square = weights.shape[0] == weights.shape[1]
    return diagonal if square and np.count_nonzero(weights) == np.count_nonzero(diagonal) else None


def _pointwise(graph: Graph, node: Node, weights: np.ndarray) -> np.ndarray | None:
    """Return the factor of each channel; None where a convolution sums several elements or leaves some
    out."""
    channels = graph.types[node.inputs[0]].shape[1]
    alone = node.integer("group") == channels and weights.shape == (channels, 1, 1, 1)
    moves = any(node.extents("pads")) or set(node.extents("strides")) != {1}
    return weights.reshape(-1) if alone and not moves else None
