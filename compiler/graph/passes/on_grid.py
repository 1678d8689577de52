"""Operators that choose among the numbers that integers stand for leave numbers of the same grid.

`GlobalAveragePool(Relu(DequantizeLinear(x, s, z)))` reads real numbers, as onnxruntime leaves them where its
operators on integers know no Relu. But Relu makes numbers that the scale s and the zero point z hold exactly.
So a QuantizeLinear and a DequantizeLinear behind it change nothing, and both operators compute with integers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.conversions import BOUNDS
from vdla.compiler.graph.nodes import Graph, Node, TensorType, consumers, producers
from vdla.compiler.graph.rewrite import Rewriting
from vdla.runtime.host import elementwise
from vdla.runtime.host.evaluate import evaluate

CHOOSING = ("GlobalMaxPool", "MaxPool", *BOUNDS)


@dataclass(frozen=True, slots=True)
class OnGrid:
    """The pass; it takes results that operators on more than single elements read."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with conversions behind what is on a grid."""
        made, makers, readers = Rewriting(graph), dict(producers(graph)), consumers(graph)
        for node in graph.nodes:
            before = makers.get(node.inputs[0]) if node.op in CHOOSING else None
            others = readers[node.outputs[0]]
            if (
                before is None
                or not any(_mixes(graph, one) for one in others)
                or not _stays(graph, node, before)
            ):
                made.nodes.append(node)
                continue
            makers[node.outputs[0]] = _converted(made, node, before)
        return made.finished()


def _mixes(graph: Graph, node: Node) -> bool:
    """Whether a node computes with several real numbers at a time, other than single constants."""
    known = {name for name in node.inputs if name in graph.constants and graph.types[name].size == 1}
    by_element = node.op in elementwise.OPERATORS and len(set(node.inputs) - known) == 1
    return not by_element and node.op not in (*BOUNDS, "QuantizeLinear")


def _stays(graph: Graph, node: Node, before: Node) -> bool:
    """Whether a node makes numbers of the grid of the integers that `before` dequantises."""
    if before.op != "DequantizeLinear" or not all(name in graph.constants for name in before.inputs[1:]):
        return False
    scale, zero = (graph.constants[name] for name in before.inputs[1:])
    if scale.size > 1 or zero.dtype.itemsize > 1:
        return False
    limits = np.iinfo(zero.dtype)
    everything = np.arange(limits.min, limits.max + 1).astype(zero.dtype)
    (real,) = evaluate("DequantizeLinear", [everything, scale, zero], before.attributes)
    (chosen,) = evaluate(node.op, [real], node.attributes) if node.op in BOUNDS else (real,)
    return np.array_equal(_through(chosen, scale, zero, before.attributes), chosen)


def _through(
    real: np.ndarray, scale: np.ndarray, zero: np.ndarray, attributes: Mapping[str, object]
) -> np.ndarray:
    """Return real numbers as they are behind both conversions."""
    (integers,) = evaluate("QuantizeLinear", [real, scale, zero], attributes)
    return evaluate("DequantizeLinear", [integers, scale, zero], attributes)[0]


def _converted(made: Rewriting, node: Node, before: Node) -> Node:
    """Append a node with both conversions behind it; return the second one."""
    (real,) = node.outputs
    shape, dtype = made.graph.types[real].shape, made.graph.types[before.inputs[2]].dtype
    exact = made.value(f"{real}_exact", TensorType(shape, "float32"))
    integers = made.value(f"{real}_integers", TensorType(shape, dtype))
    made.nodes.append(replace(node, outputs=(exact,)))
    made.add("QuantizeLinear", (exact, *before.inputs[1:]), integers, before.attributes, node.name)
    last = Node("DequantizeLinear", (integers, *before.inputs[1:]), (real,), before.attributes, node.name)
    made.nodes.append(last)
    return last
