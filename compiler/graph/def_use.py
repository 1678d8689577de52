"""The makers and the readers of the values of a graph."""

from collections.abc import Iterator, Mapping

import numpy as np

from vdla.compiler.graph.nodes import Graph, Node, TensorType

COMMUTATIVE = ("Add", "Max", "Mul")


class DefUse:
    """The maker and the readers of each value of a graph.

    Attributes:
        graph: the given graph.
        types, constants: types and constants of its values.
        makers: the node that makes each value, except inputs and constants.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.types: Mapping[str, TensorType] = graph.types
        self.constants: Mapping[str, np.ndarray] = graph.constants
        self.makers: dict[str, Node] = {name: node for node in graph.nodes for name in node.outputs}
        self._readers: dict[str, dict[int, Node]] = {}
        for node in graph.nodes:
            self._add_reads(node)

    def _add_reads(self, node: Node) -> None:
        for name in node.inputs:
            if name:
                self._readers.setdefault(name, {})[id(node)] = node

    def readers(self, name: str) -> list[Node]:
        """Return the nodes that read a value, each once."""
        return list(self._readers.get(name, {}).values())

    def maker(self, name: str, *ops: str) -> Node | None:
        """Return the node that makes a value, or None; of the operators `ops`, if they are given."""
        node = self.makers.get(name)
        return node if node is not None and (not ops or node.op in ops) else None

    def only_reader(self, name: str, *ops: str) -> Node | None:
        """Return the only reader of a value, or None; of the operators `ops`, if they are given.

        None also if the node reads the value twice, or the value is an output of the graph.
        """
        readers = self._readers.get(name, {})
        if len(readers) != 1 or name in self.graph.outputs:
            return None
        (node,) = readers.values()
        return node if node.inputs.count(name) == 1 and (not ops or node.op in ops) else None

    def is_read_once(self, name: str) -> bool:
        """Whether a value has a single read and is no output of the graph."""
        return self.only_reader(name) is not None

    def operands(self, name: str, op: str) -> Iterator[tuple[str, str]]:
        """Yield both operands of the node that makes a value, if the node is `op`; in both orders if `op` is
        commutative."""
        node = self.maker(name, op)
        if node is not None and len(node.inputs) == 2:
            first, second = node.inputs
            yield first, second
            if op in COMMUTATIVE:
                yield second, first

    def number(self, name: str) -> float | None:
        """Return the number in a constant of a single element; None for other values."""
        array = self.constants.get(name)
        return float(array.item()) if array is not None and array.size == 1 else None

    def are_constant(self, *names: str) -> bool:
        """Whether all values are constants; the name "" of an omitted input counts as a constant."""
        return all(name in self.constants for name in names if name)
