"""Divides volumes into images: operators with three spatial dimensions become operators on slices of depth.

A volume int8[1, c, d, h, w] becomes d images int8[1, c, h, w]. A slice of the result of a convolution is a
single convolution of the slices that its kernel reaches, concatenated along channels. So a sum is requantised
once, and the result is exact. The border's share of a sum becomes part of the bias. Elementwise operators and
moves apply to each slice. The host divides volumes that enter these operators, and joins results that leave.

| operator | of a slice of the result |
|---|---|
| `Int8Conv` | `Int8Conv` of the concatenated slices |
| `Int8ConvTranspose` | `Int8ConvTranspose` of the concatenated slices that reach it |
| `Int8MaxPool` | `Int8MaxPool` of each slice, then of these results as rows of one image |
| `Int8AveragePool` of whole planes | `Int8AveragePool` of an image with the rows of all slices |
| other `Int8AveragePool` | `Int8AveragePool` of a slice, or `Int8Conv` with weights of 1 |
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from math import prod

import numpy as np

from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.integer_forms.prerequisites import SPACE, VOLUME_RANK
from vdla.compiler.graph.integers import plain_convolution
from vdla.compiler.graph.nodes import RESHAPING, Attribute, Graph, Node, TensorType, extents_of
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.compiler.network.channel_order import dense
from vdla.compiler.network.offload import operators_of
from vdla.compiler.operands.interleaved import activation_block
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Parameter
from vdla.runtime.host.evaluate import evaluate

CHANNELS, DEPTH = 1, SPACE  # axes of volumes
BY_ELEMENT = ("Identity", "Int8Add", "Int8Lookup", "Int8Mul", "Int8Requantise", "Int8Scale")
OF_SPACE = ("dilations", "kernel_shape", "output_padding", "strides")
Taps = Mapping[int, int]  # from elements of a kernel along depth to the slices that they read


def volumes_as_images(graph: Graph, target: Target) -> Graph:
    """Return the graph with operators on images in place of operators on volumes; `graph` itself if the
    target runs no convolutions, or the graph has no windows on volumes."""
    chosen = _chosen(graph) if "Int8Conv" in operators_of(target.config) else set()
    return _VolumeDivider(graph, chosen, activation_block(target.config)).run() if chosen else graph


def _is_volume(graph: Graph, name: str) -> bool:
    """Whether a value is one volume of int8."""
    type_ = graph.types[name]
    return type_.dtype == "int8" and len(type_.shape) == VOLUME_RANK and type_.shape[0] == 1


def _volumes(graph: Graph, node: Node) -> set[str]:
    """Return the volumes that a node reads or makes, except constants."""
    names = {name for name in (*node.inputs, *node.outputs) if name} - graph.constants.keys()
    return {name for name in names if _is_volume(graph, name)}


def _chosen(graph: Graph) -> set[int]:
    """Return the identities (`id`) of operators with windows on volumes, and of the operators connected to
    them that apply to each slice."""
    chosen = {id(node): node for node in graph.nodes if node.op in WINDOWS and _volumes(graph, node)}
    candidates = [node for node in graph.nodes if chosen and node.op in SLICED and _fits(graph, node)]
    values = {name for node in chosen.values() for name in _volumes(graph, node)}
    while joined := [node for node in candidates if values & _volumes(graph, node)]:
        chosen |= {id(node): node for node in joined}
        values |= {name for node in joined for name in _volumes(graph, node)}
        candidates = [node for node in candidates if id(node) not in chosen]
    return set(chosen)


def _fits(graph: Graph, node: Node) -> bool:
    """Whether an operator applies to each slice: it reads and makes volumes and parameters alone, along
    channels or depth."""
    moving = [name for name in (*node.inputs, *node.outputs) if name and name not in graph.constants]
    if not all(_is_volume(graph, name) for name in moving):
        return False
    if node.op == "Slice":
        return node.extents("axes") in ((CHANNELS,), (DEPTH,))
    if node.op == "Int8Scale":
        return node.integer("axis") == CHANNELS
    return "axis" not in node.attributes or node.integer("axis") % VOLUME_RANK in (CHANNELS, DEPTH)


def _of_space(node: Node) -> dict[str, Attribute]:
    """Return the attributes of an operator on a slice; windows lose their depth."""
    attributes = dict(node.attributes)
    attributes |= {name: node.extents(name)[1:] for name in OF_SPACE if name in attributes}
    if "pads" in attributes:
        _, above, left, _, below, right = node.extents("pads")
        attributes["pads"] = (above, left, below, right)
    return attributes


class _VolumeDivider(GraphBuilder):
    """The new graph under construction.

    Args:
        chosen: identities (`id`) of the nodes that become operators on images.
        block: channels of a block.

    Attributes:
        slices: the images of each volume that has been divided, or that a divided operator made.
        computed: the volumes that divided operators made.
        volumes: the volumes among these that the new graph has as volumes, too.
        shared: constants and moved slices that several operators read, by what they are.
    """

    def __init__(self, graph: Graph, chosen: set[int], block: int) -> None:
        super().__init__(graph)
        self.chosen, self.block, self.makers = chosen, block, DefUse(graph).makers
        self.slices: dict[str, tuple[str, ...]] = {}
        self.computed: set[str] = set()
        self.volumes: set[str] = set()
        self.shared: dict[tuple[object, ...], str] = {}

    def run(self) -> Graph:
        """Return the graph with images in place of volumes."""
        for node in self.graph.nodes:
            if id(node) not in self.chosen:
                self.keep(node)
                continue
            results = {**WINDOWS, **SLICED}[node.op](self, node)
            self.slices |= dict(zip(node.outputs, results, strict=True))
            self.computed.update(node.outputs)
        for name in self.graph.outputs:
            self.join(name)
        return self.finished()

    # Volumes and their slices

    def keep(self, node: Node) -> None:
        """Append an operator that is not divided. A change of shape of a single slice reads the slice."""
        if node.op in RESHAPING and len(self.slices.get(node.inputs[0], ())) == 1:
            shape = {"shape": self.graph.types[node.result].shape}
            self.add("Reshape", self.slices[node.inputs[0]], node.result, shape, node.name)
            return
        for name in node.inputs:
            self.join(name)
        self.nodes.append(node)

    def join(self, name: str) -> None:
        """Append the operators that join the slices of a volume, if divided operators made it."""
        if name not in self.computed or name in self.volumes:
            return
        self.volumes.add(name)
        shape, slices = self.graph.types[name].shape, self.slices[name]
        if len(slices) == 1:
            self.add("Reshape", slices, name, {"shape": shape})
            return
        thin = (*shape[:DEPTH], 1, *shape[DEPTH + 1 :])
        parts = tuple(self.reshaped(each, thin) for each in slices)
        self.add("Concat", parts, name, {"axis": DEPTH})

    def divided(self, name: str) -> tuple[str, ...]:
        """Return the slices of a volume."""
        if name not in self.slices:
            self.slices[name] = self.divide(name)
        return self.slices[name]

    def divide(self, name: str) -> tuple[str, ...]:
        """Return the slices of a volume that no divided operator makes."""
        _, channels, depth, *plane = self.graph.types[name].shape
        image, maker = (1, channels, *plane), self.makers.get(name)
        if name in self.graph.constants:
            array = self.graph.constants[name]
            return tuple(
                self.constant(f"{name}_{place}", np.ascontiguousarray(array[:, :, place]))
                for place in range(depth)
            )
        if depth == 1:
            reshapes = maker is not None and maker.op in RESHAPING and maker.inputs[0] not in self.computed
            return (self.reshaped(maker.inputs[0] if maker is not None and reshapes else name, image),)
        thin = TensorType((1, channels, 1, *plane), "int8")
        parts = tuple(self.value(f"{name}_{place}", thin) for place in range(depth))
        self.nodes.append(Node("Split", (name,), parts, {"axis": DEPTH, "split": (1,) * depth}))
        return tuple(self.reshaped(part, image) for part in parts)

    def reshaped(self, name: str, shape: tuple[int, ...]) -> str:
        """Append a Reshape; return its result."""
        out = self.value(f"{name}_{'x'.join(map(str, shape[SPACE:]))}", TensorType(shape, "int8"))
        return self.add("Reshape", (name,), out, {"shape": shape})

    def joined(self, x: str, names: Sequence[str], axis: int) -> str:
        """Return the concatenation of slices of `x` along an axis."""
        if len(names) == 1:
            return names[0]
        key = ("Concat", axis, *names)
        if key not in self.shared:
            shape = list(self.types[names[0]].shape)
            shape[axis] = sum(self.types[name].shape[axis] for name in names)
            out = self.value(f"{x}_joined", TensorType(tuple(shape), "int8"))
            self.shared[key] = self.add("Concat", tuple(names), out, {"axis": axis})
        return self.shared[key]

    def cut(self, name: str, begin: int, end: int) -> str:
        """Return the channels from `begin` to `end` of a slice."""
        first, _, *plane = self.types[name].shape
        key = ("Slice", name, begin, end)
        if key not in self.shared:
            out = self.value(f"{name}_{begin}_{end}", TensorType((first, end - begin, *plane), "int8"))
            cut = {"axes": (CHANNELS,), "starts": (begin,), "ends": (end,), "steps": (1,)}
            self.shared[key] = self.add("Slice", (name,), out, cut)
        return self.shared[key]

    def images(self, name: str) -> tuple[str, ...]:
        """Declare the slices of the result of an operator; return their names."""
        first, channels, depth, *plane = self.graph.types[name].shape
        type_ = TensorType((first, channels, *plane), "int8")
        return tuple(self.value(f"{name}_{place}", type_) for place in range(depth))

    # Operators on each slice

    def by_slice(self, node: Node) -> tuple[tuple[str, ...], ...]:
        """Append an operator for each slice; an operand of a single slice serves all."""
        results = tuple(map(self.images, node.outputs))
        operands = [
            self.divided(name) if name and _is_volume(self.graph, name) else (name,) for name in node.inputs
        ]
        attributes = _of_space(node)
        for place, outputs in enumerate(zip(*results, strict=True)):
            inputs = tuple(each[place if len(each) > 1 else 0] for each in operands)
            self.nodes.append(replace(node, inputs=inputs, outputs=outputs, attributes=attributes, macs=None))
        return results

    def concat(self, node: Node) -> tuple[tuple[str, ...], ...]:
        """Concatenate each slice along channels, or lists of slices."""
        if node.integer("axis") % VOLUME_RANK == DEPTH:
            return (tuple(each for name in node.inputs for each in self.divided(name)),)
        return self.by_slice(node)

    def split(self, node: Node) -> tuple[tuple[str, ...], ...]:
        """Split each slice along channels, or the list of slices."""
        if node.integer("axis") % VOLUME_RANK != DEPTH:
            return self.by_slice(node)
        slices, ends = self.divided(node.inputs[0]), accumulate(node.extents("split"), initial=0)
        return tuple(slices[begin:end] for begin, end in pairwise(ends))

    def slice(self, node: Node) -> tuple[tuple[str, ...], ...]:
        """Take channels of each slice, or some slices."""
        if node.extents("axes") != (DEPTH,):
            return self.by_slice(node)
        (begin,), (end,), (step,) = (node.extents(name) for name in ("starts", "ends", "steps"))
        numbers = np.arange(self.graph.types[node.inputs[0]].shape[DEPTH])
        how = {"axes": (0,), "starts": (begin,), "ends": (end,), "steps": (step,)}
        (taken,) = evaluate("Slice", [numbers], how)
        slices = self.divided(node.inputs[0])
        return (tuple(slices[place] for place in taken),)

    def resize(self, node: Node) -> tuple[tuple[str, ...], ...]:
        """Resize the slices that a Resize repeats along depth; a repeated slice is resized once."""
        scales, sizes = node.attributes["scales"], node.extents("sizes")
        assert isinstance(scales, tuple), "a Resize has a scale for each dimension"
        numbers = np.arange(self.graph.types[node.inputs[0]].shape[DEPTH])
        (taken,) = evaluate(
            "Resize",
            [numbers],
            {**node.attributes, "scales": scales[DEPTH : DEPTH + 1], "sizes": sizes[DEPTH : DEPTH + 1]},
        )
        image = (*sizes[:DEPTH], *sizes[DEPTH + 1 :])
        how = {**node.attributes, "scales": (*scales[:DEPTH], *scales[DEPTH + 1 :]), "sizes": image}
        slices, resized = self.divided(node.inputs[0]), dict[int, str]()
        for place in map(int, np.unique(taken)):
            resized[place] = self.value(f"{node.result}_{place}", TensorType(image, "int8"))
            self.add("Resize", (slices[place],), resized[place], how, node.name)
        return (tuple(resized[int(place)] for place in taken),)

    # Windows

    def taps(self, node: Node, place: int, depth: int) -> Taps:
        """Return the taps of a kernel of `depth` taps that read slices for slice `place` of the result."""
        slices = self.graph.types[node.inputs[0]].shape[DEPTH]
        dilation = node.extents("dilations")[0] if "dilations" in node.attributes else 1
        first = place * node.extents("strides")[0] - node.extents("pads")[0]
        read = {tap: first + tap * dilation for tap in range(depth)}
        return {tap: number for tap, number in read.items() if 0 <= number < slices}

    def conv(self, node: Node) -> tuple[tuple[str, ...], ...]:
        """Append the convolutions that make the slices of the result of an Int8Conv."""
        weights, words = (self.graph.constants[name] for name in node.inputs[1:])
        return self.convolved(node, weights, words, _of_space(node))

    def convolved(
        self, node: Node, weights: np.ndarray, words: np.ndarray, attributes: Mapping[str, Attribute]
    ) -> tuple[tuple[str, ...], ...]:
        """Append a convolution for each slice of the result.

        Args:
            weights: [M, C / group, depth, KH, KW].
            words: int64[4, M or 1], parameters of requantisation.
            attributes: of Int8Conv, for slices.
        """
        images, depth, group = self.images(node.result), weights.shape[2], attributes["group"]
        assert isinstance(group, int), f"{node} has a number of groups"
        for place, out in enumerate(images):
            taps = self.taps(node, place, depth)
            adapted = _with_border(words, weights, taps, node.integer("border"))
            used, places = _reached(weights, taps)
            read, kernels, groups = self.stacked(node.inputs[0], places, used, group)
            names = (
                self.once(f"{node.result}_weights", kernels, *taps),
                self.once(f"{node.result}_parameters", adapted, *taps),
            )
            count = prod(self.types[out].shape) * weights[0, :, 0].size * len(places)
            with_groups = {**attributes, "group": groups}
            self.nodes.append(Node("Int8Conv", (read, *names), (out,), with_groups, node.name, macs=count))
        return (images,)

    def once(self, wish: str, array: np.ndarray, *taps: int) -> str:
        """Add a constant that all slices share whose kernels have the same taps; return its name."""
        key = (wish, *taps)
        if key not in self.shared:
            self.shared[key] = self.constant(wish, np.ascontiguousarray(array))
        return self.shared[key]

    def stacked(
        self, x: str, places: Sequence[int], weights: np.ndarray, group: int
    ) -> tuple[str, np.ndarray, int]:
        """Return an image with the channels of several slices of `x`, and the weights int8[M, ..., KH, KW]
        and groups of its convolution.

        Args:
            weights: [M, C / group, slices, KH, KW].
        """
        channels = self.graph.types[x].shape[CHANNELS]
        if len(places) == 1:
            return self.divided(x)[places[0]], weights[:, :, 0], group
        if x not in self.computed and channels % self.block:
            kernels = weights.reshape(len(weights), -1, *weights.shape[3:])
            return self.stacked_by_host(x, places), kernels, group
        groups = _wider_groups(channels, group, self.block)
        slices, width = self.divided(x), channels // groups
        names = [slices[place] for place in places]
        if groups > 1:
            names = [
                self.cut(name, begin, begin + width) for begin in range(0, channels, width) for name in names
            ]
        parts = (dense(part, group // groups) for part in np.split(weights, groups))
        by_slice = np.concatenate([part.swapaxes(1, 2) for part in parts])
        return self.joined(x, names, CHANNELS), by_slice.reshape(len(weights), -1, *weights.shape[3:]), groups

    def stacked_by_host(self, x: str, places: Sequence[int]) -> str:
        """Return an image with the slices of each channel side by side, of a volume that the host makes and
        whose channels are no whole blocks."""
        key = ("Stack", x, *places)
        if key not in self.shared:
            _, channels, _, *plane = self.graph.types[x].shape
            step = places[1] - places[0]
            ends = (places[-1] + 1,)
            cut = {"axes": (DEPTH,), "starts": (places[0],), "ends": ends, "steps": (step,)}
            type_ = TensorType((1, channels, len(places), *plane), "int8")
            part = self.add("Slice", (x,), self.value(f"{x}_from_{places[0]}", type_), cut)
            self.shared[key] = self.reshaped(part, (1, channels * len(places), *plane))
        return self.shared[key]

    def transposed(self, node: Node) -> tuple[tuple[str, ...], ...]:
        """Append a transposed convolution for each slice of the result."""
        x, (weights, words) = node.inputs[0], (self.graph.constants[name] for name in node.inputs[1:])
        images, depth = self.images(node.result), self.graph.types[x].shape[DEPTH]
        stride, before = node.extents("strides")[0], node.extents("pads")[0]
        for place, out in enumerate(images):
            from_taps = {tap: place + before - tap for tap in range(weights.shape[2])}
            taps = {tap: at // stride for tap, at in from_taps.items() if at % stride == 0}
            taps = {tap: number for tap, number in taps.items() if 0 <= number < depth}
            used, places = _reached(weights, taps)
            kernels = np.concatenate(np.moveaxis(used, 2, 0))
            read = self.joined(x, [self.divided(x)[number] for number in places], CHANNELS)
            names = (
                self.once(f"{node.result}_weights", kernels, *taps),
                self.once(f"{node.result}_parameters", words),
            )
            self.nodes.append(Node("Int8ConvTranspose", (read, *names), (out,), _of_space(node), node.name))
        return (images,)

    def max_pool(self, node: Node) -> tuple[tuple[str, ...], ...]:
        """Append the maximum of the windows of each slice, then the maximum of slices as rows of an image."""
        depth, *kernel = node.extents("kernel_shape")
        images, attributes = self.images(node.result), _of_space(node)
        moves = set(kernel) == {1} and set(node.extents("strides")[1:]) == {1}
        pooled: dict[int, str] = {}

        def of_slice(number: int) -> str:
            if number not in pooled:
                x = self.divided(node.inputs[0])[number]
                if not moves:
                    wide = self.value(f"{node.result}_of_{number}", self.types[images[0]])
                    x = self.add("Int8MaxPool", (x,), wide, attributes, node.name)
                pooled[number] = x
            return pooled[number]

        results = []
        for place, out in enumerate(images):
            names = [of_slice(number) for number in self.taps(node, place, depth).values()]
            results.append(names[0] if len(names) == 1 else self.greatest(node, names, out))
        return (tuple(results),)

    def greatest(self, node: Node, names: Sequence[str], out: str) -> str:
        """Append the maximum `out` of images, which become the rows of one image."""
        _, channels, *plane = self.types[out].shape
        joined = self.joined(node.result, names, SPACE)
        rows = self.reshaped(joined, (1, channels, len(names), prod(plane)))
        row = self.value(f"{out}_row", TensorType((1, channels, 1, prod(plane)), "int8"))
        how = {"kernel_shape": (len(names), 1), "pads": (0, 0, 0, 0), "strides": (1, 1)}
        self.add("Int8MaxPool", (rows,), row, how, node.name)
        return self.add("Reshape", (row,), out, {"shape": self.types[out].shape})

    def average_pool(self, node: Node) -> tuple[tuple[str, ...], ...]:
        """Append the means of windows: of whole planes, of single slices, or as a convolution."""
        depth, *kernel = node.extents("kernel_shape")
        _, channels, _, *plane = self.graph.types[node.inputs[0]].shape
        words, attributes = self.graph.constants[node.inputs[1]], _of_space(node)
        unit_weights = np.ones((channels, 1, depth, *kernel), np.int8)
        whole = kernel == plane and not any(extents_of(attributes, "pads"))
        if not (whole or depth == 1) or self.graph.types[node.inputs[0]].shape[DEPTH] < depth:
            plain = plain_convolution(len(kernel))
            kept = {name: attributes[name] for name in ("border", "pads", "strides")}
            words = np.broadcast_to(words, (len(words), channels))
            return self.convolved(node, unit_weights, words, {**plain, **kept, "group": channels})
        images = self.images(node.result)
        for place, out in enumerate(images):
            taps = self.taps(node, place, depth)
            adapted = _with_border(words, unit_weights[:1], taps, node.integer("border"))
            slices = [self.divided(node.inputs[0])[number] for number in taps.values()]
            rows = self.joined(node.inputs[0], slices, SPACE)
            how = {**attributes, "kernel_shape": (len(taps) * kernel[0], kernel[1])}
            parameters = self.once(f"{node.result}_parameters", adapted, *taps)
            self.add("Int8AveragePool", (rows, parameters), out, how, node.name)
        return (images,)


def _with_border(words: np.ndarray, weights: np.ndarray, taps: Taps, border: int) -> np.ndarray:
    """Return parameters of requantisation whose biases include what the taps outside the volume add to sums:
    `border` times their weights."""
    outside = [tap for tap in range(weights.shape[2]) if tap not in taps]
    shares = border * weights[:, :, outside].astype(np.int64).reshape(len(weights), -1).sum(1)
    if not shares.any():
        return words
    adapted = np.array(np.broadcast_to(words, (len(words), len(shares))))
    adapted[Parameter.BIAS] += shares
    return adapted


def _reached(weights: np.ndarray, taps: Taps) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return the weights of the taps that read slices, and these slices. Where none does, weights of 0 read
    the first slice."""
    if not taps:
        return np.zeros_like(weights[:, :, :1]), (0,)
    return weights[:, :, list(taps)], tuple(taps.values())


def _wider_groups(channels: int, group: int, block: int) -> int:
    """Return how many groups a convolution has whose groups of channels are whole blocks: the most that
    divide `group`; 1 if groups of whole blocks do not exist."""
    counts = (count for count in range(group, 1, -1) if group % count == 0)
    return next((count for count in counts if channels // count % block == 0), 1)


Divide = Callable[[_VolumeDivider, Node], tuple[tuple[str, ...], ...]]
WINDOWS: Mapping[str, Divide] = {
    "Int8AveragePool": _VolumeDivider.average_pool,
    "Int8Conv": _VolumeDivider.conv,
    "Int8ConvTranspose": _VolumeDivider.transposed,
    "Int8MaxPool": _VolumeDivider.max_pool,
}
SLICED: Mapping[str, Divide] = {
    **dict.fromkeys(BY_ELEMENT, _VolumeDivider.by_slice),
    "Concat": _VolumeDivider.concat,
    "Resize": _VolumeDivider.resize,
    "Slice": _VolumeDivider.slice,
    "Split": _VolumeDivider.split,
}
"""What divides each operator: it returns the slices of each result."""
