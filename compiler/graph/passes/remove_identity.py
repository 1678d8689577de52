"""Identities: nodes whose result is their input, element for element and in the same shape."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vdla.compiler.graph.moves import RESHAPING
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.rewrite import rebuilt, renamed

ALWAYS = ("Dropout", "Identity")
WITH_EQUAL_TYPES = (*ALWAYS, "Cast", "Expand", *RESHAPING)


@dataclass(frozen=True, slots=True)
class RemoveIdentity:
    """The pass."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` without identities. An identity remains if it gives a graph output another name than
        an input, a constant or another output."""
        names: dict[str, str] = {}  # old names by the new names that identities gave
        results: dict[str, str] = {}  # names of graph outputs by the names of their values
        written: set[str] = set()
        nodes: list[Node] = []
        for node in (renamed(renamed(node, names), results) for node in graph.nodes):
            if not _is_identity(graph, node):
                nodes.append(node)
                written.update(node.outputs)
                continue
            old, new = node.inputs[0], node.result
            if new not in graph.outputs:
                names[new] = old
                continue
            if old in graph.outputs or old not in written:
                nodes.append(node)
            else:
                results[old] = new
                written.remove(old)
        return rebuilt(graph, (_with_results(node, results) for node in nodes))


def _is_identity(graph: Graph, node: Node) -> bool:
    if len(node.outputs) != 1 or not node.inputs or graph.types[node.inputs[0]] != graph.types[node.result]:
        return False
    match node.op:
        case "Transpose":
            return node.extents("perm") == tuple(range(len(node.extents("perm"))))
        case "Slice":
            return set(node.extents("steps")) <= {1}
        case "Pad":
            return not any(node.extents("pads"))
        case "Concat" | "Split" | "Sum" | "Max" | "Min" | "Mean":
            return len(node.inputs) == 1
    return node.op in WITH_EQUAL_TYPES


def _with_results(node: Node, names: Mapping[str, str]) -> Node:
    """Return a node with its inputs and outputs renamed."""
    outputs = tuple(names.get(name, name) for name in node.outputs)
    return renamed(node if outputs == node.outputs else replace(node, outputs=outputs), names)
