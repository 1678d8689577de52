"""Dead code elimination: nodes on which no output depends are removed.

Unread trailing outputs of the remaining nodes are also removed.
"""

from dataclasses import dataclass, replace

from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.rewrite import rebuilt


@dataclass(frozen=True, slots=True)
class DeadCode:
    """The pass."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` without nodes and constants that no output needs."""
        needed, kept = set(graph.outputs), []
        for node in reversed(graph.nodes):
            if needed.intersection(node.outputs):
                kept.append(_trimmed(node, needed))
                needed.update(node.inputs)
        return rebuilt(graph, reversed(kept))


def _trimmed(node: Node, needed: set[str]) -> Node:
    last = max(place for place, name in enumerate(node.outputs) if name in needed)
    return replace(node, outputs=node.outputs[: last + 1])
