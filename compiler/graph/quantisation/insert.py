"""Post-training quantisation: puts QuantizeLinear and DequantizeLinear around operators with integer forms.

Activations become int8 on grids that are chosen on samples, weights int8 per output channel, biases int32. A
Relu or Clip after its only producer stays fused with it: no pair is inserted between. MaxPool and operators
that only move elements keep the scale of their input, so they are exact; what is only joined by a Concat has
the scale of the result.

Source: Jacob et al., CVPR 2018, sections 2 and 3; Krishnamoorthi, 2018.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.graph.quantisation.grids import Grid
from vdla.compiler.graph.quantisation.roles import Roles
from vdla.compiler.graph.quantise_weights import Integers, quantised_product, without_factors
from vdla.compiler.graph.rewrite import GraphBuilder, renamed
from vdla.compiler.graph.verify import verify


def with_grids(roles: Roles, grids: Mapping[str, Grid]) -> Graph:
    """Return a graph with integers around the operators that `roles` says.

    Weights become int8 per output channel, biases int32; both are constants behind a DequantizeLinear.

    Args:
        grids: of the leaders of all int8 values.
    """
    quantised = _Quantiser(roles, grids).run()
    verify(quantised)
    return quantised


class _Quantiser(GraphBuilder):
    """A quantised graph in the making.

    Attributes:
        narrow: what stands for values that integer operators make.
        paired: what stands for values that were quantised, whoever makes them.
    """

    def __init__(self, roles: Roles, grids: Mapping[str, Grid]) -> None:
        super().__init__(roles.graph)
        self.roles = roles
        self.grids = {name: grids[leader] for name, leader in roles.leaders.items()}
        self.narrow: dict[str, str] = {}
        self.paired: dict[str, str] = {}

    def run(self) -> Graph:
        """Return the quantised graph."""
        for node in self.graph.nodes:
            if self.roles.is_inside(node):
                self.add_quantised(node)
            else:
                self.nodes.append(renamed(node, self.narrow))
        return self.finished()

    def add_quantised(self, node: Node) -> None:
        """Append an operator that computes with integers, and conversions where these end behind it."""
        fused = node.outputs[0] in self.roles.fused
        changed = node if fused else replace(without_factors(node), inputs=self.inputs_of(node))
        if not self.roles.ends(node):
            self.nodes.append(changed)
            return
        outputs = tuple(map(self.made, node.outputs))
        self.nodes.append(replace(changed, outputs=outputs))
        for name, made in zip(node.outputs, outputs, strict=True):
            back = self.add_pair(made, self.grids[name], name if made != name else None)
            self.narrow[name] = self.paired[name] = back

    def made(self, name: str) -> str:
        """Return what an operator makes in place of a value that is quantised."""
        leaves = name in self.graph.outputs
        return self.value(f"{name}_real", self.graph.types[name]) if leaves else name

    def inputs_of(self, node: Node) -> tuple[str, ...]:
        """Return what stands for the inputs of a node: quantised values, and integers behind a
        DequantizeLinear."""
        if node.outputs[0] not in self.roles.products:
            moving = self.roles.activations(node)
            return tuple(self.operand(name) if name in moving else name for name in node.inputs)
        weights, bias = quantised_product(self.graph, node, self.grids[node.inputs[0]].scale)
        parts = [self.add_integers(node.inputs[1], weights)]
        if bias is not None:
            parts.append(self.add_integers(node.inputs[2], bias))
        return (self.operand(node.inputs[0]), *parts)

    def operand(self, name: str) -> str:
        """Return what stands for a value behind its conversions, which are added once."""
        if name not in self.paired:
            self.paired[name] = self.add_pair(name, self.grids[name])
        return self.paired[name]

    def add_pair(self, name: str, grid: Grid, result: str | None = None) -> str:
        """Quantise a value and take it back; return the name of what comes out."""
        type_ = self.types.get(name) or self.graph.types[name]
        parameters = (
            self.constant(f"{name}_scale", np.asarray(grid.scale, np.float32)),
            self.constant(f"{name}_zero", np.array(grid.zero, np.int8)),
        )
        narrow = self.value(f"{name}_int8", TensorType(type_.shape, "int8"))
        result = result or self.value(f"{name}_again", type_)
        self.nodes.append(Node("QuantizeLinear", (name, *parameters), (narrow,), {"axis": 0}))
        self.nodes.append(Node("DequantizeLinear", (narrow, *parameters), (result,), {"axis": 0}))
        return result

    def add_integers(self, name: str, integers: Integers) -> str:
        """Add a constant of integers and take it back to float; return the name of what comes out."""
        parts = {
            "": integers.values,
            "_scale": integers.scale,
            "_zero": np.zeros(integers.scale.shape, integers.values.dtype),
        }
        names = tuple(
            self.constant(f"{name}_{integers.values.dtype}{part}", array) for part, array in parts.items()
        )
        result = self.value(f"{name}_again", TensorType(integers.values.shape, "float32"))
        self.nodes.append(Node("DequantizeLinear", names, (result,), {"axis": integers.axis}))
        return result
