"""Expands products of more than eight bits into int8 products, which the multiplier array computes.

Weights less their zero point need nine bits or more. They are split into a sum of int8 weights, the *parts*;
the sum of the products with all parts is exact. The tensor is repeated along its channels, once for each
part; the image of a depthwise convolution is repeated along its rows. Likewise the image of a transposed
convolution less its zero point is a sum of int8 images. These are concatenated along the channels, and the
weights are repeated.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.integers import GREATEST, LEAST, Quantisation, scaling, signed_bytes
from vdla.compiler.graph.macs import macs
from vdla.compiler.graph.nodes import Attribute, Graph, Node, TensorType
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.compiler.lower.tables import OPERATORS
from vdla.compiler.network.channels import selected_channels
from vdla.compiler.network.offload import offload
from vdla.compiler.network.views import VIEWS
from vdla.compiler.operands.interleaved import activation_block
from vdla.compiler.rules import Unfit
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.target import Target

INPUTS_AXIS = {"Int8Conv": 1, "Int8ConvTranspose": 0, "Int8MatMul": 0}  # axis of input channels in weights
NEAREST: Mapping[str, Attribute] = {
    "coordinate_transformation_mode": "asymmetric",
    "nearest_mode": "floor",
}


def in_eight_bits(graph: Graph, target: Target) -> Graph:
    """Return a graph whose products have int8 weights and images of zero point 0. A product stays as it is,
    with the reason, if `target` cannot run its expansion."""
    wide = [node for node in graph.nodes if _is_wide(graph, node)]
    if not wide:
        return graph
    expanded = _Expansion(graph, target.config, {}).run()
    names = {node.result for node in wide}
    results = {
        node.result: offload(expanded, node, target) for node in expanded.nodes if node.result in names
    }
    reasons = {name: result.reason for name, result in results.items() if isinstance(result, Unfit)}
    return _Expansion(graph, target.config, reasons).run() if reasons else expanded


def _is_wide(graph: Graph, node: Node) -> bool:
    """Whether a product has constant weights of more than eight bits, or an image with a zero point."""
    if node.op not in INPUTS_AXIS or any(name not in graph.constants for name in node.inputs[1:]):
        return False
    return graph.constants[node.inputs[1]].dtype != np.int8 or bool(node.attributes.get("zero"))


def images_less(zero: int) -> list[np.ndarray]:
    """Return the parameters int64[4, 1] of requantisations whose results sum up to an int8 value less
    `zero`."""
    if zero < 0:
        step, count, rest = GREATEST, -((zero - GREATEST) // GREATEST), (0, GREATEST)
    else:
        step, count, rest = LEAST, -((LEAST - zero) // -LEAST), (LEAST, 0)
    bounds = [(LEAST, GREATEST), *[rest] * (count - 1)]
    return [
        scaling(np.ones(1), -zero - place * step, Quantisation(1.0, 0, *each))
        for place, each in enumerate(bounds)
    ]


class _Expansion(GraphBuilder):
    """The new graph under construction.

    Args:
        reasons: reasons why products stay as they are, by their result.

    Attributes:
        copies: repeated tensors, by the name of their source, the kind of repetition, the groups, and the
            number of copies or the zero point.
    """

    def __init__(self, graph: Graph, config: AcceleratorConfig, reasons: Mapping[str, str]) -> None:
        super().__init__(graph)
        self.config, self.reasons = config, reasons
        self.makers = DefUse(graph).makers
        self.copies: dict[tuple[str, str, int, int], str] = {}

    def run(self) -> Graph:
        """Return the graph with int8 products."""
        for node in self.graph.nodes:
            if not _is_wide(self.graph, node):
                self.nodes.append(node)
            elif node.result in self.reasons:  # the host runs it
                self.nodes.append(replace(node, reason=self.reasons[node.result]))
            else:
                self.nodes.append(self.narrowed(node))
        return self.finished()

    def narrowed(self, node: Node) -> Node:
        """Return the int8 product that makes the result of `node`; add the operators that make its
        operand."""
        weights, count = self.graph.constants[node.inputs[1]], macs(self.graph, node)
        if node.attributes.get("zero"):
            images = images_less(node.integer("zero"))
            weights = np.concatenate([weights] * len(images), INPUTS_AXIS[node.op])
            node = self.at_zero(node, images)
        (name, *_), attributes, parts = node.inputs, dict(node.attributes), signed_bytes(weights)
        if len(parts) == 1:
            (weights,) = parts
        elif self.has_rows(name, node, weights):
            name, weights, attributes = self.by_rows(name, parts, node)
        else:
            groups = node.integer("group") if node.op == "Int8Conv" else 1
            name = self.repeated(name, node.op, groups, len(parts))
            weights = np.concatenate(parts, INPUTS_AXIS[node.op])
        constant = self.constant(f"{node.inputs[1]}_int8", np.ascontiguousarray(weights, np.int8))
        inputs = name, constant, node.inputs[2]
        return replace(node, inputs=inputs, attributes=attributes, macs=count)

    # Wide weights

    def has_rows(self, name: str, node: Node, weights: np.ndarray) -> bool:
        """Whether a product is a depthwise convolution of one image whose kernel reads adjacent rows."""
        if node.op != "Int8Conv":
            return False
        shape, groups = self.type_of(name).shape, node.integer("group")
        depthwise = groups > 1 and weights.shape[:2] == (groups, 1) and groups == shape[1]
        return depthwise and shape[0] == 1 and (weights.shape[2] == 1 or node.pair("dilations")[0] == 1)

    def by_rows(
        self, name: str, parts: list[np.ndarray], node: Node
    ) -> tuple[str, np.ndarray, dict[str, Attribute]]:
        """Return an image with each row repeated, kernels whose rows are interleaved, and the attributes of
        their depthwise convolution: the image is convolved with the sum of the kernels."""
        times, (images, channels, high, wide) = len(parts), self.type_of(name).shape
        sizes = (images, channels, times * high, wide)
        key = (name, "rows", 1, times)
        if key not in self.copies:
            out = self.value(f"{name}_rows", TensorType(sizes, "int8"))
            scales = (1.0, 1.0, float(times), 1.0)
            self.copies[key] = self.add("Resize", (name,), out, {**NEAREST, "scales": scales, "sizes": sizes})
        kernels = np.stack(parts, 3).reshape(channels, 1, -1, parts[0].shape[3])
        (down, across), pads = node.pair("strides"), node.extents("pads")
        tall = tuple(times * pad if place % 2 == 0 else pad for place, pad in enumerate(pads))
        adjacent = (1, node.pair("dilations")[1])  # the rows of the parts
        moves = {"dilations": adjacent, "pads": tall, "strides": (times * down, across)}
        return self.copies[key], kernels, {**node.attributes, **moves}

    def repeated(self, name: str, op: str, groups: int, count: int) -> str:
        """Return a tensor that has the channels of each group `count` times."""
        image, shape = op != "Int8MatMul", list(self.type_of(name).shape)
        axis = 1 if image else len(shape) - 1
        channels, shape[axis] = shape[axis], count * shape[axis]
        key = (name, "channels" if image else "columns", groups, count)
        if key in self.copies:
            return self.copies[key]
        out = self.copies[key] = self.value(f"{name}_repeated", TensorType(tuple(shape), "int8"))
        if groups == 1 and (self.has_whole_blocks(channels) or self.comes_in(name)):
            return self.add("Concat", (name,) * count, out, {"axis": axis})
        selection = np.tile(np.eye(channels // groups, dtype=np.int8), (count * groups, 1))
        return selected_channels(self, name, out, selection, groups=groups if image else None)

    def has_whole_blocks(self, channels: int) -> bool:
        """Whether the accelerator concatenates tensors of `channels` channels without a product."""
        return channels % activation_block(self.config) == 0

    def comes_in(self, name: str) -> bool:
        """Whether a tensor is an input of the network or the host computes it from an input. The host then
        concatenates it."""
        maker = self.makers.get(name)
        if maker is None:
            return True
        on_host = maker.op not in OPERATORS or maker.op in VIEWS
        return on_host and any(map(self.graph.inputs.get, maker.inputs))

    # Images less their zero point

    def at_zero(self, node: Node, images: list[np.ndarray]) -> Node:
        """Return a transposed convolution that reads the sum of `images`, its image less the zero point. The
        images are concatenated along the channels."""
        name, *constants = node.inputs
        key = (name, "less", 1, node.integer("zero"))
        if key not in self.copies:
            self.copies[key] = self.joined(name, images)
        attributes = {**node.attributes, "zero": 0}
        return replace(node, inputs=(self.copies[key], *constants), attributes=attributes)

    def joined(self, name: str, parts: list[np.ndarray]) -> str:
        """Add the requantisations of an image by the parameters of each part, and their concatenation."""
        count, channels, *pixels = self.graph.types[name].shape
        out = self.value(f"{name}_less", TensorType((count, len(parts) * channels, *pixels), "int8"))
        if not self.has_whole_blocks(channels):
            selection = np.tile(np.eye(channels, dtype=np.int8), (len(parts), 1))
            words = np.concatenate([np.repeat(part, channels, 1) for part in parts], 1)
            return selected_channels(self, name, out, selection, words)
        names = tuple(self.value(f"{out}_part", self.graph.types[name]) for _ in parts)
        for part, words in zip(names, parts, strict=True):
            self.add("Int8Requantise", (name, self.constant(f"{part}_parameters", words)), part)
        return self.add("Concat", names, out, {"axis": 1})
