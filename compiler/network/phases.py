"""Phases as channels: transposed convolutions whose kernel equals their stride, at the end of a network.

Each phase of such a transposed convolution is a 1x1 convolution of the same pixels. A single convolution
makes all phases as adjacent channels: it loads its input once and stores rows without gaps. Following
pointwise operators work on each phase: tables, scales of channels, 1x1 convolutions, and further transposed
convolutions of this form, with as many groups as phases. A DepthToSpace finally restores the pixels. The
accelerator does not support it, so this applies only if the host reads the result, which it unpacks in any
case.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from math import inf, prod

import numpy as np

from vdla.compiler.codegen.choose import least_estimate
from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.integers import LARGEST_BIAS, POINTWISE
from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.compiler.network.channels import keeps_places
from vdla.compiler.network.eight_bits import in_eight_bits
from vdla.compiler.network.offload import offload
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.convolution import TiledTask, TransposedTask
from vdla.compiler.te.operators.sizes import Convolution, grouping
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Parameter

HOST = ("DequantizeLinear", "FlipSign")  # operators on int8 that always run on the host
PRODUCTS = ("Int8Conv", "Int8ConvTranspose")
MOST_CYCLES_RATIO = 0.9  # new over old estimated cycles; the host runs an additional DepthToSpace
Sides = tuple[int, ...]  # of the squares of pixels in the channels, outermost first


def phases_as_channels(graph: Graph, target: Target) -> Graph:
    """Return a graph of integer operators in which convolutions make the phases of transposed convolutions
    whose results only the host reads. Return `graph` itself if it has none, or if that saves too little."""
    plan = _PhasePlan(graph, target.config)
    if not any(plan.begins(node) for node in graph.nodes):
        return graph
    spreading = _PhaseBuilder(plan)
    rewritten = spreading.run()
    return rewritten if _saves(graph, spreading, rewritten, target) else graph


def _saves(graph: Graph, spreading: "_PhaseBuilder", rewritten: Graph, target: Target) -> bool:
    """Whether the new convolutions save enough estimated cycles."""
    replaced = {node.result for node in graph.nodes if node.op in PRODUCTS} & spreading.deep.keys()
    added = {node.result for node in spreading.products}
    return _cycles(rewritten, added, target) < MOST_CYCLES_RATIO * _cycles(graph, replaced, target)


def _cycles(graph: Graph, names: Collection[str], target: Target) -> float:
    """Return the estimated cycles of the products whose results are in `names`."""
    ready = in_eight_bits(graph, target)
    return sum(_cycles_of(ready, node, target) for node in ready.nodes if node.result in names)


def _cycles_of(graph: Graph, node: Node, target: Target) -> float:
    """Return the estimated cycles of a product; infinity if `target` cannot run it in tiles."""
    operator = offload(graph, node, target)
    if isinstance(operator, Unfit):
        return inf
    task = operator.pieces[0].task
    if not isinstance(task, TiledTask):
        return inf
    cycles = least_estimate(task, target)
    return cycles * prod(task.size.stride) if isinstance(task, TransposedTask) else cycles  # of one phase


class _PhasePlan(DefUse):
    """Decides which operators of a graph make phases as channels."""

    def __init__(self, graph: Graph, config: AcceleratorConfig) -> None:
        super().__init__(graph)
        self.config = config

    def begins(self, node: Node) -> bool:
        """Whether an operator on an image is the first to make phases as channels."""
        return node.op == "Int8ConvTranspose" and self.can_spread(node, ())

    def can_spread(self, node: Node, sides: Sides) -> bool:
        """Whether an operator can keep the phases of its input as channels, and so can all following
        operators up to the host.

        Args:
            sides: sides of the phases in the channels of its input.
        """
        waiting = [(node, sides)]
        while waiting:
            operator, around = waiting.pop()
            added, out = self.added_sides(operator, around), operator.result
            readers = self.readers(out)
            if added is None or not (readers or out in self.graph.outputs):
                return False
            waiting += [(reader, (*around, *added)) for reader in readers if not self.is_end(reader)]
        return True

    def added_sides(self, node: Node, sides: Sides) -> Sides | None:
        """Return the sides of the phases that an operator adds to the phases of its input; None if it cannot
        keep phases as channels."""
        if node.op in ("Int8Lookup", "Int8Scale"):
            makes_bytes = self.graph.types[node.result].dtype == "int8"
            return () if makes_bytes and keeps_places(self.graph, node) else None
        added = self.sides(node)
        return added if added is not None and self.is_cheap(node, sides, added) else None

    def is_end(self, node: Node) -> bool:
        """Whether an operator on int8 runs on the host."""
        makes_bytes = self.graph.types[node.result].dtype == "int8"
        return node.op in HOST or (node.op == "Int8Lookup" and not makes_bytes)

    def sides(self, node: Node) -> Sides | None:
        """Return the side of the square of phases that a product makes of each pixel: () for a 1x1
        convolution; None for other operators."""
        if node.op not in PRODUCTS or any(name not in self.graph.constants for name in node.inputs[1:]):
            return None
        weights, words = (self.graph.constants[name] for name in node.inputs[1:])
        kernel = weights.shape[2:]
        if any(node.extents("pads")) or node.pair("strides") != kernel:
            return None
        if node.op == "Int8Conv":
            return () if kernel == (1, 1) else None
        plain = not any(node.pair("output_padding")) and kernel[0] == kernel[1] > 1
        zero = node.integer("zero")
        fits = not zero or np.abs(_phase_words(weights, words, zero)[Parameter.BIAS]).max() < LARGEST_BIAS
        return (kernel[0],) if plain and fits else None

    def is_cheap(self, node: Node, sides: Sides, added: Sides) -> bool:
        """Whether a grouped convolution of all phases takes no more products of blocks than a convolution of
        each phase. Groups that do not fill whole blocks multiply zeros."""
        weights, around, phases = self.graph.constants[node.inputs[1]], _square(sides), _square(added)
        inputs = self.graph.types[node.inputs[0]].shape[1]
        outputs = self.graph.types[node.result].shape[1]
        groups = inputs // weights.shape[1] if node.op == "Int8Conv" else 1
        alone = self.block_products(inputs, outputs, groups)
        return self.block_products(around * inputs, around * phases * outputs, around * groups) <= (
            around * phases * alone
        )

    def block_products(self, inputs: int, outputs: int, groups: int) -> int:
        """Return how many products of blocks a grouped 1x1 convolution takes for a pixel."""
        grouped = grouping(Convolution(inputs, 1, 1, outputs, (1, 1), groups=groups), self.config)
        return grouped.count * grouped.inputs * grouped.outputs


class _PhaseBuilder(GraphBuilder):
    """The new graph under construction.

    Attributes:
        sides: for each value with phases as channels, the sides of the phases.
        deep: names of these values in the new graph.
        products: the convolutions that make them.
    """

    def __init__(self, plan: _PhasePlan) -> None:
        super().__init__(plan.graph)
        self.plan = plan
        self.sides: dict[str, Sides] = {}
        self.deep: dict[str, str] = {}
        self.products: list[Node] = []

    def run(self) -> Graph:
        """Return the new graph."""
        for node in self.graph.nodes:
            sides = self.sides.get(node.inputs[0], ()) if node.inputs else ()
            if (sides and not self.plan.is_end(node)) or self.plan.begins(node):
                self.spread(node, sides)
            else:
                self.nodes.append(node)
        return self.finished()

    def spread(self, node: Node, sides: Sides) -> None:
        """Add an operator that makes phases as channels, and a DepthToSpace if the host reads the pixels."""
        (out,), x = node.outputs, self.deep.get(node.inputs[0], node.inputs[0])
        added = self.plan.sides(node) or ()
        self.sides[out] = (*sides, *added)
        self.deep[out] = self.value(f"{out}_phases", self.spread_type(out, self.sides[out]))
        inputs, attributes = node.inputs[1:], node.attributes
        op = node.op
        if op in PRODUCTS:
            op, inputs = "Int8Conv", self.constants_of(node, _square(sides), _square(added))
            groups = node.integer("group") if node.op == "Int8Conv" else 1
            attributes = {**POINTWISE, "group": _square(sides) * groups}
        if op == "Int8Scale":
            inputs = tuple(self.repeated(name, _square(sides)) for name in inputs)
        spread = replace(node, op=op, inputs=(x, *inputs), outputs=(self.deep[out],), attributes=attributes)
        self.nodes.append(spread)
        if op in PRODUCTS:
            self.products.append(spread)
        if out in self.graph.outputs or any(map(self.plan.is_end, self.plan.readers(out))):
            self.restore_pixels(out)

    def constants_of(self, node: Node, groups: int, phases: int) -> tuple[str, str]:
        """Return the names of the weights and parameters of a convolution that makes phases as channels.

        Args:
            groups: equal groups, for the phases of the input.
            phases: phases that the operator adds.
        """
        weights, words = (self.graph.constants[name] for name in node.inputs[1:])
        if node.op == "Int8ConvTranspose":
            words = _phase_words(weights, words, node.integer("zero"))
            weights = weights.transpose(2, 3, 1, 0).reshape(-1, weights.shape[0], 1, 1)
        channels = groups * phases * self.graph.types[node.result].shape[1]
        each = words if words.shape[1] == 1 else np.tile(words, (1, channels // words.shape[1]))
        return (
            self.constant(f"{node.inputs[1]}_phases", np.tile(weights, (groups, 1, 1, 1))),
            self.constant(f"{node.inputs[2]}_phases", each),
        )

    def repeated(self, name: str, count: int) -> str:
        """Return a constant [..., channels] repeated for `count` groups; [..., 1] serves all groups."""
        array = self.graph.constants[name]
        if array.shape[-1] == 1:
            return name
        return self.constant(f"{name}_phases", np.tile(array, count))

    def restore_pixels(self, name: str) -> None:
        """Add the DepthToSpace operators that move the phases of a value from channels to pixels."""
        at, sides = self.deep[name], self.sides[name]
        for place, side in enumerate(sides, 1):
            last = place == len(sides)
            out = name if last else self.value(f"{name}_part", self.spread_type(name, sides[place:]))
            at = self.add("DepthToSpace", (at,), out, {"blocksize": side, "mode": "DCR"})

    def spread_type(self, name: str, sides: Iterable[int]) -> TensorType:
        """Return the type of a value with phases of these sides as channels."""
        n, channels, height, width = self.graph.types[name].shape
        side = prod(sides)
        return TensorType((n, channels * side**2, height // side, width // side), "int8")


def _square(sides: Sides) -> int:
    """Return the number of phases."""
    return prod(sides) ** 2


def _phase_words(weights: np.ndarray, words: np.ndarray, zero: int) -> np.ndarray:
    """Return the requantisation parameters of all phases, int64[4, phases * outputs]; the biases subtract the
    zero point of the image. If it is 0, return `words` unchanged.

    Each phase sums products with different weights, so each phase has different biases.

    Args:
        weights: int8 or int16[channels, outputs, kernel rows, kernel columns].
        words: int64[4, 1 or outputs].
    """
    if not zero:
        return words
    sums = weights.sum(0, dtype=np.int64).transpose(1, 2, 0)
    each = np.broadcast_to(words[:, None, None], (len(words), *sums.shape)).copy()
    each[Parameter.BIAS] -= zero * sums
    return each.reshape(len(words), -1)
