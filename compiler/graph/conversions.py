"""The QuantizeLinear and DequantizeLinear nodes of a graph: which float tensors represent int8 tensors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

import numpy as np

from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.integers import Quantisation
from vdla.compiler.graph.nodes import Graph, GraphError, Node

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


@dataclass(frozen=True, slots=True)
class ProducingBounds:
    """The chain of Relu and Clip that produces a value.

    Attributes:
        source: the input of the first of them; the value itself if the chain is empty.
        low, high: the bounds of the whole chain.
    """

    source: str
    low: float = -inf
    high: float = inf

    def bounded(self, low: float, high: float) -> "ProducingBounds":
        """Return the chain with another Relu or Clip appended."""
        low = min(low, high)
        return ProducingBounds(self.source, min(max(self.low, low), high), min(max(self.high, low), high))


@dataclass(frozen=True, slots=True)
class BoundedReaders:
    """The nodes that read a value, directly or through Relu and Clip.

    Attributes:
        use: the first tensor that is read as float32, with its reader; the reader is None if the tensor is an
            output of the network. None if no tensor is read as float32.
        quantiser: the first QuantizeLinear, or None.
    """

    use: tuple[str, Node | None] | None = None
    quantiser: Node | None = None


def has_one_scale(at: DefUse, conversion: Node) -> bool:
    """Whether a conversion has a single scale and a single zero point."""
    return all(at.types[name].size == 1 for name in conversion.inputs[1:3])


def has_one_constant_scale(at: DefUse, conversion: Node) -> bool:
    """Whether a conversion has a single constant scale and a single constant zero point."""
    return has_one_scale(at, conversion) and at.are_constant(*conversion.inputs[1:3])


class Conversions(DefUse):
    """The conversions of a graph, with the maker and the readers of each value.

    Chains of Relu and Clip are followed once, in the constructor, and without recursion.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._producing_bounds: dict[str, ProducingBounds] = {}
        self._bounded_readers: dict[str, BoundedReaders] = {}
        bounds = [node for node in graph.nodes if node.op in BOUNDS]
        for node in bounds:
            chain = self.producing_bounds(node.inputs[0])
            self._producing_bounds[node.result] = chain.bounded(*BOUNDS[node.op](node))
        for node in reversed(bounds):
            self._bounded_readers[node.result] = self._collect_readers(node.result)

    def _collect_readers(self, real: str) -> BoundedReaders:
        """Return the readers of a value; the readers of each Relu and Clip after it must be known already."""
        use: tuple[str, Node | None] | None = (real, None) if real in self.graph.outputs else None
        first: Node | None = None
        for reader in self.readers(real):
            if reader.op == "QuantizeLinear":
                first = first or reader
            elif reader.op in BOUNDS:
                further = self._bounded_readers[reader.result]
                use, first = use or further.use, first or further.quantiser
            else:
                use = use or (real, reader)
        return BoundedReaders(use, first)

    def bounded_readers(self, real: str) -> BoundedReaders:
        """Return the readers of a value, directly or through Relu and Clip."""
        return self._bounded_readers.get(real) or self._collect_readers(real)

    def producing_bounds(self, real: str) -> ProducingBounds:
        """Return the chain of Relu and Clip that produces a value."""
        return self._producing_bounds.get(real) or ProducingBounds(real)

    def quantisation(self, conversion: Node) -> Quantisation:
        """Return the quantisation of the int8 tensor of a conversion, whose scale is a constant scalar."""
        scale, zero = (self.constants[name] for name in conversion.inputs[1:3])
        return Quantisation(float(scale.item()), int(zero.item()))

    def operand(self, real: str) -> QuantisedTensor:
        """Return the int8 tensor whose DequantizeLinear produces `real`."""
        maker = self.makers[real]
        return QuantisedTensor(maker.inputs[0], self.quantisation(maker))

    def is_dequantised(self, real: str) -> bool:
        """Whether a DequantizeLinear produces `real`."""
        return real in self.makers and self.makers[real].op == "DequantizeLinear"

    def source(self, real: str) -> str:
        """Return the input of the chain of Relu and Clip that produces `real`; `real` if there is none."""
        return self.producing_bounds(real).source

    def bounded(self, real: str, out: Quantisation) -> Quantisation:
        """Return `out` clipped to the bounds of the Relu and Clip that produce `real`."""
        chain = self.producing_bounds(real)
        return out.bounded(chain.low, chain.high)

    def float_use(self, real: str) -> str:
        """Describe the first float32 read of `real`, directly or through Relu and Clip; "" if there is none.

        The text is "TENSOR that READER reads as float32", or "TENSOR that leaves the network as float32".
        """
        use = self.bounded_readers(real).use
        if use is None:
            return ""
        (name, reader), dtype = use, self.graph.types[use[0]].dtype
        if reader is None:
            return f"{name} that leaves the network as {dtype}"
        return f"{name} that {reader} reads as {dtype}"

    def dequantised_constants(self, real: str) -> tuple[np.ndarray, ...] | None:
        """Return elements, scale and zero point of the DequantizeLinear that produces `real`; None if no
        DequantizeLinear does, or if one of these is not constant."""
        names = self.makers[real].inputs if self.is_dequantised(real) else ("",)
        if not all(name in self.constants for name in names):
            return None
        return tuple(self.constants[name] for name in names)


def check_scales(graph: Graph) -> None:
    """Check that constant scales of conversions are finite, and positive for activations.

    A scale of 0 is valid where constants are dequantised: pruned channels have it. Activations of scale 0
    were replaced by constants in `FoldConversions`. QuantizeLinear divides by its scale.

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
            why = ", by which it divides" if wrong[0] == 0 and node.op == "QuantizeLinear" else ""
            raise GraphError(
                f"graph {graph.name}: {node} has the scale {node.inputs[1]} = {wrong[0]:g}{why}; scales are "
                "finite and greater than 0: quantise the network again"
            )
