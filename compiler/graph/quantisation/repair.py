"""Choice of the layers that stay in float so that all outputs reach a signal-to-noise ratio.

Layers are sorted by the error that each causes alone, in descending order. A binary search finds the shortest
prefix of that order that reaches the target. The largest of these layers then become int8 again if the target
is reached without them. Scales do not change.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.quantisation.grids import Grid
from vdla.compiler.graph.quantisation.insert import with_grids
from vdla.compiler.graph.quantisation.judge import Assessment, Judge
from vdla.compiler.graph.quantisation.roles import Roles
from vdla.compiler.graph.quantisation.sensitivity import Contribution, contributions

ORDERING_RUNS = 96  # budget for sorting the layers, in runs of the network; at least 1 for each product
MOST_RETURNED = 12  # layers to try in int8 again
NAMED = 3  # costliest layers that a summary names

Progress = Callable[[str], None]


class Assessed(Protocol):
    """A quantised network that was compared with its float network."""

    @property
    def graph(self) -> Graph:
        """The quantised graph, with conversions."""

    @property
    def roles(self) -> Roles:
        """The roles of the nodes of the float graph."""

    @property
    def grids(self) -> Mapping[str, Grid]:
        """The grid of each leader of int8 values; see `Roles.leaders`."""

    @property
    def assessment(self) -> Assessment:
        """The comparison with the float network."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A quantised network with more layers in float.

    Attributes:
        graph: the quantised graph, with conversions.
        roles: the roles of the nodes of the float graph.
        assessment: the comparison with the float network.
        layers: the additional layers in float.
    """

    graph: Graph
    roles: Roles
    assessment: Assessment
    layers: tuple[Contribution, ...]

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of the additional layers in float."""
        return tuple(layer.layer for layer in self.layers)


def repaired(candidate: Assessed, judge: Judge, target_db: float, progress: Progress) -> Repair | None:
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
        if tried.assessment.reaches(target_db):
            best, high = tried, count - 1
        else:
            low = count + 1
    return best and _with_fewer_float_layers(candidate, judge, best, target_db, progress)


def _with_fewer_float_layers(
    candidate: Assessed, judge: Judge, repair: Repair, target_db: float, progress: Progress
) -> Repair:
    """Return a repair in which the largest layers are int8 again if the target is reached without them."""
    largest = sorted(repair.layers, key=lambda layer: -layer.macs)[:MOST_RETURNED]
    for number, returned in enumerate(largest if len(repair.layers) > 1 else (), 1):
        progress(f"quantise: {number} of {len(largest)} layers in int8 again")
        tried = _with_float(candidate, judge, [layer for layer in repair.layers if layer is not returned])
        repair = tried if tried.assessment.reaches(target_db) else repair
    return repair


def costly_names(candidate: Assessed, judge: Judge) -> tuple[str, ...]:
    """Return the names of the `NAMED` layers that cause the most error."""
    return tuple(layer.layer for layer in contributions(candidate, judge.samples, ORDERING_RUNS)[:NAMED])


def _with_float(candidate: Assessed, judge: Judge, layers: Sequence[Contribution]) -> Repair:
    """Return the candidate with `layers` in float, too."""
    roles = candidate.roles
    grids = {name: candidate.grids[leader] for name, leader in roles.leaders.items()}
    fewer = Roles(roles.graph, roles.in_float | {layer.result for layer in layers})
    graph = with_grids(fewer, grids)
    return Repair(graph, fewer, judge.assess(graph), tuple(layers))
