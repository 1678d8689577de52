"""Building small quantised graphs, node by node, on random numbers."""

from collections.abc import Sequence

import numpy as np

from vdla.compiler.graph.nodes import Graph, Node, type_of
from vdla.compiler.graph.verify import verify
from vdla.runtime.host.evaluate import evaluate


class QdqBuilder:
    """A graph in the making, and the values that it has on one random input.

    Methods that add nodes return the name of what these make.
    """

    def __init__(self, seed: int, dtype: str = "int8") -> None:
        self.rng, self.dtype = np.random.default_rng(seed), dtype
        self.values: dict[str, np.ndarray] = {}
        self.inputs: list[str] = []
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[Node] = []

    def add(self, op: str, *inputs: str, **attributes) -> str:
        """Add a node of one output."""
        return self.add_many(op, 1, *inputs, **attributes)[0]

    def add_many(self, op: str, count: int, *inputs: str, **attributes) -> tuple[str, ...]:
        """Add a node of several outputs."""
        names = tuple(f"{op.lower()}_{len(self.nodes)}_{place}" for place in range(count))
        arrays = evaluate(op, [self.values[name] if name else None for name in inputs], attributes)
        self.values |= dict(zip(names, arrays, strict=True))
        self.nodes.append(Node(op, inputs, names, attributes))
        return names

    def input(self, *shape: int) -> str:
        """Add a float input."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        self.values[name] = self.rng.normal(size=shape).astype(np.float32)
        return name

    def constant(self, array: np.ndarray | float) -> str:
        """Add a constant."""
        name = f"c{len(self.constants)}"
        self.constants[name] = self.values[name] = np.asarray(array)
        return name

    def zero_point(self, dtype: str, *shape: int) -> str:
        """Add a zero point; the ends of the type, and its middle, are as likely as all the rest."""
        limits = np.iinfo(dtype)
        usual = (limits.min, limits.max, 0, (limits.min + limits.max + 1) // 2)
        point = self.rng.choice([*usual, *self.rng.integers(limits.min, limits.max + 1, len(usual))])
        return self.constant(np.full(shape, point, dtype))

    def pair(self, real: str, scale: float | None = None, dtype: str = "", zero: int | None = None) -> str:
        """Quantise a value, by a scale that fits roughly, and take it back; the zero point is random unless
        `zero` is given."""
        magnitude = float(np.abs(self.values[real]).max()) or 1.0
        scale = magnitude / self.rng.uniform(60, 250) if scale is None else scale
        dtype = dtype or self.dtype
        point = self.zero_point(dtype) if zero is None else self.constant(np.array(zero, dtype))
        parameters = self.constant(np.float32(scale)), point
        return self.add(
            "DequantizeLinear", self.add("QuantizeLinear", real, *parameters, axis=0), *parameters, axis=0
        )

    def kept(self, real: str, like: str) -> str:
        """Quantise a value by the scale and zero point of another that is quantised, and take it back."""
        parameters = next(node.inputs[1:] for node in self.nodes if node.outputs == (like,))
        return self.add(
            "DequantizeLinear", self.add("QuantizeLinear", real, *parameters, axis=0), *parameters, axis=0
        )

    def quantised(self, *shape: int) -> str:
        """Add an input that is quantised."""
        return self.pair(self.input(*shape))

    def weights(self, *shape: int, axis: int, zero: int = 0, dtype: str = "int8") -> str:
        """Add quantised weights with a scale for each index of `axis`, or a single scale if negative."""
        low = np.iinfo(dtype).min
        values = self.constant(self.rng.integers(low, low + 256, shape).astype(dtype))
        count = (shape[axis],) if axis >= 0 else ()
        scale = self.constant(np.exp(self.rng.uniform(-8, -4, count)).astype(np.float32))
        return self.add(
            "DequantizeLinear", values, scale, self.constant(np.full(count, zero, dtype)), axis=max(axis, 0)
        )

    def bias(self, size: int, kind: str) -> str:
        """Add a bias: none, float, or behind a DequantizeLinear."""
        real = self.rng.normal(size=size).astype(np.float32)
        if kind == "none":
            return ""
        if kind == "float":
            return self.constant(real)
        scale = np.float32(1e-5)
        integers = self.constant(np.rint(real / scale).astype(np.int32))
        return self.add(
            "DequantizeLinear", integers, self.constant(scale), self.constant(np.int32(0)), axis=0
        )

    def finish(self, *outputs: str) -> Graph:
        """Return the checked graph."""
        types = {name: type_of(array) for name, array in self.values.items()}
        graph = Graph(
            "f",
            {name: types[name] for name in self.inputs},
            outputs,
            tuple(self.nodes),
            self.constants,
            types,
        )
        verify(graph)
        return graph

    def feeds(self) -> dict[str, np.ndarray]:
        """Return the random inputs."""
        return {name: self.values[name] for name in self.inputs}


def signed(array: np.ndarray) -> np.ndarray:
    """Return 8-bit integers as int64, uint8 as what stands for them in int8."""
    return array.astype(np.int64) - (128 if array.dtype == np.uint8 else 0)


def float_operators(graph: Graph) -> list[str]:
    """Return the operators other than conversions that make or read floats."""

    def is_float(names: Sequence[str]) -> bool:
        return any(graph.types[name].dtype == "float32" for name in names if name)

    return [
        node.op
        for node in graph.nodes
        if node.op not in ("QuantizeLinear", "DequantizeLinear") and is_float((*node.inputs, *node.outputs))
    ]


def pooled(of: QdqBuilder, op: str, **more) -> str:
    """Add a pooling with uneven kernel, strides and padding, of a quantised input."""
    shape = {
        "kernel_shape": (3, 2),
        "pads": (1, 0, 0, 1),
        "strides": (2, 1),
        "ceil_mode": 0,
        "dilations": (1, 1),
    }
    return of.add(op, of.quantised(2, 3, 6, 5), **{**shape, **more})
