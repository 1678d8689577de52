"""The passes over graphs of integer operators that know the target."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from vdla.compiler.graph.nodes import Attribute, Graph, Node, TensorType
from vdla.compiler.graph.passes.tabulate import Tabulate
from vdla.compiler.graph.pipeline import Pipeline
from vdla.compiler.graph.rules import Rewriter, RewriteRule, Rules
from vdla.compiler.lower.products import pads_with
from vdla.compiler.network.channel_order import reordered_channels
from vdla.compiler.network.eight_bits import in_eight_bits
from vdla.compiler.network.joined_columns import joined_columns
from vdla.compiler.network.offload import offload, operators_of
from vdla.compiler.network.phases import phases_as_channels
from vdla.compiler.network.placed import Offloaded
from vdla.compiler.network.volumes import volumes_as_images
from vdla.hw.spec.config import AcceleratorConfig
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


def _arranged_channels(graph: Graph, target: Target) -> Graph:
    """Reorder channels so that moves of channels need no instruction."""
    return reordered_channels(graph, target.config, operators_of(target.config))


def _joined_columns(graph: Graph, target: Target) -> Graph:
    """Replace Concats of parts of blocks of columns by products."""
    return joined_columns(graph, target.config, operators_of(target.config))


def pads_before_windows(config: AcceleratorConfig) -> Rules:
    """Return the rule that puts a Pad before a window operator whose border value LOADs do not support."""

    def pad(at: Rewriter, node: Node) -> None:
        """AveragePool(x, border, pads) -> AveragePool(Pad(x, border, pads)); likewise Conv."""
        pads, border = node.extents("pads"), node.integer("border")
        if not any(pads) or pads_with(config, border):
            return
        source, *constants = node.inputs
        n, channels, height, width = at.types[source].shape
        shape = n, channels, height + pads[0] + pads[2], width + pads[1] + pads[3]
        wide = at.value(f"{node.result}_padded", TensorType(shape, "int8"))
        around: dict[str, Attribute] = {
            "mode": "constant",
            "pads": (0, 0, *pads[:2], 0, 0, *pads[2:]),
            "value": border,
        }
        attributes = {**node.attributes, "border": 0, "pads": (0, 0, 0, 0)}
        padded = replace(node, inputs=(wide, *constants), attributes=attributes)
        at.replace(node, [Node("Pad", (source,), (wide,), around), padded])

    return Rules("pad_before_convolutions", (RewriteRule(("Int8AveragePool", "Int8Conv"), pad),))


def slices_of_splits(target: Target) -> Rules:
    """Return the rule that puts Slices in place of a Split, if the accelerator takes all of them."""

    def slices(at: Rewriter, node: Node) -> None:
        """a, b = Split(x) -> a = Slice(x), b = Slice(x)."""
        sizes, rank = node.extents("split"), len(at.types[node.inputs[0]].shape)
        bounds = pairwise(accumulate(sizes, initial=0))
        parts = [
            replace(
                node,
                op="Slice",
                outputs=(out,),
                attributes={
                    "axes": (node.integer("axis") % rank,),
                    "starts": (begin,),
                    "ends": (end,),
                    "steps": (1,),
                },
                name=out,
            )
            for out, (begin, end) in zip(node.outputs, bounds, strict=False)
        ]
        if all(isinstance(offload(at.graph, part, target), Offloaded) for part in parts):
            at.replace(node, parts)

    return Rules("slice_splits", (RewriteRule(("Split",), slices),))


def target_passes(target: Target) -> Pipeline:
    """Return the passes for a target, in order."""
    return Pipeline(
        (
            TargetPass("chains_as_tables", _chains_as_tables, target),
            TargetPass("volumes_as_images", volumes_as_images, target),
            TargetPass("phases_as_channels", phases_as_channels, target),
            pads_before_windows(target.config),
            TargetPass("products_in_eight_bits", in_eight_bits, target),
            TargetPass("arrange_channels", _arranged_channels, target),
            TargetPass("join_columns", _joined_columns, target),
            slices_of_splits(target),
        )
    )
