"""Quantised weights (integers per output channel, symmetric) and biases (int32 at the scale of the sums).

Source: Jacob et al., CVPR 2018, section 2; Krishnamoorthi, 2018, section 3.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.integers import LARGEST_BIAS
from vdla.compiler.graph.nodes import Graph, Node, Values

LARGEST_INT8 = 127

WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators that sum products of a tensor with weights."""


@dataclass(frozen=True, slots=True)
class Integers:
    """Quantised constants.

    Attributes:
        values: the stored integers, int8 or int32.
        scale: float32, a scalar or a number for each index of `axis`.
        axis: the dimension that scales vary along.
    """

    values: np.ndarray
    scale: np.ndarray
    axis: int


def quantised_product(
    graph: Graph, node: Node, input_scale: np.ndarray | np.float32, chosen: Integers | None = None
) -> tuple[Integers, Integers | None]:
    """Return the quantised weights and bias of a product; the bias is None if the product has none.

    Args:
        input_scale: scale of the product's first input.
        chosen: weights to use; None: int8, with the scales that reach the greatest weights. They are rounded
            again where the bias needs a larger scale.
    """
    weights, axis, bias = product_parts(graph, node)
    reduced_axes = tuple(dimension for dimension in range(weights.ndim) if dimension != axis)
    scale = scale_for(np.abs(weights).max(axis=reduced_axes)) if chosen is None else chosen.scale
    if bias is None:
        return chosen or rounded(weights, scale, axis), None
    by_group = np.abs(bias).reshape(-1, len(scale)).max(axis=0)
    least = (by_group / (np.float64(input_scale) * LARGEST_BIAS)).astype(np.float32)
    if chosen is None or (least > scale).any():
        largest = LARGEST_INT8 if chosen is None else int(np.abs(chosen.values).max(initial=1))
        scale = np.maximum(scale, least)
        chosen = rounded(weights, scale, axis, largest)
    sums_scale = np.tile(input_scale * scale, len(bias) // len(scale))
    return chosen, Integers(np.rint(bias / sums_scale.astype(np.float64)).astype(np.int32), sums_scale, 0)


def outputs_axis(node: Node) -> int:
    """Return the dimension of the output channels in the weights of an operator of `WEIGHTED`."""
    return 0 if node.op == "Conv" or node.attributes.get("transB") else 1


def product_parts(graph: Values, node: Node) -> tuple[np.ndarray, int, np.ndarray | None]:
    """Return weights, the dimension of their output channels, and the bias [M] or None.

    The factors alpha and beta of a Gemm are multiplied in.
    """
    weights, axis = graph.constants[node.inputs[1]], outputs_axis(node)
    name = node.inputs[2] if len(node.inputs) > 2 else ""
    bias = graph.constants[name] if name else None
    if node.op != "Gemm":
        return weights, axis, bias
    weights = weights * np.float32(node.real("alpha"))
    if bias is not None:
        bias = np.broadcast_to(bias.ravel(), weights.shape[axis : axis + 1]) * np.float32(node.real("beta"))
    return weights, axis, bias


def without_factors(node: Node) -> Node:
    """Return a product with alpha and beta of a Gemm set to 1, as `product_parts` multiplies them in."""
    return (
        replace(node, attributes={**node.attributes, "alpha": 1.0, "beta": 1.0})
        if node.op == "Gemm"
        else node
    )


def is_quantisable_product(graph: Values, node: Node) -> bool:
    """Whether a product has constant weights and bias, and a single dimension of output channels."""
    if (
        any(name and name not in graph.constants for name in node.inputs[1:])
        or node.inputs[0] in graph.constants
    ):
        return False
    match node.op:
        case "Conv" | "ConvTranspose":
            return True
        case "MatMul":
            return graph.constants[node.inputs[1]].ndim == 2
        case "Gemm":
            columns = graph.constants[node.inputs[1]].shape[outputs_axis(node)]
            return not node.attributes["transA"] and _is_row(graph.constants, node, columns)
    return False


def scale_for(magnitude: np.ndarray | float) -> np.ndarray:
    """Return the scales with which int8 reaches the magnitudes; 1 / 127 for a magnitude of 0."""
    magnitude = np.asarray(magnitude, np.float32)
    return np.where(magnitude > np.finfo(np.float32).tiny * LARGEST_INT8, magnitude, 1) / np.float32(
        LARGEST_INT8
    )


def _is_row(constants: Mapping[str, np.ndarray], node: Node, columns: int) -> bool:
    """Whether a Gemm adds the same bias to all rows."""
    name = node.inputs[2] if len(node.inputs) > 2 else ""
    return not name or constants[name].size == 1 or constants[name].shape in ((columns,), (1, columns))


def rounded(array: np.ndarray, scale: np.ndarray, axis: int, largest: int = LARGEST_INT8) -> Integers:
    """Return weights as multiples of the scales along `axis`, at most `largest` in magnitude."""
    along = (
        scale.reshape([-1 if dimension == axis else 1 for dimension in range(array.ndim)])
        if scale.ndim
        else scale
    )
    return Integers(np.clip(np.rint(array / along), -largest, largest).astype(np.int8), scale, axis)
