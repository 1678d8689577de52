"""Pipelines of passes: SIMPLIFY for every network, and INTEGERS to integer operators."""

from dataclasses import dataclass
from typing import Protocol

from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.passes.common_subexpressions import CommonSubexpressions
from vdla.compiler.graph.passes.constant_folding import ConstantFolding
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.passes.dense_to_conv import DenseToConv
from vdla.compiler.graph.passes.expand_integers import ExpandIntegers
from vdla.compiler.graph.passes.expand_qlinear import ExpandQLinear
from vdla.compiler.graph.passes.fold_batch_norm import FoldBatchNorm
from vdla.compiler.graph.passes.fold_conversions import FoldConversions
from vdla.compiler.graph.passes.fold_pads import FoldPads
from vdla.compiler.graph.passes.fuse_normalisation import FuseNormalisation
from vdla.compiler.graph.passes.fuse_softmax import FuseSoftmax
from vdla.compiler.graph.passes.gathers_to_moves import GathersToMoves
from vdla.compiler.graph.passes.heads_in_place import HeadsInPlace
from vdla.compiler.graph.passes.join_normalisation import JoinNormalisation
from vdla.compiler.graph.passes.join_softmax import JoinSoftmax
from vdla.compiler.graph.passes.merge_moves import MergeMoves
from vdla.compiler.graph.passes.move_integers import MoveIntegers
from vdla.compiler.graph.passes.on_grid import OnGrid
from vdla.compiler.graph.passes.quantise_first import QuantiseFirst
from vdla.compiler.graph.passes.reductions_to_pools import ReductionsToPools
from vdla.compiler.graph.passes.remove_identity import RemoveIdentity
from vdla.compiler.graph.passes.rows_to_images import RowsToImages
from vdla.compiler.graph.passes.signed_activations import SignedActivations
from vdla.compiler.graph.passes.split_prelu import SplitPRelu
from vdla.compiler.graph.passes.tabulate import Tabulate
from vdla.compiler.graph.passes.to_integers import ToIntegers
from vdla.compiler.graph.verify import verify


class Pass(Protocol):
    """A transformation of a graph into one that means the same."""

    def run(self, graph: Graph) -> Graph:
        """Return the changed graph."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Passes in the order in which they run; its `repr` is its source."""

    passes: tuple[Pass, ...]

    def run(self, graph: Graph) -> Graph:
        """Return `graph` after all passes.

        Raises:
            GraphError: the graph is ill-formed, before the first pass or after the last.
        """
        verify(graph)
        for each in self.passes:
            graph = each.run(graph)
        verify(graph)
        return graph


# Quantised networks of all tools in one form: float operators between conversions.
ONE_STYLE = (ExpandQLinear(), ExpandIntegers(), RemoveIdentity(), FoldConversions())
SIMPLIFY = Pipeline(
    (
        RemoveIdentity(),
        ConstantFolding(),
        FoldBatchNorm(),
        CommonSubexpressions(),
        FoldPads(),
        JoinNormalisation(),
        JoinSoftmax(),
        ReductionsToPools(),
        GathersToMoves(),
        MergeMoves(),
        DeadCode(),
    )
)
# What SIMPLIFY returns, with integer operators wherever a quantised network allows.
INTEGERS = Pipeline(
    (
        *ONE_STYLE,
        RowsToImages(),
        MergeMoves(),
        SignedActivations(),
        MoveIntegers(),
        QuantiseFirst(),
        SplitPRelu(),
        OnGrid(),
        ToIntegers(),
        RemoveIdentity(),
        MergeMoves(),
        DenseToConv(),
        FuseSoftmax(),
        FuseNormalisation(),
        Tabulate(),
        RemoveIdentity(),
        HeadsInPlace(),
    )
)
