"""A border of zeros around an image goes into the convolution or the pooling that reads it.

`Conv(Pad(x))` becomes `Conv(x)` with wider pads. So it does where Pad stands between conversions of one
scale: a border of zeros is one of zero points. A MaxPool has a border below all numbers; where no number is
less than 0, as behind Relu, that makes no difference.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.nodes import Attribute, Graph, Node, producers
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.rewrite import rebuilt

WINDOWS = ("AveragePool", "Conv", "MaxPool")
SPACE = 2  # the first dimension of space


@dataclass(frozen=True, slots=True)
class FoldPads:
    """The pass; it takes borders of constant zeros of the dimensions of space alone."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with borders in windows."""
        found = _Borders(graph)
        return DeadCode().run(rebuilt(graph, map(found.folded, graph.nodes)))


class _Borders:
    """Who makes each value of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.makers = graph, producers(graph)

    def folded(self, node: Node) -> Node:
        """Return a node that has the border of the Pad before it as its own; others as they are."""
        if node.op not in WINDOWS:
            return node
        pad = self.pad_before(node.inputs[0])
        attributes = None if pad is None else self.widened(node, pad)
        if pad is None or attributes is None:
            return node
        return replace(node, inputs=(pad.inputs[0], *node.inputs[1:]), attributes=attributes)

    def pad_before(self, name: str) -> Node | None:
        """Return the Pad that makes a value, straight or before conversions of the scale of what it reads."""
        node = self.makers.get(name)
        if node is not None and node.op == "DequantizeLinear":
            quantise = self.makers.get(node.inputs[0])
            node = None if quantise is None else self.makers.get(quantise.inputs[0])
            before = None if node is None else self.makers.get(node.inputs[0])
            if quantise is None or before is None or not self.same_scale(before, quantise):
                return None
            if not self.same_scale(quantise, self.makers[name]):
                return None
        return node if node is not None and node.op == "Pad" and self.is_of_zeros(node) else None

    def same_scale(self, one: Node, other: Node) -> bool:
        """Whether two nodes are conversions by the same constants."""
        if {one.op, other.op} != {"DequantizeLinear", "QuantizeLinear"}:
            return False
        arrays = [[self.graph.constants.get(name) for name in node.inputs[1:3]] for node in (one, other)]
        return all(
            a is not None and b is not None and a.dtype == b.dtype and a.size == 1 and np.array_equal(a, b)
            for a, b in zip(*arrays, strict=True)
        )

    def is_of_zeros(self, pad: Node) -> bool:
        """Whether a Pad adds zeros around the space of images or rows."""
        type_, pads = self.graph.types[pad.inputs[0]], pad.extents("pads")
        rank = len(type_.shape)
        outside = (*pads[:SPACE], *pads[rank : rank + SPACE])
        zeros = pad.attributes["mode"] == "constant" and pad.attributes["value"] == 0
        return zeros and type_.dtype == "float32" and min(pads, default=0) >= 0 and not any(outside)

    def widened(self, node: Node, pad: Node) -> dict[str, Attribute] | None:
        """Return the attributes of a window with the border of a Pad; None where they cannot express it."""
        added, own = _of_space(pad.extents("pads")), node.extents("pads")
        pads = tuple(one + other for one, other in zip(own, added, strict=True))
        attributes: dict[str, Attribute] = {**node.attributes, "pads": pads}
        if node.op == "Conv":
            return attributes
        kernel = node.extents("kernel_shape")
        if node.integer("ceil_mode") or max(pads) >= min(kernel):
            return None
        if node.op == "AveragePool":
            counted = bool(node.integer("count_include_pad")) or not any(own)
            return {**attributes, "count_include_pad": 1} if counted else None
        return attributes if self.is_positive(pad.inputs[0]) else None

    def is_positive(self, name: str) -> bool:
        """Whether no element of a value is less than 0."""
        node = self.makers.get(name)
        while node is not None and node.op in ("DequantizeLinear", "MaxPool", "QuantizeLinear"):
            if node.op == "DequantizeLinear" and self.starts_at_zero(node):
                return True
            node = self.makers.get(node.inputs[0])
        if node is None or node.op not in ("Clip", "Relu"):
            return False
        return node.op == "Relu" or node.real("min") >= 0

    def starts_at_zero(self, dequantise: Node) -> bool:
        """Whether the least integer of a type stands for 0."""
        zero = self.graph.constants.get(dequantise.inputs[2])
        return zero is not None and zero.dtype.kind in "iu" and bool((zero == np.iinfo(zero.dtype).min).all())


def _of_space(pads: Sequence[int]) -> tuple[int, ...]:
    """Return the borders of the dimensions of space alone: all begins, then all ends."""
    rank = len(pads) // 2
    return (*pads[SPACE:rank], *pads[rank + SPACE :])
