"""The integer form of each float operator: its rules and its lowering.

A new integer form is a method of `Lowering` and an entry of `FORMS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from vdla.compiler.graph.conversions import BOUNDS, Conversions, QuantisedTensor
from vdla.compiler.graph.integer_forms.rules import (
    AROUND,
    BIAS,
    CEIL_MODE,
    DILATIONS,
    DIMENSIONS,
    FACTORED,
    FACTORS,
    MATRICES,
    MATRIX,
    MOVES,
    ONE_FACTOR,
    PADDING,
    PAIR_SUMS,
    RATIOS,
    RESULT,
    SHAPES,
    SHIFTS,
    SUMS,
    WEIGHTS,
    attribute,
    unquantised,
)
from vdla.compiler.graph.integer_forms.site import CHANGE, PAIRED, Site
from vdla.compiler.graph.integers import GREATEST, LEAST, Quantisation, factors_and_shift, scaling
from vdla.compiler.graph.nodes import Attribute, TensorType
from vdla.compiler.graph.rewrite import GraphBuilder
from vdla.compiler.rules import Rule, unfit
from vdla.runtime.requantise import parameter_words


class Lowering(GraphBuilder):
    """The lowered graph under construction: integer operators, and all float operators, of which unused ones
    are removed afterwards. Each method adds the integer form of an operator.

    Attributes:
        moved: int8 results of operators that only move elements, by the real result and the int8 operands.
    """

    def __init__(self, conversions: Conversions) -> None:
        super().__init__(conversions.graph)
        self.conversions = conversions
        self.moved: dict[tuple[str, ...], str] = {}

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
        self.add_weighted(site, factors, _shared(words), "Int8Scale", {"axis": site.node.integer("axis")})

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


def _bounded(site: Site) -> str:
    source = site.conversions.source(site.node.result)
    maker = site.conversions.makers.get(source)
    if maker is None or maker.op not in RULES:
        return unquantised(site, source)
    unfit_maker = unfit(maker.op, RULES[maker.op], Site(site.conversions, maker, site.quantise))
    return f"input {source} that {maker} makes on the host" if unfit_maker else ""


@dataclass(frozen=True, slots=True)
class IntegerForm:
    """The integer form of an operator.

    Attributes:
        lower: adds it to the lowered graph.
        first: rules for the operator itself.
        inside: rules for its int8 tensors, which hold after those for its conversions.
    """

    lower: Callable[[Lowering, Site], None]
    first: tuple[Rule[Site], ...] = ()
    inside: tuple[Rule[Site], ...] = (RATIOS,)


PRODUCT = (SUMS, RATIOS)
FORMS: Mapping[str, IntegerForm] = {
    "Add": IntegerForm(Lowering.sum, (), (SHAPES, FACTORS)),
    CHANGE: IntegerForm(Lowering.channel_scale, (), (SUMS, RATIOS, SHIFTS)),
    "AveragePool": IntegerForm(Lowering.average, (DIMENSIONS, CEIL_MODE, DILATIONS, PADDING), PRODUCT),
    "Conv": IntegerForm(Lowering.convolution, (DIMENSIONS, *WEIGHTS, *BIAS), PRODUCT),
    "ConvTranspose": IntegerForm(
        Lowering.transposed, (DIMENSIONS, attribute("group", 1), *WEIGHTS, *BIAS), PRODUCT
    ),
    "DequantizeLinear": IntegerForm(Lowering.requantise),
    "Gemm": IntegerForm(Lowering.matrix_product, (attribute("transA", 0), *WEIGHTS, *BIAS), PRODUCT),
    "GlobalAveragePool": IntegerForm(Lowering.average, (DIMENSIONS,), PRODUCT),
    "MatMul": IntegerForm(Lowering.matrix_product, (MATRIX, *WEIGHTS), PRODUCT),
    PAIRED: IntegerForm(Lowering.products, (MATRICES,), (ONE_FACTOR, PAIR_SUMS, RATIOS)),
    "MaxPool": IntegerForm(Lowering.max_pool, (DIMENSIONS, CEIL_MODE, DILATIONS)),
    "Mul": IntegerForm(Lowering.elementwise_product, (), (FACTORED, RATIOS)),
    **dict.fromkeys(MOVES, IntegerForm(Lowering.move)),
}
BOUND = Rule("bounds after an operator that runs there", _bounded)
RULES: Mapping[str, tuple[Rule[Site], ...]] = {
    **{op: (*form.first, *AROUND, *form.inside) for op, form in FORMS.items()},
    **dict.fromkeys(BOUNDS, (RESULT, BOUND)),
}
