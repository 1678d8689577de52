"""PRelu with a slope for each channel becomes operators that have integer forms.

`QuantizeLinear(PRelu(DequantizeLinear(x), slopes))` becomes the sum of `Relu(x)` and of `slopes * x` where
that is less than 0, both on the grid of the result. For every element one of both is 0, so the sum is exact.
Where a slope is negative, x is bounded by 0 before it is multiplied. A PRelu with one slope becomes a table.
"""

from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph.nodes import Attribute, Graph, Node, TensorType, consumers, producers
from vdla.compiler.graph.rewrite import Rewriting

LEAST: float = float(np.finfo(np.float32).min)
SLOPES = "a constant slope for each channel, between conversions, which becomes a sum"
BELOW_ZERO: dict[str, Attribute] = {"max": 0.0, "min": LEAST}


@dataclass(frozen=True, slots=True)
class SplitPRelu:
    """The pass; it takes a PRelu between conversions of one scale each, whose result nothing else reads."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with sums."""
        made, makers, readers = Rewriting(graph), producers(graph), consumers(graph)
        for node in graph.nodes:
            before = makers.get(node.inputs[0]) if node.op == "PRelu" else None
            after = readers[node.outputs[0]]
            alone = len(after) == 1 and node.outputs[0] not in graph.outputs
            if before is not None and alone and _fits(graph, node, before, after[0]):
                _split(made, node, before, after[0])
            else:
                made.nodes.append(node)
        return made.finished()


def _fits(graph: Graph, node: Node, before: Node, after: Node) -> bool:
    """Whether a PRelu has several constant slopes, and stands between two conversions."""
    slopes = graph.constants.get(node.inputs[1])
    if slopes is None or slopes.size == 1 or (before.op, after.op) != ("DequantizeLinear", "QuantizeLinear"):
        return False
    return all(
        name in graph.constants and graph.types[name].size == 1
        for conversion in (before, after)
        for name in conversion.inputs[1:]
    )


def _split(made: Rewriting, node: Node, before: Node, after: Node) -> None:
    """Append the sum that a PRelu between two conversions is."""
    (x, slopes), (out,) = node.inputs, node.outputs
    above = made.add("Relu", (x,), _real(made, node, "above"), {}, node.name)
    if (made.graph.constants[slopes] < 0).any():
        bounded = made.add("Clip", (x,), _real(made, node, "bounded"), BELOW_ZERO, node.name)
        again = _on_grid(made, bounded, before, node)
        below = made.add("Mul", (again, slopes), _real(made, node, "below"), {}, node.name)
    else:
        product = made.add("Mul", (x, slopes), _real(made, node, "product"), {}, node.name)
        below = made.add("Clip", (product,), _real(made, node, "below"), BELOW_ZERO, node.name)
    parts = (_on_grid(made, above, after, node), _on_grid(made, below, after, node))
    made.add("Add", parts, out, {}, node.name)


def _real(made: Rewriting, node: Node, what: str) -> str:
    """Announce a value like the result of a PRelu."""
    (out,) = node.outputs
    return made.value(f"{out}_{what}", made.graph.types[out])


def _on_grid(made: Rewriting, real: str, conversion: Node, node: Node) -> str:
    """Append both conversions by the scale and the zero point of one; return what they make of a value."""
    parameters, shape = conversion.inputs[1:], made.types[real].shape
    dtype = made.graph.types[parameters[1]].dtype
    integers = made.value(f"{real}_integers", TensorType(shape, dtype))
    made.add("QuantizeLinear", (real, *parameters), integers, conversion.attributes, node.name)
    again = made.value(f"{real}_again", TensorType(shape, "float32"))
    return made.add("DequantizeLinear", (integers, *parameters), again, conversion.attributes, node.name)
