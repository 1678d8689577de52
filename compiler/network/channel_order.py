"""Channels in an order in which nothing has to move them: joined, divided and shuffled channels cost nothing.

A convolution can make its channels in any order, and the next can read them in any order, with others
between that its weights ignore: only weights change. So the channels of a convolution that are used together
stand together in blocks, and a reader reads the blocks of all that it needs: Slices and Concats of whole
blocks, which nothing carries out (`joining`). Only an operator that must have its channels in order gets a
product before it that restores it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph.integers import Quantisation, scaling
from vdla.compiler.graph.macs import macs
from vdla.compiler.graph.nodes import Attribute, Graph, Node, TensorType
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.compiler.network.channels import Channels, ChannelUses, is_product
from vdla.compiler.operands.interleaved import activation_block
from vdla.hw.spec.config import AcceleratorConfig

NO_CHANNEL = -1  # in a lane that holds no channel, or one that is not needed
ONCE: Mapping[str, Attribute] = {
    "border": 0,
    "dilations": (1, 1),
    "group": 1,
    "pads": (0, 0, 0, 0),
    "strides": (1, 1),
}
MULTIPLYING = ("Int8AveragePool", "Int8Conv", "Int8Scale")  # on each channel, with multiply-accumulates
Lanes = NDArray[np.int64]


def reordered_channels(graph: Graph, config: AcceleratorConfig, taken: Collection[str]) -> Graph:
    """Return a graph without moves of channels that are not whole blocks, where that can be.

    Args:
        taken: the operators that the accelerator takes.
    """
    if config.batch > 1:
        return graph
    channels = Channels(graph, activation_block(config))
    if not channels.scattered:
        return graph
    made = _ChannelReordering(channels, ChannelUses(channels, taken))
    return made.run() if made.is_worth() else graph


def lane_order(uses: Sequence[frozenset[int]], block: int) -> Lanes | None:
    """Return the channels in the order in which they should stand, NO_CHANNEL where there is to be none; None where
    their own order serves.

    Channels of the same uses stand together. Groups of about a block and more begin with a block, unless that
    takes many more blocks.
    """
    groups: dict[frozenset[int], list[int]] = {}
    for channel, used in enumerate(uses):
        groups.setdefault(used, []).append(channel)
    if len(groups) == 1:
        return None
    most = -(-len(uses) // block) * 5 // 4
    orders = (_order(groups, block, least) for least in (block // 2 + 1, block, len(uses) + 1))
    return next((order for order in orders if len(order) <= most * block), None)


def _order(groups: Mapping[frozenset[int], list[int]], block: int, least: int) -> Lanes:
    """Return groups of at least `least` channels in blocks of their own, before the others."""
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), sorted(group[0])))
    lanes: list[int] = []
    for _, group in ordered:
        if len(group) >= least:
            lanes += [*group, *[NO_CHANNEL] * (-len(group) % block)]
    rest = sorted((sorted(used), group) for used, group in groups.items() if len(group) < least)
    lanes += [channel for _, group in rest for channel in group]
    return np.array([*lanes, *[NO_CHANNEL] * (-len(lanes) % block)], np.int64)


@dataclass(frozen=True)
class Read:
    """A tensor that holds the channels of a value.

    Attributes:
        lanes: the value's channel in each lane of the tensor; NO_CHANNEL where there is none of it.
    """

    name: str
    lanes: Lanes


@dataclass(frozen=True)
class Run:
    """Whole blocks of a tensor: its lanes from `begin` on."""

    name: str
    begin: int
    lanes: Lanes


class _ChannelReordering(GraphBuilder):
    """The new graph in the making.

    Attributes:
        lanes: of values that are not in order, the channel in each lane.
        known: the values of the old graph that are there, in order.
    """

    def __init__(self, channels: Channels, uses: ChannelUses) -> None:
        super().__init__(channels.graph)
        self.channels, self.uses, self.block = channels, uses, channels.block
        self.lanes: dict[str, Lanes] = {}
        self.known = {*self.graph.inputs, *self.graph.constants}
        self.reads: dict[str, Read] = {}
        self.others: dict[tuple[object, ...], str] = {}

    def is_worth(self) -> bool:
        """Whether an operator of the accelerator reads channels that would be moved one by one."""
        return any(
            self.uses.accepts(node, name)
            for node in self.graph.nodes
            for name in node.inputs
            if name in self.channels.scattered
            and not any(made in self.channels.moved for made in node.outputs)
        )

    def run(self) -> Graph:
        """Return the graph whose operators make and read channels where these stand."""
        for node in self.graph.nodes:
            if any(made in self.channels.moved for made in node.outputs):
                if self.known.issuperset(node.inputs):
                    self.nodes.append(node)
                    self.known.update(node.outputs)
                continue
            self.nodes.append(self.changed(node))
            self.known.update(name for name in node.outputs if name not in self.lanes)
        return DeadCode().run(self.finished())

    def changed(self, node: Node) -> Node:
        """Return an operator that moves no channels, with what it reads and makes in other orders."""
        if is_product(self.graph, node):
            return self.product(node)
        for place, name in enumerate(node.inputs):
            if name in self.known and name not in self.channels.scattered:
                continue
            if place == 0 and self.uses.takes(node, name):
                return self.alike(node, self.read(name))
            if self.uses.accepts(node, name):
                inputs = (*node.inputs[:place], self.ordered(name), *node.inputs[place + 1 :])
                node = replace(node, inputs=inputs)
        return node

    # Operators

    def product(self, node: Node) -> Node:
        """Return a convolution that reads channels, and makes them, in other orders."""
        x, out = node.inputs[0], node.outputs[0]
        weights, words = (self.graph.constants[name] for name in node.inputs[1:])
        attributes, read = node.attributes, None
        if x not in self.known or (x in self.channels.scattered and self.uses.takes(node, x)):
            read = self.read(x)
            weights = picked(dense(weights, node.integer("group")), read.lanes, 1, None)
            attributes = {**attributes, "group": 1}
        lanes = self.arrangement(out) if attributes["group"] == 1 else None
        if lanes is not None:
            weights, words = picked(weights, lanes, 0, None), picked(words, lanes, 1, 0)
            self.announce(out, lanes)
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

    def alike(self, node: Node, read: Read) -> Node:
        """Return an operator on each channel alone, which makes them in the order in which it reads them."""
        (out,), count = node.outputs, len(read.lanes)
        self.announce(out, read.lanes)
        attributes = dict(node.attributes)
        if node.op == "Resize":
            first, _, *pixels = node.extents("sizes")
            attributes["sizes"] = (first, count, *pixels)
        if node.op == "Int8Conv":
            attributes["group"] = count
        if node.op in MULTIPLYING:
            *weights, words = (self.graph.constants[name] for name in node.inputs[1:])
            parts = [picked(array, read.lanes, 0, 0) for array in weights]
            return self.weighted(node, read.name, [*parts, picked(words, read.lanes, 1, 0)], attributes)
        return replace(node, inputs=(read.name, *node.inputs[1:]), attributes=attributes)

    def arrangement(self, name: str) -> Lanes | None:
        """Return the order in which a convolution makes its channels; None for their own."""
        if name not in self.uses.free or name not in self.channels.numbers:
            return None
        numbers = self.channels.numbers[name].tolist()
        return lane_order([frozenset(self.uses.of.get(number, ())) for number in numbers], self.block)

    def announce(self, name: str, lanes: Lanes) -> None:
        """Note that a value of the old graph has other channels in the new one."""
        first, _, *pixels = self.graph.types[name].shape
        self.types[name] = TensorType((first, len(lanes), *pixels), "int8")
        self.lanes[name] = lanes

    # Reading

    def read(self, name: str) -> Read:
        """Return a tensor with the channels of a value."""
        if name not in self.reads:
            self.reads[name] = self.own(name) if name not in self.channels.moved else self.joined(name)
        return self.reads[name]

    def own(self, name: str) -> Read:
        """Return a source, as it stands."""
        lanes = self.lanes.get(name)
        return Read(name, np.arange(self.graph.types[name].shape[1]) if lanes is None else lanes)

    def joined(self, name: str) -> Read:
        """Return the blocks that hold the channels of a value that is made by moving them."""
        runs = sorted(self.runs(name), key=lambda run: len(run.lanes) % self.block != 0)
        runs = [self.filled(run) for run in runs[:-1]] + runs[-1:]
        parts = tuple(self.part(run) for run in runs)
        lanes = np.concatenate([run.lanes for run in runs])
        if len(parts) == 1:
            return Read(parts[0], lanes)
        first, _, *pixels = self.graph.types[name].shape
        whole = self.value(f"{name}_blocks", TensorType((first, len(lanes), *pixels), "int8"))
        return Read(self.add("Concat", parts, whole, {"axis": 1}), lanes)

    def runs(self, name: str) -> Iterator[Run]:
        """Yield the runs of blocks with the channels of a value; twice where it has a channel twice."""
        for wanted in _once_each(self.channels.numbers[name].tolist()):
            sources = dict.fromkeys(self.channels.source_of(number) for number in wanted)
            for source in sources:
                own = self.own(source.name)
                lanes = np.array(
                    [
                        wanted.get(source.first + lane, NO_CHANNEL) if lane != NO_CHANNEL else NO_CHANNEL
                        for lane in own.lanes.tolist()
                    ],
                    np.int64,
                )
                yield from (
                    Run(own.name, begin, lanes[begin:end]) for begin, end in _needed(lanes, self.block)
                )

    def part(self, run: Run) -> str:
        """Return a tensor of some blocks alone."""
        first, count, *pixels = self.type_of(run.name).shape
        begin, end = run.begin, run.begin + len(run.lanes)
        if (begin, end) == (0, count):
            return run.name
        if (run.name, begin, end) not in self.others:
            wish = f"{run.name}_{begin}_{end}"
            out = self.value(wish, TensorType((first, end - begin, *pixels), "int8"))
            cut = {"axes": (1,), "starts": (begin,), "ends": (end,), "steps": (1,)}
            self.others[run.name, begin, end] = self.add("Slice", (run.name,), out, cut)
        return self.others[run.name, begin, end]

    def filled(self, run: Run) -> Run:
        """Return a run that ends with a whole block: of a copy of its tensor if that does not."""
        spare = -len(run.lanes) % self.block
        if not spare:
            return run
        count = self.type_of(run.name).shape[1]
        lanes = np.array([*range(count), *[NO_CHANNEL] * spare], np.int64)
        name = self.copied(run.name, Read(run.name, np.arange(count)), lanes)
        return Run(name, run.begin, np.append(run.lanes, [NO_CHANNEL] * spare))

    def ordered(self, name: str) -> str:
        """Return a tensor with the channels of a value in order."""
        return self.copied(name, self.read(name), np.arange(self.graph.types[name].shape[1]))

    def copied(self, name: str, read: Read, lanes: Lanes) -> str:
        """Return the product of what is read with ones that has these channels."""
        key = (name, "copied", len(lanes))
        if key not in self.others:
            first, _, *pixels = self.type_of(read.name).shape
            out = self.value(f"{name}_ordered", TensorType((first, len(lanes), *pixels), "int8"))
            ones = (lanes[:, None] == read.lanes) & (lanes[:, None] != NO_CHANNEL)
            names = (
                self.constant(f"{out}_weights", ones.astype(np.int8)[..., None, None]),
                self.constant(f"{out}_parameters", scaling(np.ones(1), 0, Quantisation(1.0, 0))),
            )
            self.nodes.append(Node("Int8Conv", (read.name, *names), (out,), ONCE, macs=0))
            self.others[key] = out
        return self.others[key]

    def type_of(self, name: str) -> TensorType:
        """Return the type of a value of the new graph."""
        return self.types.get(name) or self.graph.types[name]


def picked(array: np.ndarray, lanes: Lanes, axis: int, spare: int | None) -> np.ndarray:
    """Return what belongs to each lane along an axis: 0 where it holds no channel, or what belongs to the
    channel `spare`; what is alike for all channels stays."""
    if spare is not None and array.shape[axis] == 1:
        return array
    found = array.take(np.where(lanes == NO_CHANNEL, spare or 0, lanes), axis)
    if spare is None:
        found[(slice(None),) * axis + (lanes == NO_CHANNEL,)] = 0
    return found


def dense(weights: np.ndarray, groups: int) -> np.ndarray:
    """Return int8[o, c, kh, kw] of weights int8[o, c / groups, kh, kw]: 0 between different groups."""
    if groups == 1:
        return weights
    outputs, inputs, *kernel = weights.shape
    found = np.zeros((outputs, groups, inputs, *kernel), weights.dtype)
    places = np.arange(outputs)
    found[places, places // (outputs // groups)] = weights
    return found.reshape(outputs, groups * inputs, *kernel)


def _once_each(numbers: Iterable[int]) -> list[dict[int, int]]:
    """Return the places of channels by their numbers, in as many parts as one stands at most."""
    parts: list[dict[int, int]] = []
    for place, number in enumerate(numbers):
        part = next((part for part in parts if number not in part), None)
        if part is None:
            part = {}
            parts.append(part)
        part[number] = place
    return parts


def _needed(lanes: Lanes, block: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of blocks in which there is a channel, in lanes."""
    begin: int | None = None
    for first in range(0, len(lanes), block):
        if (lanes[first : first + block] != NO_CHANNEL).any():
            begin = first if begin is None else begin
        elif begin is not None:
            yield begin, first
            begin = None
    if begin is not None:
        yield begin, len(lanes)
