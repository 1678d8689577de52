"""Constant folding: values that depend only on constants are computed at compile time."""

from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph.interpret import run_node
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.rewrite import rebuilt

QUANTISATION = ("DequantizeLinear", "QuantizeLinear")


@dataclass(frozen=True, slots=True)
class ConstantFolding:
    """The pass.

    Attributes:
        kept: operators that are not folded: by default quantisation, so that weights stay narrow.
        limit_elements: larger results are computed at run time.
    """

    kept: tuple[str, ...] = QUANTISATION
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
        return small and node.op not in self.kept and all(name in constants for name in node.inputs if name)
