"""uint8 tensors between QuantizeLinear and DequantizeLinear become int8: values and zero points minus 128.

The accelerator multiplies signed bytes. Values that go into or out of the network, and those that other
operators read or make, keep their type: `FlipSign` stands between both.
"""

from dataclasses import dataclass, replace

from vdla.compiler.graph.conversions import CONVERSIONS
from vdla.compiler.graph.nodes import Graph, Node, TensorType, consumers, producers
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.runtime.host.int8 import flip_sign

REASON = "bytes without a sign go into or out of operators on the host, or of the network"


@dataclass(frozen=True, slots=True)
class SignedActivations:
    """The pass; it changes conversions with constant zero points."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with signed bytes."""
        return _Signing(graph).run()


class _Signing(GraphBuilder):
    """A graph in the making.

    Attributes:
        signed: the int8 tensor of each uint8 tensor that conversions make or read.
        points: the int8 zero point of each uint8 one.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.makers, self.readers = producers(graph), consumers(graph)
        self.points: dict[str, str] = {}
        self.signed = {name: self.signed_name(name) for name in graph.types if self.is_converted(name)}

    def run(self) -> Graph:
        """Return the graph with int8 tensors in place of uint8 ones."""
        for name in self.signed:
            self.start(name)
        for node in self.graph.nodes:
            self.nodes.append(self.changed(node))
            for name in node.outputs:
                if name in self.signed:
                    self.flip(node, name)
        return self.finished()

    def is_converted(self, name: str) -> bool:
        """Whether a value is uint8, and a conversion reads it or makes it."""
        if self.graph.types[name].dtype != "uint8":
            return False
        return self.is_made(name) or any(self.converts(node, name) for node in self.readers[name])

    def converts(self, node: Node, name: str) -> bool:
        """Whether a node dequantises a value with a constant zero point."""
        converts = node.op == "DequantizeLinear" and node.inputs[0] == name != node.inputs[2]
        return converts and node.inputs[2] in self.graph.constants

    def is_made(self, name: str) -> bool:
        """Whether a QuantizeLinear with a constant zero point makes a value."""
        maker = self.makers.get(name)
        return maker is not None and maker.op == "QuantizeLinear" and maker.inputs[2] in self.graph.constants

    def stays(self, name: str) -> bool:
        """Whether something needs a value as it is."""
        return name in self.graph.outputs or not all(self.converts(node, name) for node in self.readers[name])

    def signed_name(self, name: str) -> str:
        """Return the name of the int8 tensor: the value's own if nothing needs it as it is."""
        type_ = TensorType(self.graph.types[name].shape, "int8")
        own = name not in self.graph.inputs and (self.is_made(name) or name in self.graph.constants)
        if own and not self.stays(name):
            self.types[name] = type_
            return name
        return self.value(f"{name}_signed", type_)

    def start(self, name: str) -> None:
        """Make the int8 tensor of a constant or an input."""
        if name in self.graph.constants:
            self.constants[self.signed[name]] = flip_sign(self.graph.constants[name])
        elif name in self.graph.inputs:
            self.nodes.append(_flip(name, self.signed[name]))

    def flip(self, node: Node, name: str) -> None:
        """Make the int8 tensor of a value that a node has made, or the value of its int8 tensor."""
        if self.is_made(name):
            if self.stays(name):
                self.nodes.append(_flip(self.signed[name], name))
        else:
            self.nodes.append(_flip(name, self.signed[name]))

    def changed(self, node: Node) -> Node:
        """Return a node; a conversion on signed bytes."""
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
