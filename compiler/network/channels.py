"""Data flow of channels: the source of each channel of each value, and the operators that use it.

A value int8[1, c, h, w] is a source if it is an input or its operator does not move channels. Channels of
sources are numbered. Concat, Split, Slice, and Reshape with Transpose (a shuffle) move channels: their
results have the numbers of source channels, in other orders.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.integers import POINTWISE, Quantisation, scaling
from vdla.compiler.graph.nodes import RESHAPING, Graph, Node
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.layout import IMAGE_RANK

SPATIAL = 2
MATRICES = ("Int8LayerNormalization", "Int8MatMul", "Int8Products", "Int8Softmax")  # make rows
ON_ELEMENTS = ("Concat", "Int8Add", "Int8Lookup", "Int8Mul", "Int8Requantise", "Slice", "Split")
MOVERS = ("Concat", "Reshape", "Slice", "Split", "Transpose")
PRESERVING = ("Int8AveragePool", "Int8Lookup", "Int8MaxPool", "Int8Requantise", "Int8Scale", "Resize")
FREE = (
    "costs nothing if it moves channels of one image between operators on the accelerator, with a batch of "
    "1 and block_in = block_out"
)
Numbers = NDArray[np.int64]


SAME = scaling(np.ones(1), 0, Quantisation(1.0, 0))


def selected_channels(
    builder: GraphBuilder,
    name: str,
    out: str,
    selection: np.ndarray,
    words: np.ndarray = SAME,
    groups: int | None = 1,
) -> str:
    """Add a product with weights of 0 and 1, which copies channels of a tensor; return its result.

    Args:
        selection: bool or int8[channels of the result, channels of a group].
        words: int64[4, 1 or channels of the result], parameters of requantisation; by default they keep
            values.
        groups: groups of channels of an image; None if the channels are columns of rows.
    """
    weights = selection.T if groups is None else selection[..., None, None]
    constants = (
        builder.constant(f"{out}_weights", np.ascontiguousarray(weights, np.int8)),
        builder.constant(f"{out}_parameters", words),
    )
    op, attributes = ("Int8MatMul", {}) if groups is None else ("Int8Conv", {**POINTWISE, "group": groups})
    builder.nodes.append(Node(op, (name, *constants), (out,), attributes, macs=0))
    return out


@dataclass(frozen=True)
class ChannelSource:
    """A value whose channels are numbered.

    Attributes:
        first: number of its first channel.
        count: how many channels it has.
    """

    name: str
    first: int
    count: int


@dataclass
class Channels:
    """The channels of a graph.

    Attributes:
        block: channels of a block.
        numbers: the channel numbers of each value, in the shape of its dimensions between batch and pixels.
        sources: in order of their numbers.
        moved: results of operators that move channels.
        scattered: the values of `moved` that do not consist of whole blocks.
    """

    graph: Graph
    block: int
    numbers: dict[str, Numbers] = field(default_factory=dict)
    sources: list[ChannelSource] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)
    scattered: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._total = 0
        self._rows = set[str]()  # values of four dimensions of which the last is the channels
        for name in self.graph.inputs:
            self._source(name)
        for node in self.graph.nodes:
            moved = self._moved(node) if self.moves(node) else None
            if moved is None and self._makes_rows(node):
                self._rows.update(node.outputs)
            elif moved is None:
                for name in node.outputs:
                    self._source(name)
            else:
                self.numbers |= dict(zip(node.outputs, moved, strict=False))  # an unread output has no name
                self.moved.update(node.outputs)
                before = any(name in self.scattered for name in node.inputs)
                if before or not self._in_blocks(node):
                    self.scattered.update(node.outputs)
        self.uses = DefUse(self.graph)
        self._firsts = [source.first for source in self.sources]

    # Values

    def _makes_rows(self, node: Node) -> bool:
        """Whether the channels of a result are its last dimension, and not the dimension behind the batch."""
        before = node.inputs[0]
        if node.op in RESHAPING:
            shapes = (self.graph.types[name].shape[:-SPATIAL] for name in (before, node.result))
            return before in self._rows or len(set(shapes)) > 1
        if node.op == "Transpose":
            perm = node.extents("perm")
            channels = len(perm) - 1 if before in self._rows else 1
            return len(perm) != IMAGE_RANK or perm[1] != channels
        return node.op in MATRICES or (node.op in ON_ELEMENTS and before in self._rows)

    def _source(self, name: str) -> None:
        type_ = self.graph.types[name]
        if (
            type_.dtype != "int8"
            or not type_.is_known
            or len(type_.shape) != IMAGE_RANK
            or type_.shape[0] != 1
        ):
            return
        count = type_.shape[1]
        self.numbers[name] = np.arange(self._total, self._total + count)
        self.sources.append(ChannelSource(name, self._total, count))
        self._total += count

    def source_of(self, number: int) -> ChannelSource:
        """Return the source of a channel."""
        return self.sources[int(np.searchsorted(self._firsts, number, "right")) - 1]

    def is_whole(self, name: str) -> bool:
        """Whether a value is an image with known channels."""
        return name in self.numbers and self.numbers[name].ndim == 1

    # Moves

    def moves(self, node: Node) -> bool:
        """Whether a node only moves known channels."""
        if node.op not in MOVERS or any(name not in self.numbers for name in node.inputs):
            return False
        shape = self.graph.types[node.inputs[0]].shape
        last = len(shape) - SPATIAL

        def among(axis: int) -> bool:
            return 0 < axis % len(shape) < last

        match node.op:
            case "Concat" | "Split":
                return among(node.integer("axis"))
            case "Slice":
                return all(among(axis) for axis in node.extents("axes"))
            case "Transpose":
                kept = (0, last, last + 1)
                return all(node.extents("perm")[place] == place for place in kept)
        out = self.graph.types[node.result].shape
        return len(out) >= IMAGE_RANK and out[0] == 1 and out[-SPATIAL:] == shape[-SPATIAL:]

    def _moved(self, node: Node) -> list[Numbers]:
        """Return the channel numbers of the results of a mover, which is evaluated on the numbers."""
        pixel = [self.numbers[name][None, ..., None, None] for name in node.inputs]
        if node.op == "Reshape":
            shape = self.graph.types[node.result].shape[1:-SPATIAL]
            return [pixel[0].reshape(shape)]
        results = evaluate(node.op, pixel, node.attributes)
        return [array.reshape(array.shape[1:-SPATIAL]) for array in results]

    def _in_blocks(self, node: Node) -> bool:
        """Whether the results of a mover consist of whole blocks of its operands; the last block of an
        operand may be partial."""
        if not all(map(self.is_whole, (*node.inputs, *node.outputs))):
            return False
        operand_blocks, result_blocks = (
            [
                tuple(self.numbers[name][begin : begin + self.block])
                for name in names
                for begin in range(0, len(self.numbers[name]), self.block)
            ]
            for names in (node.inputs, node.outputs)
        )
        return set(operand_blocks).issuperset(result_blocks)


def is_product(graph: Graph, node: Node) -> bool:
    """Whether a node is a convolution with constant weights that is not depthwise."""
    return _is_constant(graph, node) and not is_depthwise(graph, node)


def is_depthwise(graph: Graph, node: Node) -> bool:
    """Whether a node is a depthwise convolution with constant weights and one output for each channel."""
    if not _is_constant(graph, node):
        return False
    groups = node.integer("group")
    return groups == graph.types[node.inputs[0]].shape[1] == graph.types[node.inputs[1]].shape[0] > 1


def _is_constant(graph: Graph, node: Node) -> bool:
    return node.op == "Int8Conv" and all(name in graph.constants for name in node.inputs[1:])


def keeps_places(graph: Graph, node: Node) -> bool:
    """Whether a node is channelwise: each channel of its result depends only on the same channel of its input
    and on constants."""
    if is_depthwise(graph, node):
        return True
    if node.op not in PRESERVING or any(name not in graph.constants for name in node.inputs[1:]):
        return False
    if node.op == "Int8Requantise":
        return graph.types[node.inputs[1]].shape[-1] == 1
    if node.op == "Int8Scale":
        return node.integer("axis") == 1
    return node.op != "Resize" or node.extents("sizes")[1] == graph.types[node.inputs[0]].shape[1]


@dataclass
class ChannelUses:
    """The uses of the channels of a graph.

    Args:
        taken: the integer operators that the accelerator supports.

    Attributes:
        free: values whose readers all accept channels in any order, with other channels between.
        of: for each channel number, the positions of the nodes that use it, directly or through channelwise
            operators.
    """

    channels: Channels
    taken: Collection[str]
    free: set[str] = field(default_factory=set)
    of: dict[int, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes = self.channels.graph.nodes
        for position in reversed(range(len(nodes))):
            for name in nodes[position].outputs:
                self._find_free(name)
            self._note(position)
        for name in self.channels.graph.inputs:
            self._find_free(name)

    def _find_free(self, name: str) -> None:
        outputs, uses = self.channels.graph.outputs, self.channels.uses
        if name not in outputs and all(self.accepts(reader, name) for reader in uses.readers(name)):
            self.free.add(name)

    def accepts(self, node: Node, name: str) -> bool:
        """Whether a node can read a value with reordered channels: either directly, or after a convolution
        that restores their order."""
        if any(output in self.channels.moved for output in node.outputs):
            return all(output in self.free for output in node.outputs)
        return self.takes(node, name) or (
            node.op in self.taken and name in self.channels.scattered and self.channels.is_whole(name)
        )

    def takes(self, node: Node, name: str) -> bool:
        """Whether a node that moves no channels can read reordered channels directly."""
        graph = self.channels.graph
        if not self.channels.is_whole(name) or node.inputs.count(name) > 1 or node.inputs[0] != name:
            return False
        if is_product(graph, node):
            return node.integer("group") == 1 or name in self.channels.scattered
        return keeps_places(graph, node) and node.result in self.free

    def _note(self, position: int) -> None:
        """Record the channels that a node uses, unless it moves channels."""
        graph, numbers = self.channels.graph, self.channels.numbers
        node = graph.nodes[position]
        for name in node.inputs:
            if not self.channels.is_whole(name) or any(
                output in self.channels.moved for output in node.outputs
            ):
                continue
            keeps = self.takes(node, name) and keeps_places(graph, node)
            for place, number in enumerate(numbers[name].tolist()):
                used = self.of.setdefault(number, set())
                used.add(position)
                if keeps:
                    used |= self.of.get(int(numbers[node.result][place]), set())
