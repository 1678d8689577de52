"""Which layers cost accuracy: the error of what leaves the network where one layer computes with integers."""

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
NAMED = 5  # layers that an error message offers
LEAST_SHARE = 0.01  # of all errors, that a layer must cause to stay in float


class Candidate(Protocol):
    """A quantised network whose layers are looked at."""

    @property
    def roles(self) -> Roles:
        """The parts of its nodes."""

    @property
    def grids(self) -> Mapping[str, Grid]:
        """The grids of its tensors."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a layer costs.

    Attributes:
        layer: the name of the product.
        result: its result in the float graph.
        macs: its multiply-accumulates.
        error: of what leaves the network, as `Judge.error` says it, if this layer alone is quantised.
    """

    layer: str
    result: str
    macs: int
    error: float


def contributions(
    candidate: Candidate, samples: Sequence[Mapping[str, np.ndarray]], most_runs: int | None = None
) -> tuple[Contribution, ...]:
    """Return what each product with integers costs, those of two activations included, the most first.

    Args:
        most_runs: how many runs of the network it may take, but for one for each product; None: as many as
            the work of a judge allows.
    """
    roles = candidate.roles
    grids = {name: candidate.grids[leader] for name, leader in roles.leaders.items()}
    products = roles.products | roles.pairs
    judge = Judge(roles.graph, samples, max(1, len(products)))
    count = None if most_runs is None else max(1, most_runs // max(1, len(products)))
    every = frozenset(node.outputs[0] for node in roles.graph.nodes)
    found = []
    for node in roles.graph.nodes:
        if node.outputs[0] in products:
            own = {each.outputs[0] for each in roles.product_of(node)}
            alone = Roles(roles.graph, every - own)
            error = judge.assess(with_grids(alone, grids), count).error
            layer = node.name or node.outputs[0]
            found.append(Contribution(layer, node.outputs[0], macs(roles.graph, node), error))
    return tuple(sorted(found, key=lambda one: -one.error))


def costly_layers(
    candidate: Candidate, samples: Sequence[Mapping[str, np.ndarray]], share: float
) -> frozenset[str]:
    """Return the results of the layers to keep in float: those with the most error for their
    multiply-accumulates.

    Args:
        share: percent of all multiply-accumulates that they may have.
    """
    graph = candidate.roles.graph
    found = contributions(candidate, samples)
    room = share / PERCENT * sum(macs(graph, node) for node in graph.nodes)
    least = LEAST_SHARE * sum(one.error for one in found)
    chosen = set()
    for one in sorted(found, key=lambda one: -one.error / max(one.macs, 1)):
        if one.error >= least and one.macs <= room:
            chosen.add(one.result)
            room -= one.macs
    return frozenset(chosen)


def layers_named(graph: Graph, names: Sequence[str]) -> frozenset[str]:
    """Return the results of the nodes with these names, or with results of these names.

    Raises:
        GraphError: there is no such node.
    """
    known = {node.outputs[0]: node.outputs[0] for node in graph.nodes}
    known |= {node.name: node.outputs[0] for node in graph.nodes if node.name}
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, NAMED, 0) or sorted(known)[:NAMED]
            raise GraphError(
                f"{graph.name} has no layer {name}, which was to stay in float; the nearest names are "
                f"{', '.join(near)}"
            )
    return frozenset(known[name] for name in names)
