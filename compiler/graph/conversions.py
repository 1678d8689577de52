"""What stands behind the real tensors of a quantised graph: int8 tensors, constant weights and biases, bounds
before a conversion."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np

from vdla.compiler.graph.integers import Quantisation
from vdla.compiler.graph.nodes import Graph, Node, producers

BOUNDS: Mapping[str, Callable[[Node], tuple[float, float]]] = {
    "Relu": lambda node: (0.0, inf),
    "Clip": lambda node: (node.attributes["min"], node.attributes["max"]),
}


class UnfitError(ValueError):
    """Something cannot be expressed with integers."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An int8 tensor and what it stands for."""

    name: str
    quantisation: Quantisation


class Conversions:
    """The QuantizeLinear and DequantizeLinear of a graph. All methods but `makers` raise UnfitError where
    they do not find what they look for."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.makers = graph, producers(graph)

    def quantisation(self, node: Node, integers: str) -> Quantisation:
        """Return what `integers`, int8 and not constant, stand for by a conversion with one scale."""
        scale, zero = (self.graph.constants.get(name) for name in node.inputs[1:3])
        if (
            scale is None
            or zero is None
            or scale.size != 1
            or zero.size != 1
            or self.graph.types[integers].dtype != "int8"
        ):
            raise UnfitError
        found = Quantisation(float(scale.item()), int(zero.item()))
        if integers in self.graph.constants or not isfinite(found.scale) or found.scale <= 0:
            raise UnfitError
        return found

    def operand(self, real: str) -> Operand:
        """Return the int8 tensor behind a real one."""
        maker = self.makers.get(real)
        if maker is None or maker.op != "DequantizeLinear":
            raise UnfitError
        return Operand(maker.inputs[0], self.quantisation(maker, maker.inputs[0]))

    def bounds(self, real: str, out: Quantisation) -> tuple[str, Quantisation]:
        """Return what Relu and Clip before a conversion read, with their bounds in `out`."""
        maker = self.makers.get(real)
        while maker is not None and maker.op in BOUNDS:
            out = out.bounded(*BOUNDS[maker.op](maker))
            real = maker.inputs[0]
            maker = self.makers.get(real)
        return real, out

    def weights(self, real: str, rank: int, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """Return constants int8[...] of `rank` dimensions without a zero point, and float64[n], their scales
        along `axis`."""
        maker = self.makers.get(real)
        values, scale, zero = self.constants(maker)
        if (
            values.dtype != np.int8
            or values.ndim != rank
            or zero.any()
            or not (scale.size == 1 or maker.attributes["axis"] % rank == axis)
        ):
            raise UnfitError
        return values, np.broadcast_to(scale.astype(np.float64).reshape(-1), values.shape[axis])

    def bias(self, node: Node, channels: int) -> np.ndarray:
        """Return float64[channels]: what a product adds to every row, a constant; 0 where there is
        nothing."""
        name = node.inputs[2] if len(node.inputs) > 2 else ""
        if not name:
            return np.zeros(channels)
        real = (
            self.graph.constants[name]
            if name in self.graph.constants
            else self.real_constant(self.makers.get(name))
        )
        if (
            real.size not in (1, channels)
            or real.shape[-1:] not in ((), (1,), (channels,))
            or real.size != (real.shape or (1,))[-1]
        ):
            raise UnfitError
        return np.broadcast_to(real.astype(np.float64).reshape(-1), channels)

    def real_constant(self, maker: Node | None) -> np.ndarray:
        """Return float64[...]: what a DequantizeLinear makes of a constant with one scale, or one for each of
        a vector's elements."""
        values, scale, zero = self.constants(maker)
        if scale.size != 1 and values.ndim != 1:
            raise UnfitError
        return (values.astype(np.float64) - zero.reshape(-1)) * scale.astype(np.float64).reshape(-1)

    def constants(self, maker: Node | None) -> tuple[np.ndarray, ...]:
        """Return elements, scale and zero point of a DequantizeLinear, all of which are constants."""
        if (
            maker is None
            or maker.op != "DequantizeLinear"
            or not all(name in self.graph.constants for name in maker.inputs)
        ):
            raise UnfitError
        return tuple(self.graph.constants[name] for name in maker.inputs)
