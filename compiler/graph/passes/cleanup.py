"""Clean-up passes: constant folding, common subexpressions, identities, dead code."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.conversions import CONVERSIONS
from vdla.compiler.graph.interpret import run_node
from vdla.compiler.graph.nodes import RESHAPING, Graph, Node, type_of
from vdla.compiler.graph.rewrite import rebuilt, renamed

ALWAYS = ("Dropout", "Identity")
WITH_EQUAL_TYPES = (*ALWAYS, "Cast", "Expand", *RESHAPING)


@dataclass(frozen=True, slots=True)
class ConstantFolding:
    """Computes values that depend only on constants at compile time. Conversions are not computed, so that
    weights stay narrow.

    Attributes:
        limit_elements: larger results are computed at run time.
    """

    limit_elements: int = 1 << 27

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with constants in place of nodes whose inputs are all constants."""
        constants, nodes = dict(graph.constants), []
        for node in graph.nodes:
            if self._can_fold(graph, node, constants):
                constants |= run_node(node, constants, graph.types)
            else:
                nodes.append(node)
        return rebuilt(graph, nodes, constants)

    def _can_fold(self, graph: Graph, node: Node, constants: dict[str, np.ndarray]) -> bool:
        small = all(graph.types[name].size <= self.limit_elements for name in node.outputs)
        return small and node.op not in CONVERSIONS and all(name in constants for name in node.inputs if name)


@dataclass(frozen=True, slots=True)
class CommonSubexpressions:
    """Merges equal nodes and equal constants."""

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


@dataclass(frozen=True, slots=True)
class RemoveIdentity:
    """Removes nodes whose result is their input, element for element and in the same shape."""

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


@dataclass(frozen=True, slots=True)
class DeadCode:
    """Removes nodes on which no output depends, and unread trailing outputs of the other nodes."""

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
