"""Reorders channels so that Concats, Splits and shuffles of channels need no instruction.

A convolution can write its channels in any order, and the next can read them in any order: only weights
change. Channels that a reader does not need get weights of 0. So channels that are used together share
blocks, and each reader reads the blocks that hold its channels. These reads are Slices and Concats of whole
blocks, which need no instruction (see `memory_plan`). An operator that needs its channels in order gets a
pointwise convolution before it, which restores the order.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph.macs import macs
from vdla.compiler.graph.nodes import Attribute, Graph, Node, TensorType
from vdla.compiler.graph.passes.cleanup import DeadCode
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.compiler.network.channels import Channels, ChannelUses, is_product, selected_channels
from vdla.compiler.operands.interleaved import activation_block
from vdla.hw.spec.config import AcceleratorConfig

NO_CHANNEL = -1  # in a lane without a channel, or with a channel that is not needed
CHANNELWISE_PRODUCTS = ("Int8AveragePool", "Int8Conv", "Int8Scale")
Lanes = NDArray[np.int64]


def reordered_channels(graph: Graph, config: AcceleratorConfig, taken: Collection[str]) -> Graph:
    """Return a graph in which convolutions reorder channels in place of operators that move parts of blocks;
    `graph` itself if it has no such operators.

    Args:
        taken: the integer operators that the accelerator supports.
    """
    if config.batch > 1:
        return graph
    channels = Channels(graph, activation_block(config))
    if not channels.scattered:
        return graph
    reordering = _ChannelReordering(channels, ChannelUses(channels, taken))
    return reordering.run() if reordering.is_worth() else graph


def lane_order(uses: Sequence[frozenset[int]], block: int) -> Lanes | None:
    """Return the channel of each lane, with NO_CHANNEL in empty lanes; None if all channels have the same
    uses.

    Channels with the same uses are adjacent. Groups of more than half a block begin at a block boundary,
    unless the padding adds more than a quarter of the blocks.

    Args:
        uses: for each channel, the positions of the nodes that use it.
        block: channels of a block.
    """
    groups: dict[frozenset[int], list[int]] = {}
    for channel, used in enumerate(uses):
        groups.setdefault(used, []).append(channel)
    if len(groups) == 1:
        return None
    most = -(-len(uses) // block) * 5 // 4
    orders = (_blocks_of_groups(groups, block, least) for least in (block // 2 + 1, block, len(uses) + 1))
    return next((order for order in orders if len(order) <= most * block), None)


def _blocks_of_groups(groups: Mapping[frozenset[int], list[int]], block: int, least: int) -> Lanes:
    """Return groups of at least `least` channels in separate blocks, followed by all other channels."""
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), sorted(group[0])))
    lanes: list[int] = []
    for _, group in ordered:
        if len(group) >= least:
            lanes += [*group, *[NO_CHANNEL] * (-len(group) % block)]
    rest = sorted((sorted(used), group) for used, group in groups.items() if len(group) < least)
    lanes += [channel for _, group in rest for channel in group]
    return np.array([*lanes, *[NO_CHANNEL] * (-len(lanes) % block)], np.int64)


@dataclass(frozen=True)
class BlockRun:
    """Adjacent blocks of a tensor that hold channels of a value.

    Attributes:
        lanes: the value's channel in each lane, or NO_CHANNEL.
        begin: first lane in the tensor.
    """

    name: str
    lanes: Lanes
    begin: int = 0


class _ChannelReordering(GraphBuilder):
    """The new graph under construction.

    Attributes:
        lanes: for values of the new graph in another order, the channel of each lane.
        in_order: values of the old graph that the new graph has with the same channels.
        reads: for each value of the old graph that is read in another order, the tensor with its channels.
        copies: slices and reordered copies of tensors, by their source and extent.
    """

    def __init__(self, channels: Channels, uses: ChannelUses) -> None:
        super().__init__(channels.graph)
        self.channels, self.uses, self.block = channels, uses, channels.block
        self.lanes: dict[str, Lanes] = {}
        self.in_order = {*self.graph.inputs, *self.graph.constants}
        self.reads: dict[str, BlockRun] = {}
        self.copies: dict[tuple[object, ...], str] = {}

    def is_worth(self) -> bool:
        """Whether an operator of the accelerator reads channels that were moved in parts of blocks."""
        return any(
            self.uses.accepts(node, name)
            for node in self.graph.nodes
            for name in node.inputs
            if name in self.channels.scattered
            and not any(result in self.channels.moved for result in node.outputs)
        )

    def run(self) -> Graph:
        """Return the graph in which operators read and write reordered channels."""
        for node in self.graph.nodes:
            if any(result in self.channels.moved for result in node.outputs):
                if self.in_order.issuperset(node.inputs):
                    self.nodes.append(node)
                    self.in_order.update(node.outputs)
                continue
            self.nodes.append(self.reordered(node))
            self.in_order.update(name for name in node.outputs if name not in self.lanes)
        return DeadCode().run(self.finished())

    def reordered(self, node: Node) -> Node:
        """Return an operator that moves no channels, with reordered operands and results."""
        if is_product(self.graph, node):
            return self.product(node)
        for place, name in enumerate(node.inputs):
            if name in self.in_order and name not in self.channels.scattered:
                continue
            if place == 0 and self.uses.takes(node, name):
                return self.channelwise(node, self.read(name))
            if self.uses.accepts(node, name):
                inputs = (*node.inputs[:place], self.restored(name), *node.inputs[place + 1 :])
                node = replace(node, inputs=inputs)
        return node

    # Operators

    def product(self, node: Node) -> Node:
        """Return a convolution that reads and writes channels in other orders."""
        x, out = node.inputs[0], node.result
        weights, words = (self.graph.constants[name] for name in node.inputs[1:])
        attributes, read = node.attributes, None
        if x not in self.in_order or (x in self.channels.scattered and self.uses.takes(node, x)):
            read = self.read(x)
            weights = for_lanes(dense(weights, node.integer("group")), read.lanes, 1, None)
            attributes = {**attributes, "group": 1}
        lanes = self.output_order(out) if attributes["group"] == 1 else None
        if lanes is not None:
            weights, words = for_lanes(weights, lanes, 0, None), for_lanes(words, lanes, 1, 0)
            self.set_lanes(out, lanes)
        if read is None and lanes is None:
            return node
        return self.weighted(node, x if read is None else read.name, (weights, words), attributes)

    def weighted(
        self, node: Node, x: str, constants: Sequence[np.ndarray], attributes: Mapping[str, Attribute]
    ) -> Node:
        """Return an operator with another operand and other constants."""
        names = tuple(
            self.constant(f"{name}_arranged", np.ascontiguousarray(array))
            for name, array in zip(node.inputs[1:], constants, strict=True)
        )
        count = macs(self.graph, node)
        return replace(node, inputs=(x, *names), attributes=attributes, macs=count)

    def channelwise(self, node: Node, read: BlockRun) -> Node:
        """Return a channelwise operator, which keeps the order of the channels that it reads."""
        (out,), count = node.outputs, len(read.lanes)
        self.set_lanes(out, read.lanes)
        attributes = dict(node.attributes)
        if node.op == "Resize":
            first, _, *pixels = node.extents("sizes")
            attributes["sizes"] = (first, count, *pixels)
        if node.op == "Int8Conv":
            attributes["group"] = count
        if node.op in CHANNELWISE_PRODUCTS:
            *weights, words = (self.graph.constants[name] for name in node.inputs[1:])
            parts = [for_lanes(array, read.lanes, 0, 0) for array in weights]
            return self.weighted(node, read.name, [*parts, for_lanes(words, read.lanes, 1, 0)], attributes)
        return replace(node, inputs=(read.name, *node.inputs[1:]), attributes=attributes)

    def output_order(self, name: str) -> Lanes | None:
        """Return the lanes of a convolution's result; None if the order of its channels stays."""
        if name not in self.uses.free or name not in self.channels.numbers:
            return None
        numbers = self.channels.numbers[name].tolist()
        return lane_order([frozenset(self.uses.of.get(number, ())) for number in numbers], self.block)

    def set_lanes(self, name: str, lanes: Lanes) -> None:
        """Record the lanes of a value in the new graph."""
        first, _, *pixels = self.graph.types[name].shape
        self.types[name] = TensorType((first, len(lanes), *pixels), "int8")
        self.lanes[name] = lanes

    # Reading

    def read(self, name: str) -> BlockRun:
        """Return a tensor that holds the channels of a value."""
        if name not in self.reads:
            self.reads[name] = (
                self.source_tensor(name) if name not in self.channels.moved else self.concatenated(name)
            )
        return self.reads[name]

    def source_tensor(self, name: str) -> BlockRun:
        """Return the tensor of a value that no move of channels makes."""
        lanes = self.lanes.get(name)
        return BlockRun(name, np.arange(self.graph.types[name].shape[1]) if lanes is None else lanes)

    def concatenated(self, name: str) -> BlockRun:
        """Return the concatenated blocks that hold the channels of a moved value."""
        runs = sorted(self.runs(name), key=lambda run: len(run.lanes) % self.block != 0)
        runs = [self.padded_to_block(run) for run in runs[:-1]] + runs[-1:]
        parts = tuple(self.sliced(run) for run in runs)
        lanes = np.concatenate([run.lanes for run in runs])
        if len(parts) == 1:
            return BlockRun(parts[0], lanes)
        first, _, *pixels = self.graph.types[name].shape
        whole = self.value(f"{name}_blocks", TensorType((first, len(lanes), *pixels), "int8"))
        return BlockRun(self.add("Concat", parts, whole, {"axis": 1}), lanes)

    def runs(self, name: str) -> Iterator[BlockRun]:
        """Yield the runs of blocks that hold the channels of a value. A channel that occurs twice yields its
        block twice."""
        for wanted in _distinct_parts(self.channels.numbers[name].tolist()):
            sources = dict.fromkeys(self.channels.source_of(number) for number in wanted)
            for source in sources:
                tensor = self.source_tensor(source.name)
                lanes = np.array(
                    [
                        wanted.get(source.first + lane, NO_CHANNEL) if lane != NO_CHANNEL else NO_CHANNEL
                        for lane in tensor.lanes.tolist()
                    ],
                    np.int64,
                )
                yield from (
                    BlockRun(tensor.name, lanes[begin:end], begin)
                    for begin, end in _needed_runs(lanes, self.block)
                )

    def sliced(self, run: BlockRun) -> str:
        """Return the tensor with the blocks of a run alone."""
        first, count, *pixels = self.type_of(run.name).shape
        begin, end = run.begin, run.begin + len(run.lanes)
        if (begin, end) == (0, count):
            return run.name
        if (run.name, begin, end) not in self.copies:
            wish = f"{run.name}_{begin}_{end}"
            out = self.value(wish, TensorType((first, end - begin, *pixels), "int8"))
            cut = {"axes": (1,), "starts": (begin,), "ends": (end,), "steps": (1,)}
            self.copies[run.name, begin, end] = self.add("Slice", (run.name,), out, cut)
        return self.copies[run.name, begin, end]

    def padded_to_block(self, run: BlockRun) -> BlockRun:
        """Return a run that ends with a whole block; a partial block is copied and padded."""
        spare = -len(run.lanes) % self.block
        if not spare:
            return run
        count = self.type_of(run.name).shape[1]
        lanes = np.array([*range(count), *[NO_CHANNEL] * spare], np.int64)
        name = self.copied(run.name, BlockRun(run.name, np.arange(count)), lanes)
        return BlockRun(name, np.append(run.lanes, [NO_CHANNEL] * spare), run.begin)

    def restored(self, name: str) -> str:
        """Return a tensor with the channels of a value in their original order."""
        return self.copied(name, self.read(name), np.arange(self.graph.types[name].shape[1]))

    def copied(self, name: str, read: BlockRun, lanes: Lanes) -> str:
        """Return a copy of a tensor with these lanes, from a pointwise convolution with weights of 0 and
        1."""
        key = (name, "copied", len(lanes))
        if key not in self.copies:
            first, _, *pixels = self.type_of(read.name).shape
            out = self.value(f"{name}_ordered", TensorType((first, len(lanes), *pixels), "int8"))
            selection = (lanes[:, None] == read.lanes) & (lanes[:, None] != NO_CHANNEL)
            self.copies[key] = selected_channels(self, read.name, out, selection)
        return self.copies[key]


def for_lanes(array: np.ndarray, lanes: Lanes, axis: int, spare: int | None) -> np.ndarray:
    """Return an array [..., channels, ...] as [..., lanes, ...] along an axis.

    Args:
        spare: the channel whose elements fill empty lanes; None: empty lanes are 0. With `spare`, an array of
            extent 1, which all channels share, is returned as it is.
    """
    if spare is not None and array.shape[axis] == 1:
        return array
    result = array.take(np.where(lanes == NO_CHANNEL, spare or 0, lanes), axis)
    if spare is None:
        result[(slice(None),) * axis + (lanes == NO_CHANNEL,)] = 0
    return result


def dense(weights: np.ndarray, groups: int) -> np.ndarray:
    """Return weights int8[o, c / groups, kh, kw] as int8[o, c, kh, kw] with 0 between groups."""
    if groups == 1:
        return weights
    outputs, inputs, *kernel = weights.shape
    result = np.zeros((outputs, groups, inputs, *kernel), weights.dtype)
    places = np.arange(outputs)
    result[places, places // (outputs // groups)] = weights
    return result.reshape(outputs, groups * inputs, *kernel)


def _distinct_parts(numbers: Iterable[int]) -> list[dict[int, int]]:
    """Return the positions of channels by their numbers. A channel that occurs n times is in n of the
    parts."""
    parts: list[dict[int, int]] = []
    for place, number in enumerate(numbers):
        part = next((part for part in parts if number not in part), None)
        if part is None:
            part = {}
            parts.append(part)
        part[number] = place
    return parts


def _needed_runs(lanes: Lanes, block: int) -> Iterator[tuple[int, int]]:
    """Yield the first lane, and the lane behind the last, of each run of blocks with at least one channel."""
    begin: int | None = None
    for first in range(0, len(lanes), block):
        if (lanes[first : first + block] != NO_CHANNEL).any():
            begin = first if begin is None else begin
        elif begin is not None:
            yield begin, first
            begin = None
    if begin is not None:
        yield begin, len(lanes)
