"""Operators between DequantizeLinear and QuantizeLinear become operators on int8 tensors, as the accelerator computes them.

`QuantizeLinear(Relu(Conv(DequantizeLinear(x), DequantizeLinear(w), b)))` becomes `Int8Conv(x, w, parameters)`. Scales, zero points, bias and
bounds go into the parameters of an exact integer requantisation, so results may differ from float arithmetic by one in the last place.

Source: Jacob et al., CVPR 2018, section 2.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from vdla.compiler.graph.integers import GREATEST, LEAST, Quantisation, factors_and_shift, scaling
from vdla.compiler.graph.nodes import Graph, Node, TensorType, consumers, fresh_name, producers, type_of
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.rewrite import rebuilt
from vdla.hw.spec.numerics import wrap
from vdla.runtime.requantise import parameter_words

MOVES = ("Concat", "Flatten", "Reshape", "Split", "Squeeze", "Transpose", "Unsqueeze")  # elements of one scale, whatever their places
BORDERS = (0, LEAST)  # what the accelerator can pad with


@dataclass(frozen=True, slots=True)
class ToIntegers:
    """The pass; what it cannot express stays as it is."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with integer operators."""
        return DeadCode().run(_Lowering(graph).run())


@dataclass(frozen=True, slots=True)
class _Operand:
    """An int8 tensor and what it stands for."""

    name: str
    quantisation: Quantisation


class _Unfit(Exception):
    """An operator cannot be expressed with integers."""


@dataclass
class _Lowering:
    graph: Graph
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    types: dict[str, TensorType] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)  # int8 results of operators that only move elements, by their real ones

    def run(self) -> Graph:
        self.readers, self.makers = consumers(self.graph), producers(self.graph)
        for node in self.graph.nodes:
            if node.op != "QuantizeLinear" or not self.lowered(node):
                self.nodes.append(node)
        return rebuilt(self.graph, self.nodes, self.constants, self.types)

    def lowered(self, quantise: Node) -> bool:
        """Lower what a QuantizeLinear stands behind; return whether that could be done."""
        try:
            out = self.quantisation(quantise, quantise.outputs[0])
            source, bounded = self.bounds(quantise.inputs[0], out)
            maker = self.makers.get(source)
            lower = LOWERINGS.get(maker.op) if maker is not None else None
            if lower is None:
                raise _Unfit
            lower(self, maker, quantise.outputs[0], bounded)
        except (_Unfit, ValueError):
            return False
        return True

    # Looking

    def quantisation(self, node: Node, integers: str) -> Quantisation:
        """Return what the integers of a conversion stand for."""
        scale, zero = (self.graph.constants.get(name) for name in node.inputs[1:3])
        if scale is None or zero is None or scale.size != 1 or self.graph.types[integers].dtype != "int8":
            raise _Unfit
        return Quantisation(float(scale.reshape(())), int(zero.reshape(())))

    def operand(self, real: str) -> _Operand:
        """Return the int8 tensor behind a real one."""
        maker = self.makers.get(real)
        if maker is None or maker.op != "DequantizeLinear" or maker.inputs[0] in self.graph.constants:
            raise _Unfit
        return _Operand(maker.inputs[0], self.quantisation(maker, maker.inputs[0]))

    def bounds(self, real: str, out: Quantisation) -> tuple[str, Quantisation]:
        """Return what Relu and Clip before a conversion read, with their bounds in `out`."""
        maker = self.makers.get(real)
        while maker is not None and maker.op in BOUNDS:
            out = out.bounded(*BOUNDS[maker.op](maker))
            real = maker.inputs[0]
            maker = self.makers.get(real)
        return real, out

    def weights(self, real: str, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """Return constant integers and float64[n], their scales along `axis`."""
        maker = self.makers.get(real)
        if maker is None or maker.op != "DequantizeLinear" or not all(name in self.graph.constants for name in maker.inputs if name):
            raise _Unfit
        values, scale, *zero = (self.graph.constants[name] for name in maker.inputs if name)
        along = scale.size == 1 or maker.attributes["axis"] % values.ndim == axis
        if values.dtype != np.int8 or not along or any(part.any() for part in zero):
            raise _Unfit
        return values, np.broadcast_to(scale.astype(np.float64).reshape(-1), values.shape[axis])

    def bias(self, name: str, scales: np.ndarray) -> np.ndarray:
        """Return int64[n]: a constant bias in units of the products."""
        if not name:
            return np.zeros(scales.shape, np.int64)
        maker = self.makers.get(name)
        if name in self.graph.constants:
            real = self.graph.constants[name].astype(np.float64)
        elif maker is not None and maker.op == "DequantizeLinear" and all(part in self.graph.constants for part in maker.inputs if part):
            values, scale, *zero = (self.graph.constants[part].astype(np.float64) for part in maker.inputs if part)
            real = (values - (zero[0] if zero else 0)) * scale
        else:
            raise _Unfit
        return np.rint(np.broadcast_to(real.reshape(-1), scales.shape) / scales).astype(np.int64)

    # Making

    def add(self, op: str, inputs: tuple[str, ...], out: str, attributes: Mapping | None = None, name: str = "") -> None:
        self.nodes.append(Node(op, inputs, (out,), attributes or {}, name))

    def constant(self, wish: str, array: np.ndarray) -> str:
        name = self.value(wish, type_of(array))
        self.constants[name] = array
        return name

    def value(self, wish: str, type_: TensorType) -> str:
        name = fresh_name(wish, {*self.graph.types, *self.types})
        self.types[name] = type_
        return name

    def product(self, op: str, x: _Operand, weights: np.ndarray, scales: np.ndarray, bias: np.ndarray, out: str, quantisation: Quantisation,
                attributes: Mapping, node: Node) -> None:
        """Add an operator that sums products; `weights` has output channels first (convolution) or last (matrix product)."""
        summed = tuple(range(1, weights.ndim)) if op == "Int8Conv" else 0
        offset = bias - x.quantisation.zero * weights.sum(summed, dtype=np.int64)
        words = scaling(scales / quantisation.scale, _wrapped(offset), quantisation)
        names = self.constant(f"{out}_weights", np.ascontiguousarray(weights)), self.constant(f"{out}_parameters", words)
        self.add(op, (x.name, *names), out, attributes, node.name)

    # Operators

    def convolution(self, node: Node, out: str, quantisation: Quantisation) -> None:
        x, (weights, scales) = self.operand(node.inputs[0]), self.weights(node.inputs[1], 0)
        if weights.ndim != 4:
            raise _Unfit
        products = x.quantisation.scale * scales
        bias = self.bias(node.inputs[2] if len(node.inputs) > 2 else "", products)
        x, attributes = self.bordered(x, dict(node.attributes), out)
        self.product("Int8Conv", x, weights, products, bias, out, quantisation, attributes, node)

    def bordered(self, x: _Operand, attributes: dict, out: str) -> tuple[_Operand, dict]:
        """Return attributes with what stands around the input; where the accelerator cannot pad with that, the input is padded before."""
        zero, pads = x.quantisation.zero, attributes["pads"]
        if not any(pads):
            return x, attributes | {"border": 0}
        if zero in BORDERS:
            return x, attributes | {"border": zero}
        n, c, height, width = self.graph.types[x.name].shape
        wide = self.value(f"{out}_padded", TensorType((n, c, height + pads[0] + pads[2], width + pads[1] + pads[3]), "int8"))
        self.add("Pad", (x.name,), wide, {"mode": "constant", "pads": (0, 0, *pads[:2], 0, 0, *pads[2:]), "value": zero})
        return replace(x, name=wide), attributes | {"border": 0, "pads": (0, 0, 0, 0)}

    def dense(self, node: Node, out: str, quantisation: Quantisation) -> None:
        x, attributes = self.operand(node.inputs[0]), node.attributes
        if attributes["transA"] or attributes["alpha"] != 1 or (attributes["beta"] != 1 and len(node.inputs) > 2):
            raise _Unfit
        weights, scales = self.weights(node.inputs[1], 0 if attributes["transB"] else 1)
        products = x.quantisation.scale * scales
        bias = self.bias(node.inputs[2] if len(node.inputs) > 2 else "", products)
        self.product("Int8MatMul", x, weights.T if attributes["transB"] else weights, products, bias, out, quantisation, {}, node)

    def matrix_product(self, node: Node, out: str, quantisation: Quantisation) -> None:
        x, (weights, scales) = self.operand(node.inputs[0]), self.weights(node.inputs[1], 1)
        if weights.ndim != 2:
            raise _Unfit
        products = x.quantisation.scale * scales
        self.product("Int8MatMul", x, weights, products, np.zeros(scales.shape, np.int64), out, quantisation, {}, node)

    def average(self, node: Node, out: str, quantisation: Quantisation) -> None:
        """Average pooling is a depthwise convolution with weights of 1."""
        x, shape = self.operand(node.inputs[0]), self.graph.types[node.inputs[0]].shape
        if len(shape) != 4:
            raise _Unfit
        whole = {"kernel_shape": shape[2:], "pads": (0, 0, 0, 0), "strides": (1, 1), "ceil_mode": 0, "count_include_pad": 1}
        attributes = whole if node.op == "GlobalAveragePool" else node.attributes
        plain = not attributes["ceil_mode"] and tuple(attributes.get("dilations", (1, 1))) == (1, 1)
        if not plain or (any(attributes["pads"]) and not attributes["count_include_pad"]):
            raise _Unfit
        kernel = tuple(attributes["kernel_shape"])
        weights = np.ones((shape[1], 1, *kernel), np.int8)
        x, convolution = self.bordered(x, {"dilations": (1, 1), "group": shape[1], "pads": tuple(attributes["pads"]),
                                           "strides": tuple(attributes["strides"])}, out)
        scales = np.full(shape[1], x.quantisation.scale / np.prod(kernel))
        self.product("Int8Conv", x, weights, scales, np.zeros(shape[1], np.int64), out, quantisation, convolution, node)

    def greatest(self, node: Node, out: str, quantisation: Quantisation) -> None:
        x, attributes = self.operand(node.inputs[0]), node.attributes
        if attributes["ceil_mode"] or any(step != 1 for step in attributes["dilations"]) or len(attributes["kernel_shape"]) != 2:
            raise _Unfit
        pooled = {name: attributes[name] for name in ("kernel_shape", "pads", "strides")}
        self.rescaled(x, out, quantisation, lambda target: self.add("Int8MaxPool", (x.name,), target, pooled, node.name))

    def sum(self, node: Node, out: str, quantisation: Quantisation) -> None:
        a, b = self.pair(node)
        factors, shift = factors_and_shift([part.quantisation.scale / quantisation.scale for part in (a, b)])
        bias = -sum(part.quantisation.zero * factor for part, factor in zip((a, b), factors, strict=True))
        words = _single(bias, 1, shift, quantisation)
        self.add("Int8Add", (a.name, b.name, self.constant(f"{out}_parameters", words)), out, {"factors": factors}, node.name)

    def times(self, node: Node, out: str, quantisation: Quantisation) -> None:
        a, b = self.pair(node)
        words = scaling(np.array([a.quantisation.scale * b.quantisation.scale / quantisation.scale]), 0, quantisation)
        self.add("Int8Mul", (a.name, b.name, self.constant(f"{out}_parameters", words)), out,
                 {"zeros": (a.quantisation.zero, b.quantisation.zero)}, node.name)

    def pair(self, node: Node) -> tuple[_Operand, _Operand]:
        """Return two operands of one shape."""
        a, b = (self.operand(name) for name in node.inputs)
        if self.graph.types[a.name].shape != self.graph.types[b.name].shape:
            raise _Unfit
        return a, b

    def again(self, node: Node, out: str, quantisation: Quantisation) -> None:
        """Requantise an int8 tensor, with bounds perhaps."""
        self.rescaled(self.operand(node.outputs[0]), out, quantisation, None)

    def move(self, node: Node, out: str, quantisation: Quantisation) -> None:
        """Move int8 elements instead of real ones; what is joined must have one scale before."""
        operands = [self.operand(name) for name in node.inputs]
        if node.op == "Concat":
            operands = [self.alike(operand, quantisation, out) for operand in operands]
        source, _ = self.bounds(self.makers[out].inputs[0], quantisation)
        if node.outputs[0] not in self.moved:
            results = tuple(self.value(f"{name}_int8", TensorType(self.graph.types[name].shape, "int8")) for name in node.outputs)
            self.nodes.append(replace(node, inputs=tuple(operand.name for operand in operands), outputs=results))
            self.moved |= dict(zip(node.outputs, results, strict=True))
        self.rescaled(replace(operands[0], name=self.moved[source]), out, quantisation, None)

    def alike(self, operand: _Operand, quantisation: Quantisation, out: str) -> _Operand:
        """Return an operand on another scale."""
        plain = replace(quantisation, least=LEAST, greatest=GREATEST)
        if operand.quantisation == plain:
            return operand
        name = self.value(f"{out}_{operand.name}", self.graph.types[operand.name])
        self.rescaled(operand, name, plain, None)
        return _Operand(name, plain)

    def rescaled(self, operand: _Operand, out: str, quantisation: Quantisation, make: Callable[[str], None] | None) -> None:
        """Make `out` of an operand, or of what `make` makes of it, requantised where scale or bounds differ."""
        same = operand.quantisation == quantisation
        if make is not None:
            made = out if same else self.value(f"{out}_before", self.graph.types[out])
            make(made)
            operand = replace(operand, name=made)
        if same:
            if make is None:
                self.add("Identity", (operand.name,), out)
            return
        ratio = operand.quantisation.scale / quantisation.scale
        words = scaling(np.array([ratio]), -operand.quantisation.zero, quantisation)
        self.add("Int8Requantise", (operand.name, self.constant(f"{out}_parameters", words)), out)


def _single(bias: int, multiplier: int, shift: int, out: Quantisation) -> np.ndarray:
    """Return int64[4, 1], the parameters of all channels."""
    return parameter_words(*(np.array([value]) for value in (bias, multiplier, shift, out.zero, out.least, out.greatest)))


def _wrapped(values: np.ndarray) -> np.ndarray:
    return np.array([wrap(int(value), 32) for value in values])


BOUNDS: Mapping[str, Callable[[Node], tuple[float, float]]] = {
    "Relu": lambda node: (0.0, inf), "Clip": lambda node: (node.attributes["min"], node.attributes["max"])}
LOWERINGS: Mapping[str, Callable[[_Lowering, Node, str, Quantisation], None]] = {
    "Add": _Lowering.sum, "AveragePool": _Lowering.average, "Conv": _Lowering.convolution, "DequantizeLinear": _Lowering.again,
    "Gemm": _Lowering.dense, "GlobalAveragePool": _Lowering.average, "MatMul": _Lowering.matrix_product, "MaxPool": _Lowering.greatest,
    "Mul": _Lowering.times, **dict.fromkeys(MOVES, _Lowering.move)}
_MOVED = "on int8 elements, between conversions with one scale"
CONDITIONS: Mapping[str, str] = {  # under which an operator is lowered, all of them between DequantizeLinear and QuantizeLinear
    "Add": "two operands of one shape, neither constant",
    "AveragePool": "2-D, no ceil_mode, no dilation; padding only if it is counted",
    "Clip": "behind any of the others: its bounds come with their requantisation",
    "Conv": "2-D, weights int8 and constant without zero point, bias constant",
    "DequantizeLinear": "straight before QuantizeLinear: int8 to another scale",
    "Gemm": "weights int8 and constant without zero point, bias constant; no transA, alpha and beta 1",
    "GlobalAveragePool": "2-D",
    "MatMul": "weights int8[k, n] and constant without zero point",
    "MaxPool": "2-D, no ceil_mode, no dilation",
    "Mul": "two operands of one shape, neither constant",
    "Relu": "behind any of the others: its bound comes with their requantisation",
    **dict.fromkeys(MOVES, _MOVED)}
