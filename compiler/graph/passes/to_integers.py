"""Lowers operators between DequantizeLinear and QuantizeLinear to operators on int8 tensors.

`QuantizeLinear(Relu(Conv(DequantizeLinear(x), DequantizeLinear(w), b)))` becomes `Int8Conv(x, w,
parameters)`. Scales, zero points, bias and bounds become the parameters of an exact integer requantisation,
so results may differ from float arithmetic by 1. Weights less their zero point are int16 if they do not fit
int8. The pass is independent of the target: the network compiler expands unsupported operators.

Source: Jacob et al., CVPR 2018, section 2.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from vdla.compiler.graph.conversions import Conversions, QuantisedTensor, check_scales
from vdla.compiler.graph.integer_forms.reasons import fit, with_reasons
from vdla.compiler.graph.integer_forms.rules import FIRST, MOVES
from vdla.compiler.graph.integer_forms.site import CHANGE, PAIRED, Site
from vdla.compiler.graph.integers import GREATEST, LEAST, Quantisation, factors_and_shift, scaling
from vdla.compiler.graph.nodes import Attribute, Graph, Node, TensorType
from vdla.compiler.graph.passes.cleanup import DeadCode
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.compiler.rules import Unfit
from vdla.runtime.requantise import parameter_words


@dataclass(frozen=True, slots=True)
class ToIntegers:
    """The pass. Operators without an integer form remain, and so do values that are read as float."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with integer operators. Each other node has the reason why the host runs it.

        Raises:
            GraphError: a scale is no number or not positive.
        """
        check_scales(graph)
        lowering = _Lowering(graph)
        return with_reasons(DeadCode().run(lowering.run()), lowering.rejected)


class _Lowering(GraphBuilder):
    """The lowered graph under construction: integer operators, and all float operators, of which unused ones
    are removed afterwards.

    Attributes:
        rejected: reasons why operators before a QuantizeLinear have no integer form, by their first result.
        moved: int8 results of operators that only move elements, by the real result and the int8 operands.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.conversions = Conversions(graph)
        self.rejected: dict[str, str] = {}
        self.moved: dict[tuple[str, ...], str] = {}

    def run(self) -> Graph:
        """Return the graph with integer operators."""
        for node in self.graph.nodes:
            if node.op != "QuantizeLinear" or not self.lowered(node):
                self.nodes.append(node)
        return self.finished()

    def lowered(self, quantise: Node) -> bool:
        """Lower the operator before a QuantizeLinear; return whether it has an integer form."""
        maker = self.conversions.makers.get(self.conversions.source(quantise.inputs[0]))
        if maker is None:
            return False
        form = fit(self.conversions, maker, quantise)
        if isinstance(form, Unfit):
            self.reject(maker, quantise, form.reason)
            return False
        LOWERINGS[form.kind](self, form)
        return True

    def reject(self, maker: Node, quantise: Node, reason: str) -> None:
        """Record the reason why `maker` is not lowered; a requantisation is a pair of conversions."""
        for node in (maker, quantise) if maker.op == "DequantizeLinear" else (maker,):
            self.rejected.setdefault(node.result, reason)

    # Operators

    def add_product(
        self, site: Site, weights: np.ndarray, op: str, attributes: Mapping[str, Attribute] | None = None
    ) -> None:
        """Add an operator that sums products of the site's operand with `weights`, in the weight layout of
        `op`."""
        words = site.product.parameters(site.operands[0].quantisation, site.result)
        self.add_weighted(site, weights, words, op, attributes)

    def add_weighted(
        self,
        site: Site,
        weights: np.ndarray,
        words: np.ndarray,
        op: str,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        """Add an operator on the site's operand with `weights` and parameters of requantisation."""
        names = (
            self.constant(f"{site.out}_weights", _narrowed(weights)),
            self.constant(f"{site.out}_parameters", words),
        )
        self.add(op, (site.operands[0].name, *names), site.out, attributes, site.node.name)

    def convolution(self, site: Site) -> None:
        """Add a convolution."""
        weights = site.product.weights.reshape(site.weights.values.shape)
        self.add_product(site, weights, "Int8Conv", {**site.node.attributes, "border": _border(site)})

    def channel_scale(self, site: Site) -> None:
        """Add a scale of channels, with a factor for each channel or a single factor."""
        words = site.product.parameters(site.operands[0].quantisation, site.result)
        factors = _shared(site.product.weights[:, 0])
        self.add_weighted(site, factors, _shared(words), "Int8Scale", {"axis": -1 if site.last else 1})

    def transposed(self, site: Site) -> None:
        """Add a transposed convolution of an image less its zero point, with a dense (undilated) kernel. The
        padding around and between the pixels is 0."""
        inputs, outputs, *kernel = site.weights.values.shape
        dense = site.product.weights.reshape(outputs, inputs, *kernel).swapaxes(0, 1)
        weights = _dilated(dense, site.node.pair("dilations"))
        kept = {name: site.node.attributes[name] for name in ("output_padding", "pads", "strides")}
        inp = site.operands[0].quantisation
        words = site.product.parameters(replace(inp, zero=0), site.result)
        self.add_weighted(site, weights, words, "Int8ConvTranspose", {**kept, "zero": inp.zero})

    def matrix_product(self, site: Site) -> None:
        """Add a product with constant weights."""
        self.add_product(site, site.product.weights.T, "Int8MatMul")

    def average(self, site: Site) -> None:
        """Add average pooling: its requantisation divides sums by the elements of a window."""
        (x,), window = site.operands, site.window
        of_channels = site.product.parameters(x.quantisation, site.result)  # equal for all channels
        words = self.constant(f"{site.out}_parameters", of_channels[:, :1])
        kept = {name: window.attributes[name] for name in ("kernel_shape", "pads", "strides")}
        attributes = {**kept, "border": _border(site)}
        self.add("Int8AveragePool", (x.name, words), site.out, attributes, site.node.name)

    def max_pool(self, site: Site) -> None:
        """Add max pooling, and a requantisation if the scales of input and result differ."""
        (x,), attributes, node = site.operands, site.node.attributes, site.node
        pooled = {name: attributes[name] for name in ("kernel_shape", "pads", "strides")}
        self.rescaled(
            x,
            site.out,
            site.result,
            lambda target: self.add("Int8MaxPool", (x.name,), target, pooled, node.name),
        )

    def sum(self, site: Site) -> None:
        """Add the sum of two tensors, each multiplied by an integer factor."""
        factors, shift = factors_and_shift(list(site.ratios))
        bias = -sum(
            part.quantisation.zero * factor for part, factor in zip(site.operands, factors, strict=True)
        )
        self.add_binary("Int8Add", site, _single(bias, 1, shift, site.result), {"factors": factors})

    def elementwise_product(self, site: Site) -> None:
        """Add the elementwise product of two tensors."""
        zeros = tuple(part.quantisation.zero for part in site.operands)
        self.add_binary("Int8Mul", site, scaling(site.ratios, 0, site.result), {"zeros": zeros})

    def products(self, site: Site) -> None:
        """Add the products of two stacks of matrices."""
        a, b = site.operands
        left, right = (self.graph.types[part.name].shape for part in site.operands)
        stacks = np.broadcast_shapes(left[:-2], right[:-2])
        rows, depth, columns = left[-2], left[-1], right[-1]
        attributes: dict[str, Attribute] = {
            "a_places": _matrix_corners(left, stacks),
            "b_places": _matrix_corners(right, stacks),
            "places": _matrix_corners((*stacks, rows, columns), stacks),
            "shape": (*stacks, rows, columns),
            "size": (rows, columns, depth),
            "transposed": 0,
            "zeros": (a.quantisation.zero, b.quantisation.zero),
        }
        self.add_binary("Int8Products", site, scaling(site.ratios, 0, site.result), attributes)

    def add_binary(self, op: str, site: Site, words: np.ndarray, attributes: Mapping[str, Attribute]) -> None:
        """Add an operator on two tensors, with requantisation parameters `words`."""
        a, b = (part.name for part in site.operands)
        parameters = self.constant(f"{site.out}_parameters", words)
        self.add(op, (a, b, parameters), site.out, attributes, site.node.name)

    def requantise(self, site: Site) -> None:
        """Add the requantisation of an int8 tensor, with the bounds of Relu and Clip."""
        self.rescaled(site.operands[0], site.out, site.result, None)

    def move(self, site: Site) -> None:
        """Move int8 elements instead of real ones. The operands of a Concat are first requantised to a common
        scale."""
        node, out, operands = site.node, site.out, list(site.operands)
        if node.op == "Concat":
            operands = [self.with_quantisation(operand, site.result, out) for operand in operands]
        source = self.conversions.source(site.quantiser.inputs[0])
        names = tuple(operand.name for operand in operands)
        if (source, *names) not in self.moved:
            results = tuple(
                self.value(f"{name}_int8", TensorType(self.graph.types[name].shape, "int8"))
                for name in node.outputs
            )
            self.nodes.append(replace(node, inputs=names, outputs=results))
            self.moved |= {(real, *names): result for real, result in zip(node.outputs, results, strict=True)}
        self.rescaled(replace(operands[0], name=self.moved[source, *names]), out, site.result, None)

    def with_quantisation(
        self, operand: QuantisedTensor, quantisation: Quantisation, out: str
    ) -> QuantisedTensor:
        """Return an operand requantised to the scale and zero point of `quantisation`."""
        plain = replace(quantisation, least=LEAST, greatest=GREATEST)
        if operand.quantisation == plain:
            return operand
        name = self.value(f"{out}_{operand.name}", self.graph.types[operand.name])
        self.rescaled(operand, name, plain, None)
        return QuantisedTensor(name, plain)

    def rescaled(
        self,
        operand: QuantisedTensor,
        out: str,
        quantisation: Quantisation,
        make: Callable[[str], object] | None,
    ) -> None:
        """Add the requantisation of an operand to `out`, if scale or bounds differ.

        Args:
            make: adds an operator on the operand whose result has the given name; its result is requantised
                instead of the operand. None: no operator.
        """
        same = operand.quantisation == quantisation
        if make is not None:
            result = out if same else self.value(f"{out}_before", self.graph.types[out])
            make(result)
            operand = replace(operand, name=result)
        if same:
            if make is None:
                self.add("Identity", (operand.name,), out)
            return
        ratio = operand.quantisation.scale / quantisation.scale
        words = scaling(np.array([ratio]), -operand.quantisation.zero, quantisation)
        self.add("Int8Requantise", (operand.name, self.constant(f"{out}_parameters", words)), out)


def _border(site: Site) -> int:
    """Return the value that pads the input of a window: its zero point."""
    return site.operands[0].quantisation.zero if any(site.window.extents("pads")) else 0


def _narrowed(weights: np.ndarray) -> np.ndarray:
    """Return weights as int8, or as int16 if they do not fit int8."""
    narrow = weights.astype(np.int8)
    return np.ascontiguousarray(narrow if np.array_equal(narrow, weights) else weights.astype(np.int16))


def _shared(channels: np.ndarray) -> np.ndarray:
    """Return an array [..., channels] as [..., 1] if all channels are equal."""
    return channels[..., :1] if bool((channels == channels[..., :1]).all()) else channels


def _matrix_corners(shape: tuple[int, ...], stacks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the first row and first column of each matrix of a tensor whose leading dimensions are broadcast
    to `stacks`."""
    leading = shape[:-2]
    numbers = np.broadcast_to(np.arange(prod(leading)).reshape(leading), stacks).reshape(-1)
    return tuple(place for number in numbers.tolist() for place in (number * shape[-2], 0))


def _dilated(weights: np.ndarray, dilations: tuple[int, int]) -> np.ndarray:
    """Return weights with zeros between adjacent rows and columns, for dilations."""
    down, across = dilations
    *channels, high, wide = weights.shape
    spread = np.zeros((*channels, (high - 1) * down + 1, (wide - 1) * across + 1), weights.dtype)
    spread[..., ::down, ::across] = weights
    return spread


def _single(bias: int, multiplier: int, shift: int, out: Quantisation) -> np.ndarray:
    """Return int64[4, 1]: requantisation parameters that all channels share."""
    return parameter_words(
        *(np.array([value]) for value in (bias, multiplier, shift, out.zero, out.least, out.greatest))
    )


LOWERINGS: Mapping[str, Callable[[_Lowering, Site], None]] = {
    "Add": _Lowering.sum,
    CHANGE: _Lowering.channel_scale,
    "AveragePool": _Lowering.average,
    "Conv": _Lowering.convolution,
    "ConvTranspose": _Lowering.transposed,
    "DequantizeLinear": _Lowering.requantise,
    "Gemm": _Lowering.matrix_product,
    "GlobalAveragePool": _Lowering.average,
    "MatMul": _Lowering.matrix_product,
    "MaxPool": _Lowering.max_pool,
    "Mul": _Lowering.elementwise_product,
    PAIRED: _Lowering.products,
    **dict.fromkeys(MOVES, _Lowering.move),
}
assert LOWERINGS.keys() == FIRST.keys(), "every operator with a lowering has rules"
