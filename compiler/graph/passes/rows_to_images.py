"""Turns one-dimensional convolutions and poolings into two-dimensional operators on images of one row.

`Conv(x, w)` with x[n, c, l] becomes `Conv(x', w')` with x'[n, c, 1, l]. The values between such operators,
and the results of elementwise operators on them, also become images and keep their names. Unsqueeze and
Squeeze convert values that other operators make or read. Reshape and similar operators read images directly.

Exporters may write a two-dimensional convolution of rows between an Unsqueeze and a Squeeze. Elementwise
operators and batch normalisation between such a Squeeze and an Unsqueeze also become operators on images.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.conversions import CONVERSIONS
from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.nodes import RESHAPING, Attribute, Graph, Node, TensorType
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.runtime.host import elementwise

ROWS_RANK = 3
HEIGHT = 2  # the new dimension
WINDOWS = ("AveragePool", "Conv", "ConvTranspose", "GlobalAveragePool", "GlobalMaxPool", "MaxPool")
ALONG_AXIS = ("Concat", "Split", *CONVERSIONS)
NORMALISING = "BatchNormalization"
ON_ELEMENTS = (*ALONG_AXIS, NORMALISING, *elementwise.OPERATORS)
ONES = ("dilations", "kernel_shape", "strides")


@dataclass(frozen=True, slots=True)
class RowsToImages:
    """The pass."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with images of one row in place of rows."""
        chosen = _chosen(graph)
        return _RowsWidener(graph, chosen).run() if chosen else graph


def _is_rows(graph: Graph, name: str) -> bool:
    return bool(name) and len(graph.types[name].shape) == ROWS_RANK


def _values(graph: Graph, node: Node) -> set[str]:
    """Return the rows that a node reads or makes, without weights and parameters."""
    read = node.inputs[:1] if node.op in (*WINDOWS, NORMALISING) else node.inputs
    names = (*(name for name in read if name not in graph.constants), *node.outputs)
    return {name for name in names if _is_rows(graph, name)}


def _chosen(graph: Graph) -> set[int]:
    """Return the identities (`id`) of window operators on rows, and of elementwise operators that are
    connected to them or to images of one row."""
    chosen = {
        id(node): node for node in graph.nodes if node.op in WINDOWS and _is_rows(graph, node.inputs[0])
    }
    values = {name for node in chosen.values() for name in _values(graph, node)}
    values |= {node.result for node in graph.nodes if _squeezes(graph, node)}
    candidates = [node for node in graph.nodes if id(node) not in chosen and _keeps_places(graph, node)]
    while joined := [node for node in candidates if values & _values(graph, node)]:
        chosen |= {id(node): node for node in joined}
        values |= {name for node in joined for name in _values(graph, node)}
        candidates = [node for node in candidates if id(node) not in chosen]
    return set(chosen)


def _squeezes(graph: Graph, node: Node) -> bool:
    """Whether a node turns an image of one row into rows."""
    if node.op not in RESHAPING or not _is_rows(graph, node.result):
        return False
    return graph.types[node.inputs[0]] == _image_type(graph.types[node.result])


def _keeps_places(graph: Graph, node: Node) -> bool:
    """Whether an operator is elementwise on rows and on values that all columns share."""
    moving = [name for name in node.inputs if name and name not in graph.constants]
    alike = all(_is_rows(graph, name) or graph.types[name].size == 1 for name in moving)
    return node.op in ON_ELEMENTS and alike and all(_is_rows(graph, name) for name in node.outputs)


class _RowsWidener(GraphBuilder):
    """The new graph under construction.

    Args:
        chosen: identities (`id`) of the nodes that become operators on images.

    Attributes:
        images: the image for each value that has become an image, by the value's name as rows.
        rows: the rows for each image that is also read as rows.
    """

    def __init__(self, graph: Graph, chosen: set[int]) -> None:
        super().__init__(graph)
        self.chosen, self.makers = chosen, DefUse(graph).makers
        self.images: dict[str, str] = {}
        self.rows: dict[str, str] = {}

    def run(self) -> Graph:
        """Return the graph with images of one row."""
        for node in self.graph.nodes:
            if id(node) in self.chosen:
                self.widen(node)
            elif node.op in RESHAPING and node.inputs[0] in self.images:
                shape = self.graph.types[node.result].shape
                self.add("Reshape", (self.images[node.inputs[0]],), node.result, {"shape": shape}, node.name)
            else:
                self.nodes.append(replace(node, inputs=tuple(map(self.as_rows, node.inputs))))
        return self.finished()

    def widen(self, node: Node) -> None:
        """Append an operator on images in place of an operator on rows."""
        weights = 1 if node.op in ("Conv", "ConvTranspose") else len(node.inputs)
        inputs = tuple(
            self.weights(name) if place == weights else self.image(name)
            for place, name in enumerate(node.inputs)
        )
        outputs = tuple(map(self.result_image, node.outputs))
        self.nodes.append(replace(node, inputs=inputs, outputs=outputs, attributes=_attributes(node)))
        for name, image in zip(node.outputs, outputs, strict=True):
            if name in self.graph.outputs:
                self.add("Squeeze", (image,), name, {"axes": (HEIGHT,)})

    def result_image(self, name: str) -> str:
        """Return the image that a chosen operator makes. It has the name of the rows, unless these are an
        output of the graph."""
        type_ = _image_type(self.graph.types[name])
        if name in self.graph.outputs:
            self.images[name] = self.value(f"{name}_image", type_)
            self.rows[name] = name
        else:
            self.images[name], self.types[name] = name, type_
        return self.images[name]

    def image(self, name: str) -> str:
        """Return a value as an image; a value that is not rows is returned unchanged."""
        if not name or (len(self.graph.types[name].shape) < 2 or name in self.images):
            return self.images.get(name, name)
        if name in self.makers and _squeezes(self.graph, self.makers[name]):
            self.images[name] = self.makers[name].inputs[0]
        elif name in self.graph.constants:
            wide = np.expand_dims(self.graph.constants[name], -2)
            self.images[name] = self.constant(f"{name}_image", wide)
        else:
            image = self.value(f"{name}_image", _image_type(self.graph.types[name]))
            self.images[name] = self.add("Unsqueeze", (name,), image, {"axes": (HEIGHT,)})
        return self.images[name]

    def weights(self, name: str) -> str:
        """Return the weights of a convolution as weights for images, dequantised in the same way."""
        maker = self.makers.get(name)
        if maker is None or maker.op != "DequantizeLinear" or maker.inputs[0] not in self.graph.constants:
            return self.image(name)
        wide = self.image(maker.inputs[0])
        image = self.value(f"{name}_image", _image_type(self.graph.types[name]))
        return self.add("DequantizeLinear", (wide, *maker.inputs[1:]), image, maker.attributes, maker.name)

    def as_rows(self, name: str) -> str:
        """Return a value as rows, for operators that are not chosen."""
        if name not in self.images or self.images[name] != name:
            return self.rows.get(name, name)
        if name not in self.rows:
            image = self.value(f"{name}_rows", self.graph.types[name])
            self.rows[name] = self.add("Squeeze", (name,), image, {"axes": (HEIGHT,)})
        return self.rows[name]


def _image_type(type_: TensorType) -> TensorType:
    return TensorType((*type_.shape[:-1], 1, type_.shape[-1]), type_.dtype)


def _attributes(node: Node) -> Mapping[str, Attribute]:
    """Return the attributes of an operator on images of one row."""
    changed: dict[str, Attribute] = dict(node.attributes)
    if node.op in ALONG_AXIS:
        axis = node.integer("axis") % ROWS_RANK
        return {**changed, "axis": axis + (axis == HEIGHT)}
    if node.op not in WINDOWS:
        return changed
    for name in ONES:
        if name in changed:
            changed[name] = (1, *node.extents(name))
    if "output_padding" in changed:
        changed["output_padding"] = (0, *node.extents("output_padding"))
    if "pads" in changed:
        left, right = node.extents("pads")
        changed["pads"] = (0, left, 0, right)
    return changed
