"""The QuantizeLinear and DequantizeLinear nodes of a graph: which float tensors stand for int8 tensors."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf

import numpy as np

from vdla.compiler.graph.affine import Tail
from vdla.compiler.graph.integers import Quantisation
from vdla.compiler.graph.nodes import Graph, GraphError, Node, consumers, producers

BOUNDS: Mapping[str, Callable[[Node], tuple[float, float]]] = {
    "Relu": lambda node: (0.0, inf),
    "Clip": lambda node: (node.real("min"), node.real("max")),
}
CONVERSIONS = ("DequantizeLinear", "QuantizeLinear")
SEVERAL = 2  # ends: fewer take the place of what they stand behind


@dataclass(frozen=True, slots=True)
class QuantisedTensor:
    """An int8 tensor and its quantisation."""

    name: str
    quantisation: Quantisation


@dataclass(frozen=True, slots=True)
class Before:
    """What the Relu and Clip are that make a value.

    Attributes:
        source: what the first of them reads.
        low, high: the bounds of all of them together.
    """

    source: str
    low: float = -inf
    high: float = inf

    def bounded(self, low: float, high: float) -> "Before":
        """Return the same with another Relu or Clip behind."""
        low = min(low, high)
        return Before(self.source, min(max(self.low, low), high), min(max(self.high, low), high))


@dataclass(frozen=True, slots=True)
class Behind:
    """What reads a value, straight or behind Relu and Clip.

    Attributes:
        use: the tensor that is read as float32 first, with the node that does; with None where it leaves the
            network; None where nothing does.
        quantiser: the first QuantizeLinear; None where there is none.
        ends: each QuantizeLinear, and each result of a Relu or Clip with more than one end behind it, in
            order.
    """

    use: tuple[str, Node | None] | None = None
    quantiser: Node | None = None
    ends: tuple[Node | str, ...] = ()


class Conversions:
    """The conversions of a graph, with the producer and the consumers of each value.

    Chains of Relu and Clip are followed once, whatever is asked of them, and without recursion.

    Attributes:
        tails: results of `vdla.compiler.graph.integer_forms.channel_changes`, by the last change and the
            axis of these.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.makers, self.readers = graph, producers(graph), consumers(graph)
        self.tails: dict[tuple[str, int], Tail | None] = {}
        self._before: dict[str, Before] = {}
        self._behind: dict[str, Behind] = {}
        bounds = [node for node in graph.nodes if node.op in BOUNDS]
        for node in bounds:
            before = self.before(node.inputs[0])
            self._before[node.outputs[0]] = before.bounded(*BOUNDS[node.op](node))
        for node in reversed(bounds):
            self._behind[node.outputs[0]] = self._found_behind(node.outputs[0])

    def _found_behind(self, real: str) -> Behind:
        """Return what reads a value, where that is known of the Relu and Clip that do."""
        use: tuple[str, Node | None] | None = (real, None) if real in self.graph.outputs else None
        first: Node | None = None
        ends: list[Node | str] = []
        for reader in self.readers[real]:
            if reader.op == "QuantizeLinear":
                first = first or reader
                ends.append(reader)
            elif reader.op in BOUNDS:
                (out,) = reader.outputs
                further = self._behind[out]
                use, first = use or further.use, first or further.quantiser
                ends += further.ends if len(further.ends) < SEVERAL else (out,)
            else:
                use = use or (real, reader)
        return Behind(use, first, tuple(ends))

    def behind(self, real: str) -> Behind:
        """Return what reads a value."""
        return self._behind.get(real) or self._found_behind(real)

    def before(self, real: str) -> Before:
        """Return what the Relu and Clip are that make a value."""
        return self._before.get(real) or Before(real)

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
        return self.before(real).source

    def bounded(self, real: str, out: Quantisation) -> Quantisation:
        """Return `out` with the bounds of the Relu and Clip that make `real`."""
        before = self.before(real)
        return out.bounded(before.low, before.high)

    def quantisers(self, real: str) -> Iterator[Node]:
        """Yield each QuantizeLinear that reads `real`, straight or behind Relu and Clip."""
        behind = self.behind(real)
        if behind.quantiser is None:
            return
        yield behind.quantiser
        waiting = list(reversed(behind.ends))
        while waiting:
            end = waiting.pop()
            if isinstance(end, str):
                waiting += reversed(self._behind[end].ends)
            elif end is not behind.quantiser:
                yield end

    def float_use(self, real: str) -> str:
        """Say who is the first to read `real` as float32, straight or behind Relu and Clip, after the
        tensor's name; "" where nothing does."""
        use = self.behind(real).use
        if use is None:
            return ""
        (name, reader), dtype = use, self.graph.types[use[0]].dtype
        if reader is None:
            return f"{name} that leaves the network as {dtype}"
        return f"{name} that {reader} reads as {dtype}"

    def constants(self, real: str) -> tuple[np.ndarray, ...] | None:
        """Return elements, scale and zero point of the DequantizeLinear that makes `real`; None where there
        is none, or one of them is not constant."""
        names = self.makers[real].inputs if self.is_dequantised(real) else ("",)
        if not all(name in self.graph.constants for name in names):
            return None
        return tuple(self.graph.constants[name] for name in names)


def check_scales(graph: Graph) -> None:
    """Check the constant scales of all conversions: finite numbers, and positive for activations.

    Scale 0 means zeros where values are dequantised: constants have it where a channel was pruned, and
    `FoldConversions` has put constants in place of activations of scale 0. Quantising divides by the scale.

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
