"""Batch normalisation is folded into the weights and bias of the convolution or matrix product before it.

    (x w + b - mean) f + shift  =  x (w f) + (b - mean) f + shift,     f = scale / sqrt(var + epsilon) for
    each output channel

Source: Jacob et al., CVPR 2018, section 3.2.
"""

from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.nodes import Graph, Node, consumers, producers
from vdla.compiler.graph.rewrite import Rewriting


@dataclass(frozen=True, slots=True)
class FoldBatchNorm:
    """The pass; it folds where weights and statistics are constants and nothing else reads the sums."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with batch normalisation folded into Conv, ConvTranspose and Gemm."""
        readers, makers, made = consumers(graph), producers(graph), Rewriting(graph)
        folded: dict[str, Node] = {}
        for norm in graph.nodes:
            product = makers.get(norm.inputs[0]) if norm.op == "BatchNormalization" else None
            if product and _can_fold(graph, product, norm, readers):
                folded[product.outputs[0]] = _fold(made, product, norm)
        gone = {node.outputs[0] for node in folded.values()}
        made.nodes += (
            folded.get(node.outputs[0], node) for node in graph.nodes if node.outputs[0] not in gone
        )
        return made.finished()


def _can_fold(graph: Graph, product: Node, norm: Node, readers: dict[str, list[Node]]) -> bool:
    sums = product.outputs[0]
    alone = len(readers[sums]) == 1 and sums not in graph.outputs
    parameters = (*product.inputs[1:], *norm.inputs[1:])
    return (
        product.op in ("Conv", "ConvTranspose", "Gemm")
        and alone
        and all(name in graph.constants for name in parameters if name)
    )


def _fold(made: Rewriting, product: Node, norm: Node) -> Node:
    """Return the product that gives what `norm` would, with constants of its own."""
    graph = made.graph
    scale, shift, mean, var = (graph.constants[name].astype(np.float64) for name in norm.inputs[1:])
    factor = scale / np.sqrt(var + norm.real("epsilon"))
    weights = graph.constants[product.inputs[1]]
    bias = _bias(graph, product)
    new = {
        f"{norm.outputs[0]}_weight": weights * _along_outputs(product, factor, weights),
        f"{norm.outputs[0]}_bias": (bias - mean) * factor + shift,
    }
    names = [made.constant(wish, array.astype(weights.dtype)) for wish, array in new.items()]
    attributes = {**product.attributes, "beta": 1.0} if product.op == "Gemm" else product.attributes
    return replace(product, inputs=(product.inputs[0], *names), outputs=norm.outputs, attributes=attributes)


def _bias(graph: Graph, product: Node) -> np.ndarray:
    """Return what is added to the sums of each output channel, in float64; 0 where there is nothing."""
    name = product.inputs[2] if len(product.inputs) > 2 else ""
    if not name:
        return np.zeros(())
    bias: np.ndarray = graph.constants[name].astype(np.float64) * product.real("beta", 1.0)
    return bias


def _along_outputs(product: Node, factor: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Shape one factor for each output channel so that it broadcasts over the weights."""
    match product.op:
        case "Conv":
            return factor.reshape(-1, *[1] * (weights.ndim - 1))
        case (
            "ConvTranspose"
        ):  # [C, M/group, kernel...]: output channels go group by group, as do the first dimension's
            group, (channels, per_group) = product.integer("group"), weights.shape[:2]
            return np.repeat(factor.reshape(group, per_group), channels // group, axis=0).reshape(
                channels, per_group, *[1] * (weights.ndim - 2)
            )
    return factor[:, None] if product.attributes["transB"] else factor
