"""The QuantizeLinear and DequantizeLinear nodes of a graph: which float tensors stand for int8 tensors."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf

import numpy as np

from vdla.compiler.graph.integers import Quantisation
from vdla.compiler.graph.nodes import Graph, GraphError, Node, consumers, producers

BOUNDS: Mapping[str, Callable[[Node], tuple[float, float]]] = {
    "Relu": lambda node: (0.0, inf),
    "Clip": lambda node: (node.real("min"), node.real("max")),
}
CONVERSIONS = ("DequantizeLinear", "QuantizeLinear")


@dataclass(frozen=True, slots=True)
class QuantisedTensor:
    """An int8 tensor and its quantisation."""

    name: str
    quantisation: Quantisation


class Conversions:
    """The conversions of a graph, with the producer and the consumers of each value."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.makers, self.readers = graph, producers(graph), consumers(graph)

    def quantisation(self, conversion: Node) -> Quantisation:
        """Return what the int8 tensor of a conversion stands for; its scale is one constant."""
        scale, zero = (self.graph.constants[name] for name in conversion.inputs[1:3])
        return Quantisation(float(scale.item()), int(zero.item()))

    def operand(self, real: str) -> QuantisedTensor:
        """Return the int8 tensor that a DequantizeLinear makes `real` of."""
        maker = self.makers[real]
        return QuantisedTensor(maker.inputs[0], self.quantisation(maker))

    def is_dequantised(self, real: str) -> bool:
        """Whether a DequantizeLinear makes `real`."""
        return real in self.makers and self.makers[real].op == "DequantizeLinear"

    def source(self, real: str) -> str:
        """Return what the Relu and Clip read that make `real`; `real` itself where there are none."""
        while real in self.makers and self.makers[real].op in BOUNDS:
            real = self.makers[real].inputs[0]
        return real

    def bounded(self, real: str, out: Quantisation) -> Quantisation:
        """Return `out` with the bounds of the Relu and Clip that make `real`."""
        while real in self.makers and self.makers[real].op in BOUNDS:
            maker = self.makers[real]
            out, real = out.bounded(*BOUNDS[maker.op](maker)), maker.inputs[0]
        return out

    def quantisers(self, real: str) -> Iterator[Node]:
        """Yield each QuantizeLinear that reads `real`, straight or behind Relu and Clip."""
        for reader in self.readers[real]:
            if reader.op == "QuantizeLinear":
                yield reader
            elif reader.op in BOUNDS:
                yield from self.quantisers(reader.outputs[0])

    def float_uses(self, real: str) -> Iterator[str]:
        """Yield who reads `real` as float32, straight or behind Relu and Clip, after the tensor's name."""
        if real in self.graph.outputs:
            yield f"{real} that leaves the network as {self.graph.types[real].dtype}"
        for reader in self.readers[real]:
            if reader.op in BOUNDS:
                yield from self.float_uses(reader.outputs[0])
            elif reader.op != "QuantizeLinear":
                yield f"{real} that {reader} reads as {self.graph.types[real].dtype}"

    def constants(self, real: str) -> tuple[np.ndarray, ...] | None:
        """Return elements, scale and zero point of the DequantizeLinear that makes `real`; None where there
        is none, or one of them is not constant."""
        names = self.makers[real].inputs if self.is_dequantised(real) else ("",)
        if not all(name in self.graph.constants for name in names):
            return None
        return tuple(self.graph.constants[name] for name in names)


def check_scales(graph: Graph) -> None:
    """Check the constant scales of all conversions: finite numbers, and positive for activations.

    Raises:
        GraphError: naming the first invalid scale.
    """
    for node in graph.nodes:
        scale = graph.constants.get(node.inputs[1]) if node.op in CONVERSIONS else None
        if scale is None:
            continue
        positive = scale >= 0 if node.inputs[0] in graph.constants else scale > 0
        wrong = scale[~(np.isfinite(scale) & positive)]
        if wrong.size:
            raise GraphError(
                f"graph {graph.name}: {node} has the scale {node.inputs[1]} = {wrong[0]:g}; scales are "
                "finite and greater than 0: quantise the network again"
            )
