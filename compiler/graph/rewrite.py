"""Building a graph from an existing graph: new nodes and constants, renamed values, no unused values."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from vdla.compiler.graph.nodes import Attribute, Graph, Node, TakenNames, TensorType, type_of


def rebuilt(
    graph: Graph,
    nodes: Iterable[Node],
    constants: Mapping[str, np.ndarray] | None = None,
    types: Mapping[str, TensorType] | None = None,
) -> Graph:
    """Return `graph` with `nodes` in place of its nodes, without unused constants and types.

    Args:
        constants: new or changed constants.
        types: types of new or changed values other than constants.
    """
    nodes = tuple(nodes)
    needed = {name for node in nodes for name in (*node.inputs, *node.outputs)} | set(graph.outputs)
    kept = {name: array for name, array in {**graph.constants, **(constants or {})}.items() if name in needed}
    known = {**graph.types, **(types or {}), **{name: type_of(array) for name, array in kept.items()}}
    return replace(
        graph,
        nodes=nodes,
        constants=kept,
        types={name: type_ for name, type_ in known.items() if name in needed or name in graph.inputs},
    )


def renamed(node: Node, names: Mapping[str, str]) -> Node:
    """Return `node` with its inputs renamed by `names`."""
    inputs = tuple(names.get(name, name) for name in node.inputs)
    return node if inputs == node.inputs else replace(node, inputs=inputs)


class NewValues:
    """The values that are added to a graph while it is changed.

    Attributes:
        graph: the existing graph.
        constants, types: constants and types, by name.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.constants: dict[str, np.ndarray] = {}
        self.types: dict[str, TensorType] = {}
        self._taken = TakenNames(graph.types)

    def value(self, wish: str, type_: TensorType) -> str:
        """Declare a value; return its name: `wish`, with a number if that is taken."""
        name = self._taken.take(wish)
        self.types[name] = type_
        return name

    def constant(self, wish: str, array: np.ndarray) -> str:
        """Add a constant; return its name: `wish`, with a number if that is taken."""
        name = self.value(wish, type_of(array))
        self.constants[name] = array
        return name


class GraphBuilder(NewValues):
    """A graph under construction, derived from an existing graph.

    Args:
        graph: the existing graph.

    Attributes:
        nodes: the nodes of the new graph so far, in order.
        constants, types: the constants and types that the new graph adds.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.nodes: list[Node] = []

    def add(
        self,
        op: str,
        inputs: tuple[str, ...],
        out: str,
        attributes: Mapping[str, Attribute] | None = None,
        name: str = "",
    ) -> str:
        """Append a node with the single output `out`; return `out`."""
        self.nodes.append(Node(op, inputs, (out,), attributes or {}, name))
        return out

    def type_of(self, name: str) -> TensorType:
        """Return the type of a value of either graph."""
        return self.types.get(name) or self.graph.types[name]

    def finished(self) -> Graph:
        """Return the new graph, without unused constants and types."""
        return rebuilt(self.graph, self.nodes, self.constants, self.types)
