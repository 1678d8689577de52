"""Post-training quantisation: puts QuantizeLinear and DequantizeLinear around operators with integer forms.

Activations become int8, symmetric (zero point 0), by calibration. A Relu or Clip after its only producer
stays fused with it: no pair is inserted between. MaxPool and operators that only move elements keep the
scale of their input, so they are exact. Operators on values that hold infinite numbers stay in float.

Source: Jacob et al., CVPR 2018, sections 2 and 3; Krishnamoorthi, 2018.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import isfinite

import numpy as np

from vdla.compiler.graph.calibrate import calibrate
from vdla.compiler.graph.integer_forms.rules import MOVES
from vdla.compiler.graph.nodes import Graph, Node, TensorType, consumers, producers
from vdla.compiler.graph.quantise_weights import (
    Integers,
    is_quantisable_product,
    quantised_constant,
    quantised_product,
    scale_for,
    without_factors,
)
from vdla.compiler.graph.rewrite import Rewriting, renamed
from vdla.compiler.graph.verify import verify

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
BOUNDS = ("Clip", "Relu")
OTHERS = ("Add", "AveragePool", "Concat", "GlobalAveragePool", "MaxPool", *BOUNDS)
VIEWS = tuple(op for op in MOVES if op not in ("Concat", "Split"))  # one tensor to one tensor
SAME_SCALE = ("MaxPool", *VIEWS)


def quantise(graph: Graph, samples: Iterable[Mapping[str, np.ndarray]], percentile: float = 100.0) -> Graph:
    """Return `graph` with integers around Conv, ConvTranspose, Gemm and MatMul with constant weights, Add,
    Concat, pooling, Relu and Clip.

    Weights become int8 per output channel, biases int32; both are constants behind a DequantizeLinear. Fold
    batch normalisation before.

    Args:
        samples, percentile: as for `calibrate`.

    Raises:
        GraphError: the graph cannot be calibrated.
    """
    quantised = _Quantiser(graph, calibrate(graph, samples, percentile)).run()
    verify(quantised)
    return quantised


def has_quantisable(graph: Graph) -> bool:
    """Whether there is an operator that `quantise` puts integers around."""
    return any(_is_quantisable(graph, node) for node in graph.nodes)


def _is_quantisable(graph: Graph, node: Node) -> bool:
    """Whether integers can stand around a node, whatever its neighbours are."""
    if graph.types[node.outputs[0]].dtype != "float32":
        return False
    return is_quantisable_product(graph, node) if node.op in PRODUCTS else node.op in OTHERS


class _Quantiser(Rewriting):
    """A quantised graph in the making.

    Attributes:
        scales: of values that become int8, by the graph's names.
        endless: values with numbers that are not finite, which no scale holds.
        narrow: what stands for values that integer operators make.
        paired: what stands for values that were quantised, whoever makes them.
    """

    def __init__(self, graph: Graph, magnitudes: Mapping[str, float]) -> None:
        super().__init__(graph)
        self.readers, self.makers = consumers(graph), producers(graph)
        self.scales = {name: scale_for(size) for name, size in magnitudes.items() if isfinite(size)}
        endless = (name for name, array in graph.constants.items() if not np.isfinite(array).all())
        self.endless = {name for name, size in magnitudes.items() if not isfinite(size)} | set(endless)
        self.narrow: dict[str, str] = {}
        self.paired: dict[str, str] = {}

    def run(self) -> Graph:
        """Return the quantised graph."""
        for node in self.graph.nodes:
            if self.is_quantised(node):
                self.add_quantised(node)
            else:
                self.nodes.append(renamed(node, self.narrow))
        return self.finished()

    def is_quantised(self, node: Node) -> bool:
        """Whether a node will compute with integers."""
        if not self.endless.isdisjoint((*node.inputs, *node.outputs)):
            return False
        moves = node.op in VIEWS and self.graph.types[node.outputs[0]].dtype == "float32"
        return _is_quantisable(self.graph, node) or (moves and node.inputs[0] in self.narrow)

    def is_fused(self, node: Node) -> bool:
        """Whether a node is a bound right behind the only operator that makes its input and can bound its
        results itself."""
        maker = self.makers.get(node.inputs[0])
        alone = len(self.readers[node.inputs[0]]) == 1 and node.inputs[0] not in self.graph.outputs
        return (
            node.op in BOUNDS
            and maker is not None
            and alone
            and maker.op in (*PRODUCTS, "Add")
            and self.is_quantised(maker)
        )

    def add_quantised(self, node: Node) -> None:
        (out,) = node.outputs
        if node.op in SAME_SCALE:
            self.scales[out] = self.scales[node.inputs[0]]
        changed = node if self.is_fused(node) else replace(without_factors(node), inputs=self.inputs_of(node))
        following = self.readers[out]
        if len(following) == 1 and self.is_fused(following[0]):
            self.nodes.append(changed)
            return
        made = self.value(f"{out}_real", self.graph.types[out]) if out in self.graph.outputs else out
        self.nodes.append(replace(changed, outputs=(made,)))
        self.narrow[out] = self.paired[out] = self.add_pair(
            made, self.scales[out], out if made != out else None
        )

    def inputs_of(self, node: Node) -> tuple[str, ...]:
        """Return what stands for the inputs of a node: quantised values, and integers behind a
        DequantizeLinear."""
        if node.op not in PRODUCTS:
            return tuple(self.operand(name) for name in node.inputs)
        weights, bias = quantised_product(self.graph, node, self.scales[node.inputs[0]])
        parts = [self.add_integers(node.inputs[1], weights)]
        if bias is not None:
            parts.append(self.add_integers(node.inputs[2], bias))
        return (self.operand(node.inputs[0]), *parts)

    def operand(self, name: str) -> str:
        if name in self.graph.constants:
            return self.add_integers(name, quantised_constant(self.graph.constants[name]))
        if name not in self.paired:
            self.paired[name] = self.add_pair(name, self.scales[name])
        return self.paired[name]

    def add_pair(self, name: str, scale: np.ndarray, result: str | None = None) -> str:
        """Quantise a value and take it back; return the name of what comes out."""
        type_ = self.types.get(name) or self.graph.types[name]
        parameters = (
            self.constant(f"{name}_scale", scale),
            self.constant(f"{name}_zero", np.zeros((), np.int8)),
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
