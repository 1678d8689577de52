"""Layers that stay in float so that the outputs of a quantised network keep enough signal to noise.

Layers are taken in the order of what each costs alone, the most first; of the beginnings of that order, the
shortest that reaches the target is looked for by halving. Of these layers, the largest then become int8 again
where the target is reached without them. Scales stay as they are.
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

ORDERING_RUNS = 96  # of the network, that finding the order may take, if it has fewer products
MOST_RETURNED = 12  # layers that are tried in int8 again
NAMED = 3  # layers that a summary blames

Progress = Callable[[str], None]


class Assessed(Protocol):
    """A quantised network that was compared with its float network."""

    @property
    def graph(self) -> Graph:
        """With conversions."""

    @property
    def roles(self) -> Roles:
        """The parts of its nodes."""

    @property
    def grids(self) -> Mapping[str, Grid]:
        """The grids of its tensors."""

    @property
    def assessment(self) -> Assessment:
        """How far it is from the float network."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A quantised network with more layers in float.

    Attributes:
        graph: with conversions.
        roles: of its nodes.
        assessment: how far it is from the float network.
        layers: those that were put into float.
    """

    graph: Graph
    roles: Roles
    assessment: Assessment
    layers: tuple[Contribution, ...]

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of the layers that were put into float."""
        return tuple(one.layer for one in self.layers)


def repaired(candidate: Assessed, judge: Judge, target_db: float, progress: Progress) -> Repair | None:
    """Return a network whose outputs have so much signal to noise, with few layers in float; None where all
    have it."""
    if candidate.assessment.reaches(target_db):
        return None
    progress("quantise: what each layer costs")
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
    return best and _fewer(candidate, judge, best, target_db, progress)


def _fewer(candidate: Assessed, judge: Judge, found: Repair, target_db: float, progress: Progress) -> Repair:
    """Return a network in which the largest layers are int8 again where that reaches the target."""
    largest = sorted(found.layers, key=lambda one: -one.macs)[:MOST_RETURNED]
    for number, layer in enumerate(largest if len(found.layers) > 1 else (), 1):
        progress(f"quantise: {number} of {len(largest)} layers in int8 again")
        tried = _with_float(candidate, judge, [one for one in found.layers if one is not layer])
        found = tried if tried.assessment.reaches(target_db) else found
    return found


def costly_names(candidate: Assessed, judge: Judge) -> tuple[str, ...]:
    """Return the names of the layers that cost most."""
    return tuple(one.layer for one in contributions(candidate, judge.samples, ORDERING_RUNS)[:NAMED])


def _with_float(candidate: Assessed, judge: Judge, layers: Sequence[Contribution]) -> Repair:
    """Return a network with these layers in float, too."""
    roles = candidate.roles
    grids = {name: candidate.grids[leader] for name, leader in roles.leaders.items()}
    fewer = Roles(roles.graph, roles.in_float | {one.result for one in layers})
    graph = with_grids(fewer, grids)
    return Repair(graph, fewer, judge.assess(graph), tuple(layers))
