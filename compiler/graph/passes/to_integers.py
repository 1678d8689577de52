"""Operators between DequantizeLinear and QuantizeLinear become operators on int8 tensors, as the accelerator
computes them.

`QuantizeLinear(Relu(Conv(DequantizeLinear(x), DequantizeLinear(w), b)))` becomes `Int8Conv(x, w,
parameters)`. Scales, zero points, bias and bounds go into the parameters of an exact integer requantisation,
so results may differ from float arithmetic by one in the last place.

Source: Jacob et al., CVPR 2018, section 2.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.conversions import Conversions, Operand, UnfitError
from vdla.compiler.graph.integers import (
    GREATEST,
    LEAST,
    Quantisation,
    factors_and_shift,
    product_parameters,
    scaling,
)
from vdla.compiler.graph.nodes import Graph, Node, TensorType
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.rewrite import Rewriting
from vdla.runtime.requantise import parameter_words

MOVES = (
    "Concat",
    "Flatten",
    "Reshape",
    "Split",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
)  # elements of one scale, whatever their places
WHOLE = {
    "ceil_mode": 0,
    "count_include_pad": 1,
    "dilations": (1, 1),
    "pads": (0, 0, 0, 0),
    "strides": (1, 1),
}  # of a window on all of an image
BORDERS = (0, LEAST)  # what the accelerator can pad with


@dataclass(frozen=True, slots=True)
class ToIntegers:
    """The pass; what it cannot express stays as it is, as does what something reads in float."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with integer operators."""
        return DeadCode().run(_Lowering(graph).run())


class _Lowering(Rewriting):
    """A lowered graph in the making: the float operators, of which those that nobody needs any more go later,
    and integer operators.

    Attributes:
        moved: int8 results of operators that only move elements, by the real result and the int8 tensors
            moved.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.found = Conversions(graph)
        self.moved: dict[tuple[str, ...], str] = {}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if node.op != "QuantizeLinear" or not self.lowered(node):
                self.nodes.append(node)
        return self.finished()

    def lowered(self, quantise: Node) -> bool:
        """Lower what a QuantizeLinear stands behind; return whether that could be done."""
        (out,) = quantise.outputs
        try:
            source, bounded = self.found.bounds(quantise.inputs[0], self.found.quantisation(quantise, out))
            maker = self.found.makers.get(source)
            if maker is None or maker.op not in LOWERINGS:
                return False
            LOWERINGS[maker.op](self, maker, out, bounded)
        except ValueError:
            return False
        return True

    # Operators

    def product(
        self,
        node: Node,
        x: Operand,
        weights: np.ndarray,
        scales: np.ndarray,
        bias: np.ndarray,
        out: str,
        quantisation: Quantisation,
        attributes: Mapping | None = None,
    ) -> None:
        """Add an operator that sums products; it is a convolution, whose `weights` have output channels
        first, if it has attributes.

        Args:
            scales: float64[n], of the products of each output channel.
            bias: float64[n], in real numbers.
        """
        rows = weights.reshape(len(weights), -1) if attributes else weights.T
        integers, words = product_parameters(rows, scales, bias, x.quantisation, quantisation)
        weights = integers.reshape(weights.shape) if attributes else integers.T
        names = (
            self.constant(f"{out}_weights", np.ascontiguousarray(weights)),
            self.constant(f"{out}_parameters", words),
        )
        self.add("Int8Conv" if attributes else "Int8MatMul", (x.name, *names), out, attributes, node.name)

    def convolution(self, node: Node, out: str, quantisation: Quantisation) -> None:
        x, (weights, scales) = self.found.operand(node.inputs[0]), self.found.weights(node.inputs[1], 4, 0)
        bias = self.found.bias(node, len(weights))
        scales = x.quantisation.scale * scales
        x, attributes = self.bordered(x, dict(node.attributes), out)
        self.product(node, x, weights, scales, bias, out, quantisation, attributes)

    def transposed(self, node: Node, out: str, quantisation: Quantisation) -> None:
        """Spread elements: what stands around and between them is 0, so their zero point must be."""
        x, (weights, scales) = self.found.operand(node.inputs[0]), self.found.weights(node.inputs[1], 4, 1)
        attributes = node.attributes
        if x.quantisation.zero or attributes["group"] != 1 or tuple(attributes["dilations"]) != (1, 1):
            raise UnfitError
        rows, bias = (
            weights.swapaxes(0, 1).reshape(weights.shape[1], -1),
            self.found.bias(node, weights.shape[1]),
        )
        integers, words = product_parameters(
            rows, x.quantisation.scale * scales, bias, x.quantisation, quantisation
        )
        outputs_first = integers.reshape(weights.shape[1], weights.shape[0], *weights.shape[2:])
        names = (
            self.constant(f"{out}_weights", np.ascontiguousarray(outputs_first.swapaxes(0, 1))),
            self.constant(f"{out}_parameters", words),
        )
        kept = {name: attributes[name] for name in ("output_padding", "pads", "strides")}
        self.add("Int8ConvTranspose", (x.name, *names), out, kept, node.name)

    def bordered(self, x: Operand, attributes: dict, out: str) -> tuple[Operand, dict]:
        """Return attributes with what stands around the input; where the accelerator cannot pad with that,
        the input is padded before."""
        zero, pads = x.quantisation.zero, attributes["pads"]
        if not any(pads):
            return x, attributes | {"border": 0}
        if zero in BORDERS:
            return x, attributes | {"border": zero}
        n, c, height, width = self.graph.types[x.name].shape
        wide = self.value(
            f"{out}_padded", TensorType((n, c, height + pads[0] + pads[2], width + pads[1] + pads[3]), "int8")
        )
        self.add(
            "Pad",
            (x.name,),
            wide,
            {"mode": "constant", "pads": (0, 0, *pads[:2], 0, 0, *pads[2:]), "value": zero},
        )
        return replace(x, name=wide), attributes | {"border": 0, "pads": (0, 0, 0, 0)}

    def dense(self, node: Node, out: str, quantisation: Quantisation) -> None:
        attributes = node.attributes
        if (
            attributes["transA"]
            or attributes["alpha"] != 1
            or (attributes["beta"] != 1 and len(node.inputs) > 2)
        ):
            raise UnfitError
        self.matrix_product(node, out, quantisation, bool(attributes["transB"]))

    def matrix_product(
        self, node: Node, out: str, quantisation: Quantisation, transposed: bool = False
    ) -> None:
        x, (weights, scales) = (
            self.found.operand(node.inputs[0]),
            self.found.weights(node.inputs[1], 2, 0 if transposed else 1),
        )
        weights = weights.T if transposed else weights
        self.product(
            node,
            x,
            weights,
            x.quantisation.scale * scales,
            self.found.bias(node, weights.shape[1]),
            out,
            quantisation,
        )

    def average(self, node: Node, out: str, quantisation: Quantisation) -> None:
        """Average pooling is a depthwise convolution with weights of 1."""
        x, shape = self.found.operand(node.inputs[0]), self.graph.types[node.inputs[0]].shape
        if len(shape) != 4:
            raise UnfitError
        attributes = node.attributes if node.op == "AveragePool" else {**WHOLE, "kernel_shape": shape[2:]}
        if (
            attributes["ceil_mode"]
            or attributes["dilations"] != (1, 1)
            or (any(attributes["pads"]) and not attributes["count_include_pad"])
        ):
            raise UnfitError
        weights = np.ones((shape[1], 1, *attributes["kernel_shape"]), np.int8)
        scales = np.full(shape[1], x.quantisation.scale / weights[0].size)
        x, convolution = self.bordered(
            x,
            {"group": shape[1], **{name: attributes[name] for name in ("dilations", "pads", "strides")}},
            out,
        )
        self.product(node, x, weights, scales, np.zeros(shape[1]), out, quantisation, convolution)

    def greatest(self, node: Node, out: str, quantisation: Quantisation) -> None:
        x, attributes = self.found.operand(node.inputs[0]), node.attributes
        if (
            attributes["ceil_mode"]
            or any(step != 1 for step in attributes["dilations"])
            or len(attributes["kernel_shape"]) != 2
        ):
            raise UnfitError
        pooled = {name: attributes[name] for name in ("kernel_shape", "pads", "strides")}
        self.rescaled(
            x, out, quantisation, lambda target: self.add("Int8MaxPool", (x.name,), target, pooled, node.name)
        )

    def sum(self, node: Node, out: str, quantisation: Quantisation) -> None:
        a, b = self.pair(node)
        factors, shift = factors_and_shift([part.quantisation.scale / quantisation.scale for part in (a, b)])
        bias = -sum(part.quantisation.zero * factor for part, factor in zip((a, b), factors, strict=True))
        words = _single(bias, 1, shift, quantisation)
        self.add(
            "Int8Add",
            (a.name, b.name, self.constant(f"{out}_parameters", words)),
            out,
            {"factors": factors},
            node.name,
        )

    def times(self, node: Node, out: str, quantisation: Quantisation) -> None:
        a, b = self.pair(node)
        words = scaling(
            np.array([a.quantisation.scale * b.quantisation.scale / quantisation.scale]), 0, quantisation
        )
        self.add(
            "Int8Mul",
            (a.name, b.name, self.constant(f"{out}_parameters", words)),
            out,
            {"zeros": (a.quantisation.zero, b.quantisation.zero)},
            node.name,
        )

    def pair(self, node: Node) -> tuple[Operand, Operand]:
        """Return two operands of one shape."""
        a, b = (self.found.operand(name) for name in node.inputs)
        if self.graph.types[a.name].shape != self.graph.types[b.name].shape:
            raise UnfitError
        return a, b

    def again(self, node: Node, out: str, quantisation: Quantisation) -> None:
        """Requantise an int8 tensor, with bounds perhaps."""
        self.rescaled(self.found.operand(node.outputs[0]), out, quantisation, None)

    def move(self, node: Node, out: str, quantisation: Quantisation) -> None:
        """Move int8 elements instead of real ones; what is joined must have one scale before."""
        operands = [self.found.operand(name) for name in node.inputs]
        if node.op == "Concat":
            operands = [self.alike(operand, quantisation, out) for operand in operands]
        source, _ = self.found.bounds(self.found.makers[out].inputs[0], quantisation)
        names = tuple(operand.name for operand in operands)
        if (source, *names) not in self.moved:
            results = tuple(
                self.value(f"{name}_int8", TensorType(self.graph.types[name].shape, "int8"))
                for name in node.outputs
            )
            self.nodes.append(replace(node, inputs=names, outputs=results))
            self.moved |= {(real, *names): result for real, result in zip(node.outputs, results, strict=True)}
        self.rescaled(replace(operands[0], name=self.moved[source, *names]), out, quantisation, None)

    def alike(self, operand: Operand, quantisation: Quantisation, out: str) -> Operand:
        """Return an operand on another scale."""
        plain = replace(quantisation, least=LEAST, greatest=GREATEST)
        if operand.quantisation == plain:
            return operand
        name = self.value(f"{out}_{operand.name}", self.graph.types[operand.name])
        self.rescaled(operand, name, plain, None)
        return Operand(name, plain)

    def rescaled(
        self, operand: Operand, out: str, quantisation: Quantisation, make: Callable[[str], None] | None
    ) -> None:
        """Make `out` of an operand, or of what `make` makes of it, requantised where scale or bounds
        differ."""
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
    return parameter_words(
        *(np.array([value]) for value in (bias, multiplier, shift, out.zero, out.least, out.greatest))
    )


LOWERINGS: Mapping[str, Callable[[_Lowering, Node, str, Quantisation], None]] = {
    "Add": _Lowering.sum,
    "AveragePool": _Lowering.average,
    "Conv": _Lowering.convolution,
    "ConvTranspose": _Lowering.transposed,
    "DequantizeLinear": _Lowering.again,
    "Gemm": _Lowering.dense,
    "GlobalAveragePool": _Lowering.average,
    "MatMul": _Lowering.matrix_product,
    "MaxPool": _Lowering.greatest,
    "Mul": _Lowering.times,
    **dict.fromkeys(MOVES, _Lowering.move),
}
_MOVED = "on int8 elements, between conversions with one scale"
CONDITIONS: Mapping[
    str, str
] = {  # under which an operator is lowered, all of them between DequantizeLinear and QuantizeLinear
    "Add": "two operands of one shape, neither constant, their scales less than 64 times the result's",
    "AveragePool": "2-D, no ceil_mode, no dilation; padding only if it is counted",
    "Clip": "behind any of the others: its bounds come with their requantisation",
    "Conv": "2-D, weights int8 and constant without zero point, bias constant",
    "ConvTranspose": "2-D, one group, no dilation, zero point 0; weights int8 and constant without zero "
    "point, bias constant",
    "DequantizeLinear": "straight before QuantizeLinear: int8 to another scale",
    "Gemm": "weights int8 and constant without zero point, bias constant; no transA, alpha and beta 1",
    "GlobalAveragePool": "2-D",
    "MatMul": "weights int8[k, n] and constant without zero point",
    "MaxPool": "2-D, no ceil_mode, no dilation",
    "Mul": "two operands of one shape, neither constant",
    "Relu": "behind any of the others: its bound comes with their requantisation",
    **dict.fromkeys(MOVES, _MOVED),
}
