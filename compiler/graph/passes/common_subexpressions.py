"""Common subexpression elimination: equal nodes and equal constants are merged."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph.nodes import Graph, Node, type_of
from vdla.compiler.graph.rewrite import rebuilt, renamed


@dataclass(frozen=True, slots=True)
class CommonSubexpressions:
    """The pass."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` without repeated nodes and constants; outputs keep their names."""
        names: dict[str, str] = {}
        first: dict[Hashable, tuple[str, ...]] = {}
        for name, array in graph.constants.items():
            if name not in graph.outputs:
                names |= _as_first(first, _bits(array), (name,))
        nodes = []
        for node in (renamed(node, names) for node in graph.nodes):
            again = (
                {} if set(node.outputs) & set(graph.outputs) else _as_first(first, _work(node), node.outputs)
            )
            names |= again
            if not again:
                first.setdefault(_work(node), node.outputs)
                nodes.append(node)
        return rebuilt(graph, nodes)


def _as_first(
    first: dict[Hashable, tuple[str, ...]], key: Hashable, outputs: tuple[str, ...]
) -> dict[str, str]:
    """Return a mapping from `outputs` to the earlier outputs with the same key; record `outputs` and return
    {} if there are none."""
    earlier = first.setdefault(key, outputs)
    return {} if earlier is outputs else dict(zip(outputs, earlier, strict=True))


def _work(node: Node) -> Hashable:
    attributes = tuple((name, type(value), value) for name, value in node.attributes.items())
    return node.op, node.inputs, attributes, len(node.outputs)


def _bits(array: np.ndarray) -> Hashable:
    return type_of(array), array.tobytes()
