"""Pipelines of graph passes: for every network, before quantisation, and to integer operators."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from vdla.compiler.graph.integer_forms.cures import GENERAL, Cures
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.passes.cleanup import CommonSubexpressions, ConstantFolding, DeadCode, RemoveIdentity
from vdla.compiler.graph.passes.heads_in_place import HeadsInPlace
from vdla.compiler.graph.passes.merge_moves import MergeMoves
from vdla.compiler.graph.passes.narrow_states import NarrowStates
from vdla.compiler.graph.passes.rows_to_images import RowsToImages
from vdla.compiler.graph.passes.signed_activations import SignedActivations
from vdla.compiler.graph.passes.tabulate import Tabulate
from vdla.compiler.graph.passes.to_integers import ToIntegers
from vdla.compiler.graph.rewrites.canonical import (
    CHOICES_TO_SUMS,
    FOLD_PADS,
    GATHERS_TO_MOVES,
    REDUCTIONS_TO_POOLS,
    SPLIT_SUMS,
)
from vdla.compiler.graph.rewrites.channel_scales import FOLD_CHANNEL_SCALES, SCALES_AFTER_PRODUCTS
from vdla.compiler.graph.rewrites.conversions import (
    CONVERT_AFTER_CHOICES,
    CONVERT_BEFORE_MAXIMA,
    DENSE_TO_CONVOLUTION,
    FUSE_CONVERSIONS,
    QUANTISE_OPERANDS,
    SPLIT_PRELU,
)
from vdla.compiler.graph.rewrites.normalisation import JOIN_PIECES, SLICE_BEFORE_ROWS
from vdla.compiler.graph.rewrites.quantised import (
    DEQUANTISE_CONSTANTS,
    EXPAND_INTEGERS,
    MOVE_INTEGERS,
    QUANTISE_CONSTANTS,
)
from vdla.compiler.graph.rules import Rules, Watcher
from vdla.compiler.graph.verify import verify


class Pass(Protocol):
    """A transformation of a graph into a graph that computes the same."""

    def run(self, graph: Graph) -> Graph:
        """Return the changed graph."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Observers of a pipeline while it runs.

    Attributes:
        watcher: observes which rules fire.
        begins, ended: called with the name of each pass, and the graph, before and after it.
        verifies: whether the graph is verified after each pass.
    """

    watcher: Watcher | None = None
    begins: Callable[[str, Graph], None] = lambda name, graph: None
    ended: Callable[[str, Graph], None] = lambda name, graph: None
    verifies: bool = False


SILENT = Trace()


def name_of(item: Pass) -> str:
    """Return the name of a pass, by default the name of its class in snake case."""
    name: str | None = getattr(item, "name", None)
    return name or re.sub(r"(?<!^)(?=[A-Z])", "_", type(item).__name__).lower()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Passes in the order in which they run; its `repr` is its source."""

    passes: tuple[Pass, ...]

    def run(self, graph: Graph, trace: Trace = SILENT) -> Graph:
        """Return `graph` after all passes.

        Raises:
            GraphError: the graph is ill-formed, before the first pass or after the last.
        """
        verify(graph)
        for item in self.passes:
            trace.begins(name_of(item), graph)
            graph = item.run(graph, trace.watcher) if isinstance(item, Rules) else item.run(graph)
            trace.ended(name_of(item), graph)
            if trace.verifies:
                verify(graph)
        verify(graph)
        return graph


# For every network. MergeMoves follows in FLOATS, after RowsToImages has added moves.
SIMPLIFY = Pipeline(
    (
        RemoveIdentity(),
        ConstantFolding(),
        CommonSubexpressions(),
        FOLD_PADS,
        JOIN_PIECES,
        CHOICES_TO_SUMS,
        REDUCTIONS_TO_POOLS,
        GATHERS_TO_MOVES,
        SLICE_BEFORE_ROWS,
        DeadCode(),
    )
)
# From the result of SIMPLIFY to the form that is quantised. Quantised networks of all tools come into QDQ
# form: float operators between conversions.
FLOATS = Pipeline(
    (
        EXPAND_INTEGERS,
        RemoveIdentity(),
        QUANTISE_CONSTANTS,
        DEQUANTISE_CONSTANTS,
        SPLIT_SUMS,
        RowsToImages(),
        MergeMoves(),
        SCALES_AFTER_PRODUCTS,
        FOLD_CHANNEL_SCALES,
    )
)


def integer_passes(cures: Cures = GENERAL) -> Pipeline:
    """Return the passes from the result of FLOATS, or of the quantiser, to integer operators.

    RemoveIdentity runs twice, because ToIntegers and Tabulate leave identities. Without the first run
    MergeMoves misses moves of ViT. Without the second, ViT has 4 operators more, and ConvNeXt 12.

    Args:
        cures: the cures in the reasons of operators that the host runs.
    """
    return Pipeline(
        (
            SignedActivations(),
            MOVE_INTEGERS,
            CONVERT_BEFORE_MAXIMA,
            SPLIT_PRELU,
            CONVERT_AFTER_CHOICES,
            QUANTISE_OPERANDS,
            ToIntegers(cures),
            RemoveIdentity(),
            MergeMoves(),
            DENSE_TO_CONVOLUTION,
            FUSE_CONVERSIONS,
            Tabulate(),
            RemoveIdentity(),
            NarrowStates(),
            HeadsInPlace(),
        )
    )


INTEGERS = integer_passes()
