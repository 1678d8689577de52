"""Sensitivity of a network to its layers: the error of the outputs if a single layer computes with
integers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

import numpy as np

from vdla.compiler.graph.macs import macs
from vdla.compiler.graph.nodes import Graph, GraphError
from vdla.compiler.graph.quantisation.grids import Grid
from vdla.compiler.graph.quantisation.insert import with_grids
from vdla.compiler.graph.quantisation.judge import Judge
from vdla.compiler.graph.quantisation.roles import Roles

PERCENT = 100
NAMED = 5  # layers that an error message suggests
LEAST_SHARE = 0.01  # a layer must cause at least this share of all errors to stay in float


class Candidate(Protocol):
    """A quantised network."""

    @property
    def roles(self) -> Roles:
        """The roles of the nodes of the float graph."""

    @property
    def grids(self) -> Mapping[str, Grid]:
        """The grid of each leader of int8 values; see `Roles.leaders`."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """The error that a layer causes.

    Attributes:
        layer: the name of the product.
        result: its result in the float graph.
        macs: its multiply-accumulates.
        error: `Assessment.error` if this layer alone is quantised.
    """

    layer: str
    result: str
    macs: int
    error: float


def contributions(
    candidate: Candidate, samples: Sequence[Mapping[str, np.ndarray]], most_runs: int | None = None
) -> tuple[Contribution, ...]:
    """Return the contribution of each integer product, those of two activations included, by descending
    error.

    Args:
        candidate: the quantised network.
        samples: inputs to compare on. most_runs: the largest number of runs of the network, but at least a
        run for each product; None: as many as the budget of a judge allows.
    """
    roles = candidate.roles
    grids = {name: candidate.grids[leader] for name, leader in roles.leaders.items()}
    products = roles.products | roles.pairs
    judge = Judge(roles.graph, samples, max(1, len(products)))
    count = None if most_runs is None else max(1, most_runs // max(1, len(products)))
    every = frozenset(node.result for node in roles.graph.nodes)
    layers = []
    for node in roles.graph.nodes:
        if node.result in products:
            chain = {each.result for each in roles.fused_chain(node)}
            alone = Roles(roles.graph, every - chain)
            error = judge.assess(with_grids(alone, grids), count).error
            name = node.name or node.result
            layers.append(Contribution(name, node.result, macs(roles.graph, node), error))
    return tuple(sorted(layers, key=lambda layer: -layer.error))


def costly_layers(
    candidate: Candidate, samples: Sequence[Mapping[str, np.ndarray]], share: float
) -> frozenset[str]:
    """Return the results of the layers to keep in float: the layers with the most error per
    multiply-accumulate.

    Args:
        candidate: the quantised network.
        samples: inputs to compare on.
        share: the largest share of the network's multiply-accumulates to keep in float, in percent.
    """
    graph = candidate.roles.graph
    layers = contributions(candidate, samples)
    room = share / PERCENT * sum(macs(graph, node) for node in graph.nodes)
    least = LEAST_SHARE * sum(layer.error for layer in layers)
    chosen = set()
    for layer in sorted(layers, key=lambda layer: -layer.error / max(layer.macs, 1)):
        if layer.error >= least and layer.macs <= room:
            chosen.add(layer.result)
            room -= layer.macs
    return frozenset(chosen)


def layers_named(graph: Graph, names: Sequence[str]) -> frozenset[str]:
    """Return the first outputs of the nodes that `names` selects by node name or by first output.

    Raises:
        GraphError: a name selects no node.
    """
    known = {node.result: node.result for node in graph.nodes}
    known |= {node.name: node.result for node in graph.nodes if node.name}
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, NAMED, 0) or sorted(known)[:NAMED]
            raise GraphError(
                f"{graph.name} has no layer {name}, which was to stay in float; the nearest names are "
                f"{', '.join(near)}"
            )
    return frozenset(known[name] for name in names)
