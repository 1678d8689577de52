"""uint8 tensors between QuantizeLinear and DequantizeLinear become int8: values and zero points minus 128.

The accelerator multiplies signed bytes. Values that go into or out of the network keep their type.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.nodes import Graph, Node, TensorType, consumers, fresh_name, producers
from vdla.compiler.graph.rewrite import rebuilt

SHIFT = 128


@dataclass(frozen=True, slots=True)
class SignedActivations:
    """The pass."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with signed bytes."""
        readers, makers = consumers(graph), producers(graph)
        moved = {name for name in graph.types if _movable(graph, name, readers, makers)}
        zero_points = {
            node.inputs[2]
            for node in graph.nodes
            if node.op in CONVERSIONS and {node.inputs[0], node.outputs[0]} & moved
        }
        names = {name: fresh_name(f"{name}_signed", graph.types) for name in zero_points}
        constants = {names[name]: _signed(graph.constants[name]) for name in zero_points}
        constants |= {name: _signed(graph.constants[name]) for name in moved & graph.constants.keys()}
        types = {name: TensorType(graph.types[name].shape, "int8") for name in moved}
        return rebuilt(graph, (_changed(node, moved, names) for node in graph.nodes), constants, types)


CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")


def _movable(graph: Graph, name: str, readers: Mapping[str, list[Node]], makers: Mapping[str, Node]) -> bool:
    """Whether a value is uint8, and only conversions between it and real numbers make and read it."""
    made = makers.get(name)
    fixed = name in graph.constants or (
        made is not None and made.op == "QuantizeLinear" and made.inputs[2] in graph.constants
    )
    read = all(
        node.op == "DequantizeLinear" and node.inputs[0] == name and node.inputs[2] in graph.constants
        for node in readers[name]
    )
    return (
        graph.types[name].dtype == "uint8"
        and fixed
        and bool(readers[name])
        and read
        and name not in graph.outputs
    )


def _signed(array: np.ndarray) -> np.ndarray:
    return (array.astype(np.int16) - SHIFT).astype(np.int8)


def _changed(node: Node, moved: set[str], names: Mapping[str, str]) -> Node:
    if node.op in CONVERSIONS and {node.inputs[0], node.outputs[0]} & moved:
        return replace(node, inputs=(*node.inputs[:2], names[node.inputs[2]]))
    return node
