"""Bias correction: the mean error that rounding leaves in each output channel of a product is taken from
its bias.

The mean is a property of the network only as far as it is the same on all samples. So it is made smaller by
what the samples differ in, and one sample corrects nothing.

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


class Site(NamedTuple):
    """A product in both graphs.

    Attributes:
        node: in the float graph.
        real, again: its input in the quantised graph before and behind its int8 form.
        weights: in the quantised graph, behind their int8 form.
    """

    node: Node
    real: str
    again: str
    weights: str


def corrected(roles: Roles, quantised: Graph, samples: Sequence[Mapping[str, np.ndarray]]) -> Graph:
    """Return the float graph with biases less the mean errors of the quantised graph; the same graph where
    there are too few samples.

    Args:
        quantised: made of the float graph of `roles`.
    """
    if len(samples) < LEAST_SAMPLES:
        return roles.graph
    sites, found = list(_sites(roles, quantised)), dict[str, list[np.ndarray]]()
    names = {name for site in sites for name in site[1:]}
    for sample in samples:
        seen: dict[str, np.ndarray] = {}

        def watch(_: Node, made: Mapping[str, np.ndarray], seen: dict[str, np.ndarray] = seen) -> None:
            seen.update((name, made[name]) for name in made.keys() & names)

        interpret(quantised, sample, watch)
        seen |= {name: array for name, array in sample.items() if name in names}
        for site in sites:
            error = _mean_error(roles.graph, site, seen)
            found.setdefault(site.node.outputs[0], []).append(error)
    return _changed(roles, {name: _common(np.stack(errors)) for name, errors in found.items()})


def _sites(roles: Roles, quantised: Graph) -> Iterator[Site]:
    """Yield the products whose bias can be changed; both graphs have their products in one order."""
    ours, theirs = (
        [node for node in graph.nodes if node.op in PRODUCTS] for graph in (roles.graph, quantised)
    )
    makers = producers(quantised)
    for node, other in zip(ours, theirs, strict=True):
        biased = node.op in ("Conv", "Gemm") or any(
            each.outputs[0] in roles.biases for each in roles.readers[node.outputs[0]]
        )
        if node.outputs[0] in roles.products and biased and node.op != "ConvTranspose":
            back = makers[other.inputs[0]]
            yield Site(node, makers[back.inputs[0]].inputs[0], other.inputs[0], other.inputs[1])


def _mean_error(graph: Graph, site: Site, seen: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the mean error of each output channel, float64[outputs], without what borders change."""
    axis = 1 if site.node.op == "Conv" else seen[site.real].ndim - 1
    others = tuple(place for place in range(seen[site.real].ndim) if place != axis)
    before, after = (seen[name].mean(others, dtype=np.float64) for name in (site.real, site.again))
    weights, outputs, _ = product_parts(graph, site.node)
    found = _means(site.node, seen[site.weights], outputs, after)
    error: np.ndarray = found - _means(site.node, weights, outputs, before)
    return error


def _means(node: Node, weights: np.ndarray, outputs: int, inputs: np.ndarray) -> np.ndarray:
    """Return the means of a product's results, float64[outputs], from those of its input channels."""
    rows = np.moveaxis(weights.astype(np.float64), outputs, 0)
    rows = rows.reshape(*rows.shape[:2], -1).sum(2)
    groups = node.integer("group") if node.op == "Conv" else 1
    parts = zip(np.split(rows, groups), np.split(inputs, groups), strict=True)
    return np.concatenate([part @ means for part, means in parts])


def _common(errors: np.ndarray) -> np.ndarray:
    """Return the part of float64[samples, channels] errors that all samples have in common."""
    mean: np.ndarray = errors.mean(0)
    noise, power = errors.var(0, ddof=1) / len(errors), np.square(mean)
    common: np.ndarray = mean * np.maximum(0, 1 - noise / np.where(power > 0, power, 1))
    return common


def _changed(roles: Roles, errors: Mapping[str, np.ndarray]) -> Graph:
    """Return the float graph with biases less the errors."""
    made = GraphBuilder(roles.graph)
    for node in roles.graph.nodes:
        product = next((name for name in node.inputs if name in errors), "")
        if node.outputs[0] in roles.biases and product:
            place = [name in roles.graph.constants for name in node.inputs].index(True)
            node = _less(made, node, place, errors[product])
        elif node.outputs[0] in errors and node.op in ("Conv", "Gemm"):
            node = _less(made, node, 2, errors[node.outputs[0]] / (node.real("beta", 1) or 1))
        made.nodes.append(node)
    return made.finished()


def _less(made: GraphBuilder, node: Node, place: int, error: np.ndarray) -> Node:
    """Return a node whose constant at a place is less by an error; one that is not there is 0."""
    name = node.inputs[place] if place < len(node.inputs) else ""
    before = made.graph.constants[name].astype(np.float64) if name else np.zeros(len(error))
    own = made.constant(f"{name or node.outputs[0]}_corrected", (before - error).astype(np.float32))
    inputs = [*node.inputs, *[""] * (place + 1 - len(node.inputs))]
    inputs[place] = own
    return replace(node, inputs=tuple(inputs))
