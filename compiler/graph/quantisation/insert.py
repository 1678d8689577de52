"""Post-training quantisation: inserts QuantizeLinear and DequantizeLinear around operators with integer
forms.

Activations become int8 on grids chosen on samples, weights int8 per output channel, biases int32. A Relu or
Clip that is the only reader of its input is fused: no conversions are inserted between. MaxPool and operators
that only move elements keep the scale of their input, so they are exact. A tensor that only a Concat reads
has the scale of the Concat's result.

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
from vdla.runtime.host.evaluate import evaluate


def with_grids(roles: Roles, grids: Mapping[str, Grid]) -> Graph:
    """Return the quantised graph: conversions surround the operators that compute with integers.

    Weights become int8 per output channel, biases int32; both are constants read by a DequantizeLinear.

    Args:
        roles: the roles of the nodes of the float graph.
        grids: the grid of each leader of int8 values; see `Roles.leaders`.
    """
    quantised = _Quantiser(roles, grids).run()
    verify(quantised)
    return quantised


class _Quantiser(GraphBuilder):
    """A quantised graph under construction.

    Attributes:
        narrow: the dequantised values that replace the results of integer operators, by the original name.
        paired: the dequantised values that replace quantised values of any producer, by the original name.
        wide: the dequantised values that replace expanded values, by the original name and the shape.
        integers: int8 numbers, scale and zero point of the values that are quantised.
    """

    def __init__(self, roles: Roles, grids: Mapping[str, Grid]) -> None:
        super().__init__(roles.graph)
        self.roles = roles
        self.grids = {name: grids[leader] for name, leader in roles.leaders.items()}
        self.narrow: dict[str, str] = {}
        self.paired: dict[str, str] = {}
        self.wide: dict[tuple[str, tuple[int, ...]], str] = {}
        self.integers: dict[str, tuple[str, str, str]] = {}

    def run(self) -> Graph:
        """Return the quantised graph."""
        for node in self.graph.nodes:
            if self.roles.is_integer(node):
                self.add_quantised(node)
            else:
                self.nodes.append(renamed(node, self.narrow))
        return self.finished()

    def add_quantised(self, node: Node) -> None:
        """Append an operator that computes with integers, and conversions of its results unless fused
        onwards."""
        fused = node.result in self.roles.fused
        changed = node if fused else replace(without_factors(node), inputs=self.inputs_of(node))
        if not self.roles.ends_chain(node):
            self.nodes.append(changed)
            return
        outputs = tuple(map(self.unquantised, node.outputs))
        self.nodes.append(replace(changed, outputs=outputs))
        for name, real in zip(node.outputs, outputs, strict=True):
            back = self.add_pair(real, self.grids[name], name if real != name else None)
            self.narrow[name] = self.paired[name] = back

    def unquantised(self, name: str) -> str:
        """Return the name of an operator's result before its conversions; outputs keep their name after
        them."""
        is_output = name in self.graph.outputs
        return self.value(f"{name}_real", self.graph.types[name]) if is_output else name

    def inputs_of(self, node: Node) -> tuple[str, ...]:
        """Return the dequantised values that replace the inputs of a node."""
        if node.result not in self.roles.products:
            moving = self.roles.activations(node)
            return tuple(
                self.operand(name, self.roles.shape_of_operand(node, name)) if name in moving else name
                for name in node.inputs
            )
        chosen = self.roles.weights.get(node.result)
        weights, bias = quantised_product(self.graph, node, self.grids[node.inputs[0]].scale, chosen)
        parts = [self.add_integers(node.inputs[1], weights)]
        if bias is not None:
            parts.append(self.add_integers(node.inputs[2], bias))
        return (self.operand(node.inputs[0]), *parts)

    def operand(self, name: str, shape: tuple[int, ...] | None = None) -> str:
        """Return the dequantised form of a value; its conversions are added on the first call.

        Args:
            shape: to which the value is expanded; None: its own shape.
        """
        own = self.graph.types[name].shape
        if shape is not None and shape != own:
            return self.expanded(name, shape)
        if name not in self.paired:
            constant = name in self.graph.constants
            self.paired[name] = (
                self.expanded(name, own) if constant else self.add_pair(name, self.grids[name])
            )
        return self.paired[name]

    def expanded(self, name: str, shape: tuple[int, ...]) -> str:
        """Return the dequantised form of a value that is expanded to a shape: an integer constant, or an
        Expand of its int8 numbers."""
        if (name, shape) in self.wide:
            return self.wide[name, shape]
        wish = f"{name}_{'_'.join(map(str, shape))}"
        if name in self.graph.constants:
            scale, zero = self.add_grid(name, self.grids[name])
            given = [self.graph.constants[name], self.constants[scale], self.constants[zero]]
            (integers,) = evaluate("QuantizeLinear", given, {"axis": 0})
            wide = self.constant(f"{wish}_int8", np.ascontiguousarray(np.broadcast_to(integers, shape)))
        else:
            narrow, scale, zero = self.quantised(name, self.grids[name])
            wide = self.value(f"{wish}_int8", TensorType(shape, "int8"))
            self.nodes.append(Node("Expand", (narrow,), (wide,), {"shape": shape}))
        result = self.value(f"{wish}_again", TensorType(shape, "float32"))
        self.nodes.append(Node("DequantizeLinear", (wide, scale, zero), (result,), {"axis": 0}))
        self.wide[name, shape] = result
        return result

    def add_grid(self, name: str, grid: Grid) -> tuple[str, str]:
        """Add the constants of a grid; return the names of scale and zero point."""
        scale, zero = np.asarray(grid.scale, np.float32), np.array(grid.zero, np.int8)
        return self.constant(f"{name}_scale", scale), self.constant(f"{name}_zero", zero)

    def quantised(self, name: str, grid: Grid) -> tuple[str, str, str]:
        """Return the names of a value's int8 numbers, of their scale and of their zero point. The first call
        appends its quantisation."""
        if name not in self.integers:
            type_ = self.types.get(name) or self.graph.types[name]
            parameters = self.add_grid(name, grid)
            narrow = self.value(f"{name}_int8", TensorType(type_.shape, "int8"))
            self.nodes.append(Node("QuantizeLinear", (name, *parameters), (narrow,), {"axis": 0}))
            self.integers[name] = (narrow, *parameters)
        return self.integers[name]

    def add_pair(self, name: str, grid: Grid, result: str | None = None) -> str:
        """Append the quantisation and dequantisation of a value; return the name of the dequantised value."""
        integers = self.quantised(name, grid)
        result = result or self.value(f"{name}_again", self.types.get(name) or self.graph.types[name])
        self.nodes.append(Node("DequantizeLinear", integers, (result,), {"axis": 0}))
        return result

    def add_integers(self, name: str, integers: Integers) -> str:
        """Add an integer constant and its dequantisation; return the name of the dequantised value."""
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
