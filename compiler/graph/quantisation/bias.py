"""Bias correction: subtracts the mean rounding error of each output channel of a product from its bias.

Only an error common to all samples is a property of the network. The mean is therefore shrunk by its variance
over the samples, and a single sample corrects nothing.

Source: Nagel et al., Data-free quantization through weight equalization and bias correction, ICCV 2019,
section 4.2.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph, Node, producers
from vdla.compiler.graph.quantisation.roles import PRODUCTS, Roles
from vdla.compiler.graph.quantise_weights import product_parts
from vdla.compiler.graph.rewrite import GraphBuilder

LEAST_SAMPLES = 2


class BiasedProduct(NamedTuple):
    """A product with a bias, in the float graph and in the quantised graph.

    Attributes:
        node: the product in the float graph.
        real: its input in the quantised graph, before quantisation.
        again: its input in the quantised graph, after dequantisation.
        weights: its weights in the quantised graph, after dequantisation.
    """

    node: Node
    real: str
    again: str
    weights: str


def with_corrected_biases(
    roles: Roles, quantised: Graph, samples: Sequence[Mapping[str, np.ndarray]]
) -> Graph:
    """Return the float graph with the mean errors of the quantised graph subtracted from its biases.

    The float graph is returned unchanged if there are fewer than `LEAST_SAMPLES` samples.

    Args:
        roles: the roles of the float graph.
        quantised: the quantised form of that graph.
        samples: inputs of the graphs.
    """
    if len(samples) < LEAST_SAMPLES:
        return roles.graph
    products, errors = list(_products(roles, quantised)), dict[str, list[np.ndarray]]()
    names = {name for product in products for name in product[1:]}
    for sample in samples:
        seen: dict[str, np.ndarray] = {}

        def watch(_: Node, results: Mapping[str, np.ndarray], seen: dict[str, np.ndarray] = seen) -> None:
            seen.update((name, results[name]) for name in results.keys() & names)

        interpret(quantised, sample, watch)
        seen |= sample
        for product in products:
            error = _mean_error(roles.graph, product, seen)
            errors.setdefault(product.node.result, []).append(error)
    return _with_biases_less(
        roles, {name: _common_error(np.stack(arrays)) for name, arrays in errors.items()}
    )


def _products(roles: Roles, quantised: Graph) -> Iterator[BiasedProduct]:
    """Yield the products whose bias can be corrected; both graphs have their products in the same order."""
    ours, theirs = (
        [node for node in graph.nodes if node.op in PRODUCTS] for graph in (roles.graph, quantised)
    )
    makers = producers(quantised)
    for node, other in zip(ours, theirs, strict=True):
        biased = node.op in ("Conv", "Gemm") or any(
            each.result in roles.biases for each in roles.readers[node.result]
        )
        if node.result in roles.products and biased and node.op != "ConvTranspose":
            back = makers[other.inputs[0]]
            yield BiasedProduct(node, makers[back.inputs[0]].inputs[0], other.inputs[0], other.inputs[1])


def _mean_error(graph: Graph, product: BiasedProduct, seen: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the mean error of each output channel, float64[outputs], ignoring the effect of padding."""
    axis = 1 if product.node.op == "Conv" else seen[product.real].ndim - 1
    others = tuple(place for place in range(seen[product.real].ndim) if place != axis)
    before, after = (seen[name].mean(others, dtype=np.float64) for name in (product.real, product.again))
    weights, outputs, _ = product_parts(graph, product.node)
    quantised = _means(product.node, seen[product.weights], outputs, after)
    error: np.ndarray = quantised - _means(product.node, weights, outputs, before)
    return error


def _means(node: Node, weights: np.ndarray, outputs: int, inputs: np.ndarray) -> np.ndarray:
    """Return the means of a product's output channels, float64[outputs], from the means of its inputs."""
    rows = np.moveaxis(weights.astype(np.float64), outputs, 0)
    rows = rows.reshape(*rows.shape[:2], -1).sum(2)
    groups = node.integer("group") if node.op == "Conv" else 1
    parts = zip(np.split(rows, groups), np.split(inputs, groups), strict=True)
    return np.concatenate([part @ means for part, means in parts])


def _common_error(errors: np.ndarray) -> np.ndarray:
    """Return float64[channels]: the part of errors float64[samples, channels] common to all samples."""
    mean: np.ndarray = errors.mean(0)
    noise, power = errors.var(0, ddof=1) / len(errors), np.square(mean)
    common: np.ndarray = mean * np.maximum(0, 1 - noise / np.where(power > 0, power, 1))
    return common


def _with_biases_less(roles: Roles, errors: Mapping[str, np.ndarray]) -> Graph:
    """Return the float graph with the errors subtracted from the biases."""
    builder = GraphBuilder(roles.graph)
    for node in roles.graph.nodes:
        product = next((name for name in node.inputs if name in errors), "")
        if node.result in roles.biases and product:
            place = [name in roles.graph.constants for name in node.inputs].index(True)
            node = _subtract_from_constant(builder, node, place, errors[product])
        elif node.result in errors and node.op in ("Conv", "Gemm"):
            node = _subtract_from_constant(
                builder, node, 2, errors[node.result] / (node.real("beta", 1) or 1)
            )
        builder.nodes.append(node)
    return builder.finished()


def _subtract_from_constant(builder: GraphBuilder, node: Node, place: int, error: np.ndarray) -> Node:
    """Return a node with an error subtracted from its constant at `place`; a missing bias counts as 0."""
    name = node.inputs[place] if place < len(node.inputs) else ""
    bias = builder.graph.constants[name].astype(np.float64) if name else np.zeros(len(error))
    inputs = [*node.inputs, *[""] * (place + 1 - len(node.inputs))]
    inputs[place] = builder.constant(f"{name or node.result}_corrected", (bias - error).astype(np.float32))
    return replace(node, inputs=tuple(inputs))
