"""Identities: nodes whose result is their input, element for element and in the same shape."""

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
        """Return `graph` without identities; one stays where an input or a constant goes out under another
        name, or a value under two."""
        names: dict[str, str] = {}
        nodes: list[Node] = []
        for node in (renamed(node, names) for node in graph.nodes):
            if not _is_identity(graph, node):
                nodes.append(node)
            elif node.outputs[0] not in graph.outputs:
                names[node.outputs[0]] = node.inputs[0]
            elif not _rename_producer(graph, nodes, node):
                nodes.append(node)
            else:
                old, new = node.inputs[0], node.outputs[0]
                names = {name: new if target == old else target for name, target in names.items()} | {
                    old: new
                }
        return rebuilt(graph, nodes)


def _is_identity(graph: Graph, node: Node) -> bool:
    if (
        len(node.outputs) != 1
        or not node.inputs
        or graph.types[node.inputs[0]] != graph.types[node.outputs[0]]
    ):
        return False
    match node.op:
        case "Transpose":
            return node.extents("perm") == tuple(range(len(node.extents("perm"))))
        case "Slice":
            return min(node.extents("steps"), default=1) > 0
        case "Pad":
            return not any(node.extents("pads"))
        case "Concat" | "Split" | "Sum" | "Max" | "Min" | "Mean":
            return len(node.inputs) == 1
    return node.op in WITH_EQUAL_TYPES


def _rename_producer(graph: Graph, nodes: list[Node], identity: Node) -> bool:
    """Let whatever makes the identity's input make its output instead, in `nodes`; return whether that could
    be done."""
    old, new = identity.inputs[0], identity.outputs[0]
    if old in graph.outputs or not any(old in node.outputs for node in nodes):
        return False
    for place, node in enumerate(nodes):
        outputs = tuple(new if name == old else name for name in node.outputs)
        nodes[place] = renamed(replace(node, outputs=outputs), {old: new})
    return True
