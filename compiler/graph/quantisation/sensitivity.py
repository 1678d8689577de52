"""Sensitivity of a network to its layers, and the layers that stay in float for it.

The sensitivity to a layer is the error of the outputs if that layer alone computes with integers. A repair
keeps layers in float so that all outputs reach a signal-to-noise ratio. Layers are sorted by the error that
each causes alone, in descending order. A binary search finds the shortest prefix of that order that reaches
the target. The largest of these layers then become int8 again if the target is reached without them. Scales
do not change.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

import numpy as np

from vdla.compiler.graph.macs import macs
from vdla.compiler.graph.nodes import Graph, GraphError, Node
from vdla.compiler.graph.quantisation.grids import Grid
from vdla.compiler.graph.quantisation.insert import with_grids
from vdla.compiler.graph.quantisation.judge import Assessment, Judge
from vdla.compiler.graph.quantisation.roles import Roles

PERCENT = 100
NAMED = 5  # layers that an error message suggests
LEAST_SHARE = 0.01  # a layer must cause at least this share of all errors to stay in float
ORDERING_RUNS = 96  # budget for sorting the layers, in runs of the network; at least 1 for each product
MOST_RETURNED = 12  # layers to try in int8 again
COSTLIEST = 3  # layers that a summary names

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A quantised network that was compared with its float network.

    Attributes:
        graph: the quantised graph, with QuantizeLinear and DequantizeLinear.
        roles: the roles of the nodes of the float graph; its values have the same names as in `graph`.
        grids: the grid of each leader of int8 values; see `Roles.leaders`.
        criterion: the criterion that chose the ranges of its tensors.
        assessment: the comparison on all samples of the judge, or on the first few.
    """

    graph: Graph
    roles: Roles
    grids: Mapping[str, Grid]
    criterion: str
    assessment: Assessment


@dataclass(frozen=True, slots=True)
class Contribution:
    """The error that a layer causes.

    Attributes:
        layer: the name of the product.
        results: the results in the float graph: of the product, or of all its steps.
        macs: its multiply-accumulates.
        error: `Assessment.error` if this layer alone is quantised.
    """

    layer: str
    results: tuple[str, ...]
    macs: int
    error: float


def contributions(
    candidate: Candidate, samples: Sequence[Mapping[str, np.ndarray]], most_runs: int | None = None
) -> tuple[Contribution, ...]:
    """Return the contribution of each integer product, including products of two activations, by
    descending error. All steps of a product are one layer.

    Args:
        candidate: the quantised network.
        samples: inputs to compare on. most_runs: the largest number of runs of the network, but at least a
        run for each product; None: as many as the budget of a judge allows.
    """
    roles = candidate.roles
    grids = {name: candidate.grids[leader] for name, leader in roles.leaders.items()}
    products: dict[str, list[Node]] = {}
    for node in roles.graph.nodes:
        if node.result in roles.products or node.result in roles.pairs:
            products.setdefault(node.step_of or node.result, []).append(node)
    judge = Judge(roles.graph, samples, max(1, len(products)))
    count = None if most_runs is None else max(1, most_runs // max(1, len(products)))
    every = frozenset(node.result for node in roles.graph.nodes)
    layers = []
    for steps in products.values():
        chain = {each.result for node in steps for each in roles.fused_chain(node)}
        error = judge.assess(with_grids(roles.changed(in_float=every - chain), grids), count).error
        results, total = tuple(node.result for node in steps), sum(macs(roles.graph, node) for node in steps)
        layers.append(Contribution(steps[0].layer, results, total, error))
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
    chosen = set[str]()
    for layer in sorted(layers, key=lambda layer: -layer.error / max(layer.macs, 1)):
        if layer.error >= least and layer.macs <= room:
            chosen.update(layer.results)
            room -= layer.macs
    return frozenset(chosen)


def layers_named(graph: Graph, names: Sequence[str]) -> frozenset[str]:
    """Return the first outputs of the nodes that `names` selects by node name, operation or first output.

    The name of a node that was unrolled selects all steps of its operations, which begin with that name.

    Raises:
        GraphError: a name selects no node.
    """
    known: dict[str, set[str]] = {}
    for node in graph.nodes:
        unrolled = node.step_of.rsplit(".", 2)[0]
        for name in filter(None, (node.name, node.step_of, unrolled, node.result)):
            known.setdefault(name, set()).add(node.result)
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, NAMED, 0) or sorted(known)[:NAMED]
            raise GraphError(
                f"{graph.name} has no layer {name}, which was to stay in float; the nearest names are "
                f"{', '.join(near)}"
            )
    return frozenset(result for name in names for result in known[name])


# Repair


@dataclass(frozen=True, slots=True)
class Repair:
    """A quantised network with more layers in float.

    Attributes:
        candidate: the network.
        layers: the additional layers in float.
    """

    candidate: Candidate
    layers: tuple[Contribution, ...]

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of the additional layers in float."""
        return tuple(layer.layer for layer in self.layers)


def repaired(candidate: Candidate, judge: Judge, target_db: float, progress: Progress) -> Repair | None:
    """Return a network whose outputs all reach `target_db` decibels, with few layers in float.

    The result is None if the candidate already reaches the target, or if no number of layers does.
    """
    if candidate.assessment.reaches(target_db):
        return None
    progress("quantise: error of each layer")
    order = contributions(candidate, judge.samples, ORDERING_RUNS)
    best, low, high = None, 1, len(order)
    while low <= high:
        count = (low + high) // 2
        progress(f"quantise: {count} of {len(order)} layers in float")
        tried = _with_float(candidate, judge, order[:count])
        if tried.candidate.assessment.reaches(target_db):
            best, high = tried, count - 1
        else:
            low = count + 1
    return best and _with_fewer_float_layers(candidate, judge, best, target_db, progress)


def _with_fewer_float_layers(
    candidate: Candidate, judge: Judge, repair: Repair, target_db: float, progress: Progress
) -> Repair:
    """Return a repair in which the largest layers are int8 again if the target is reached without them."""
    largest = sorted(repair.layers, key=lambda layer: -layer.macs)[:MOST_RETURNED]
    for number, returned in enumerate(largest if len(repair.layers) > 1 else (), 1):
        progress(f"quantise: {number} of {len(largest)} layers in int8 again")
        tried = _with_float(candidate, judge, [layer for layer in repair.layers if layer is not returned])
        repair = tried if tried.candidate.assessment.reaches(target_db) else repair
    return repair


def costly_names(candidate: Candidate, judge: Judge) -> tuple[str, ...]:
    """Return the names of the `COSTLIEST` layers that cause the most error."""
    return tuple(layer.layer for layer in contributions(candidate, judge.samples, ORDERING_RUNS)[:COSTLIEST])


def _with_float(candidate: Candidate, judge: Judge, layers: Sequence[Contribution]) -> Repair:
    """Return the candidate with `layers` in float, too."""
    roles = candidate.roles
    grids = {name: candidate.grids[leader] for name, leader in roles.leaders.items()}
    in_float = roles.in_float.union(*(layer.results for layer in layers))
    fewer = roles.changed(in_float=in_float)
    graph = with_grids(fewer, grids)
    tried = replace(candidate, graph=graph, roles=fewer, assessment=judge.assess(graph))
    return Repair(tried, tuple(layers))
