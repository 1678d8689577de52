"""The passes over graphs of integer operators that know the target."""

from collections.abc import Callable
from dataclasses import dataclass

from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.passes.tabulate import Tabulate
from vdla.compiler.graph.pipeline import Pipeline
from vdla.compiler.network.borders import with_explicit_pads
from vdla.compiler.network.channel_order import reordered_channels
from vdla.compiler.network.eight_bits import in_eight_bits
from vdla.compiler.network.offload import operators_of
from vdla.compiler.network.phases import phases_as_channels
from vdla.compiler.network.slices import with_slices
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension


@dataclass(frozen=True, slots=True)
class TargetPass:
    """A pass with its target.

    Attributes:
        name: name of the pass.
        change: returns an equivalent graph for the target.
    """

    name: str
    change: Callable[[Graph, Target], Graph]
    target: Target

    def run(self, graph: Graph) -> Graph:
        """Return the changed graph."""
        return self.change(graph, self.target)


def _chains_as_tables(graph: Graph, target: Target) -> Graph:
    """Replace chains of elementwise operators by a table each, if the target has tables."""
    return Tabulate(chains=True).run(graph) if target.config.has(Extension.TABLE) else graph


PASSES: tuple[tuple[str, Callable[[Graph, Target], Graph]], ...] = (
    ("chains_as_tables", _chains_as_tables),
    ("phases_as_channels", phases_as_channels),
    ("pad_before_convolutions", lambda graph, target: with_explicit_pads(graph, target.config)),
    ("products_in_eight_bits", in_eight_bits),
    (
        "arrange_channels",
        lambda graph, target: reordered_channels(graph, target.config, operators_of(target.config)),
    ),
    ("slice_splits", lambda graph, target: with_slices(graph, target.config)),
)


def target_passes(target: Target) -> Pipeline:
    """Return the passes for a target, in order."""
    return Pipeline(tuple(TargetPass(name, change, target) for name, change in PASSES))
