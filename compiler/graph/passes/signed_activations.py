"""uint8 tensors between QuantizeLinear and DequantizeLinear become int8: values and zero points minus 128.

The accelerator multiplies int8. Inputs and outputs of the network, and values that other operators read or
make, stay uint8; a `FlipSign` converts between both.
"""

from dataclasses import dataclass, replace

from vdla.compiler.graph.conversions import CONVERSIONS
from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.runtime.host.int8 import flip_sign

REASON = "bytes without a sign go into or out of operators on the host, or of the network"


@dataclass(frozen=True, slots=True)
class SignedActivations:
    """The pass; it changes conversions with constant zero points."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with signed bytes."""
        return _SignFlipper(graph).run()


class _SignFlipper(GraphBuilder):
    """The new graph under construction.

    Attributes:
        signed: the int8 tensor for each uint8 tensor that conversions make or read.
        points: the int8 zero point for each uint8 zero point.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.uses = DefUse(graph)
        self.points: dict[str, str] = {}
        self.signed = {name: self.signed_name(name) for name in graph.types if self.is_converted(name)}

    def run(self) -> Graph:
        """Return the graph with int8 tensors in place of uint8 tensors."""
        for name in self.signed:
            self.add_signed_source(name)
        for node in self.graph.nodes:
            self.nodes.append(self.signed_conversion(node))
            for name in node.outputs:
                if name in self.signed:
                    self.add_flip(node, name)
        return self.finished()

    def is_converted(self, name: str) -> bool:
        """Whether a value is uint8 and a conversion reads or makes it."""
        if self.graph.types[name].dtype != "uint8":
            return False
        return self.is_quantised(name) or any(self.converts(node, name) for node in self.uses.readers(name))

    def converts(self, node: Node, name: str) -> bool:
        """Whether a node dequantises a value with a constant zero point."""
        converts = node.op == "DequantizeLinear" and node.inputs[0] == name != node.inputs[2]
        return converts and node.inputs[2] in self.graph.constants

    def is_quantised(self, name: str) -> bool:
        """Whether a QuantizeLinear with a constant zero point makes a value."""
        maker = self.uses.maker(name, "QuantizeLinear")
        return maker is not None and maker.inputs[2] in self.graph.constants

    def is_needed_unsigned(self, name: str) -> bool:
        """Whether an operator other than a conversion, or the network's output, needs the uint8 value."""
        return name in self.graph.outputs or not all(
            self.converts(node, name) for node in self.uses.readers(name)
        )

    def signed_name(self, name: str) -> str:
        """Return the name of the int8 tensor: the name of the uint8 value if that is no longer needed."""
        type_ = TensorType(self.graph.types[name].shape, "int8")
        may_replace = name not in self.graph.inputs and (
            self.is_quantised(name) or name in self.graph.constants
        )
        if may_replace and not self.is_needed_unsigned(name):
            self.types[name] = type_
            return name
        return self.value(f"{name}_signed", type_)

    def add_signed_source(self, name: str) -> None:
        """Add the int8 tensor of a constant or an input."""
        if name in self.graph.constants:
            self.constants[self.signed[name]] = flip_sign(self.graph.constants[name])
        elif name in self.graph.inputs:
            self.nodes.append(_flip(name, self.signed[name]))

    def add_flip(self, node: Node, name: str) -> None:
        """Add a FlipSign between the uint8 and the int8 form of a node's result if both are needed."""
        if self.is_quantised(name):
            if self.is_needed_unsigned(name):
                self.nodes.append(_flip(self.signed[name], name))
        else:
            self.nodes.append(_flip(name, self.signed[name]))

    def signed_conversion(self, node: Node) -> Node:
        """Return a conversion with int8 tensors in place of uint8 tensors; other nodes unchanged."""
        if node.op not in CONVERSIONS:
            return node
        (value,) = node.inputs[:1] if node.op == "DequantizeLinear" else node.outputs
        if value not in self.signed or node.inputs[2] not in self.graph.constants:
            return node
        point = node.inputs[2]
        if point not in self.points:
            self.points[point] = self.constant(f"{point}_signed", flip_sign(self.graph.constants[point]))
        inputs = (*node.inputs[:2], self.points[point])
        if node.op == "QuantizeLinear":
            return replace(node, inputs=inputs, outputs=(self.signed[value],))
        return replace(node, inputs=(self.signed[value], *inputs[1:]))


def _flip(name: str, out: str) -> Node:
    return Node("FlipSign", (name,), (out,), {}, "", REASON)
