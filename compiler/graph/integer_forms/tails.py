"""Changes of channels behind an operator, which go into its requantisation: batch normalisation, scales,
shifts, biases."""

from typing import NamedTuple

from vdla.compiler.graph.affine import Affine, affine_of
from vdla.compiler.graph.conversions import Conversions
from vdla.compiler.graph.integer_forms.site import multiplies_activations
from vdla.compiler.graph.nodes import Node

IMAGE_RANK = 4
PRODUCTS = {"Conv": 1, "ConvTranspose": 1, "Gemm": -1, "MatMul": -1}  # with the axis of output channels


class Tail(NamedTuple):
    """Changes of channels.

    Attributes:
        node: the product behind which they stand; the first change where they stand alone behind a
            DequantizeLinear.
        affine: all of them.
        alone: no product stands before them.
        last: channels are the last dimension, also of what has as many dimensions as an image.
    """

    node: Node
    affine: Affine
    alone: bool
    last: bool


def tail_of(found: Conversions, node: Node) -> Tail | None:
    """Return the changes that end with `node`, behind a product of quantised operands that nothing else reads
    or a DequantizeLinear; None where there are none."""
    return next((tail for axis in (1, -1) if (tail := _along(found, node, axis)) is not None), None)


def _multiplies(found: Conversions, node: Node) -> bool:
    """Whether a product is one with quantised constants, or of two quantised tensors."""
    return found.constants(node.inputs[1]) is not None or (
        multiplies_activations(found, node) and all(map(found.is_dequantised, node.inputs))
    )


def _along(found: Conversions, node: Node, axis: int) -> Tail | None:
    graph, total = found.graph, affine_of(found.graph, node, axis)
    first = node
    while total is not None:
        before = found.makers.get(total.x)
        if before is None:
            return None
        if before.op == "DequantizeLinear":
            alone = axis == -1 or len(graph.types[total.x].shape) == IMAGE_RANK
            return Tail(first, total, alone, last=axis == -1) if alone else None
        if len(found.readers[total.x]) > 1 or total.x in graph.outputs:
            return None
        if PRODUCTS.get(before.op) == axis and _multiplies(found, before):
            return Tail(before, total, alone=False, last=axis == -1)
        earlier, first = affine_of(graph, before, axis), before
        total = None if earlier is None else total.after(earlier)
    return None
