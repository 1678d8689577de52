"""A dense layer on a flattened image becomes a convolution whose kernel covers the image.

`Int8MatMul(Flatten(x), w)` becomes `Reshape(Int8Conv(x, w))` with w int8[c·h·w, N] as int8[N, c, h, w], so
that x stays as convolutions make it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph.nodes import Attribute, Graph, Node, TensorType, producers
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.rewrite import Rewriting

FLATTENING = ("Flatten", "Reshape")
ONCE: Mapping[str, Attribute] = {
    "border": 0,
    "dilations": (1, 1),
    "group": 1,
    "pads": (0, 0, 0, 0),
    "strides": (1, 1),
}


@dataclass(frozen=True, slots=True)
class DenseToConv:
    """The pass; it changes products of one row with constant weights that read Flatten or Reshape of
    int8[1, c, h, w]."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with convolutions in place of such products."""
        made, makers = Rewriting(graph), producers(graph)
        for node in graph.nodes:
            flattening = makers.get(node.inputs[0]) if node.op == "Int8MatMul" else None
            if flattening is None or not _covers_image(graph, flattening, node):
                made.nodes.append(node)
            else:
                _to_conv(made, flattening, node)
        return DeadCode().run(made.finished())


def _covers_image(graph: Graph, flattening: Node, product: Node) -> bool:
    image, row = (graph.types[node.inputs[0]] for node in (flattening, product))
    one_image = len(image.shape) == 4 and image.shape[0] == 1 and row.size == row.shape[-1]
    return (
        flattening.op in FLATTENING
        and one_image
        and all(name in graph.constants for name in product.inputs[1:])
    )


def _to_conv(made: Rewriting, flattening: Node, product: Node) -> None:
    """Append the convolution in place of a product, and the change of shape behind it."""
    (image, *_), (out,), weights = flattening.inputs, product.outputs, made.graph.constants[product.inputs[1]]
    kernels = made.constant(
        f"{out}_kernels", np.ascontiguousarray(weights.T).reshape(-1, *made.graph.types[image].shape[1:])
    )
    sums = made.value(f"{out}_image", TensorType((1, weights.shape[1], 1, 1), "int8"))
    made.add("Int8Conv", (image, kernels, product.inputs[2]), sums, ONCE, product.name)
    made.add("Reshape", (sums,), out, {"shape": made.graph.types[out].shape})
