"""Operators between DequantizeLinear and QuantizeLinear become operators on int8 tensors.

`QuantizeLinear(Relu(Conv(DequantizeLinear(x), DequantizeLinear(w), b)))` becomes `Int8Conv(x, w,
parameters)`. Scales, zero points, bias and bounds go into the parameters of an exact integer requantisation,
so results may differ from float arithmetic by one in the last place.

Source: Jacob et al., CVPR 2018, section 2.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from vdla.compiler.graph.conversions import Conversions, QuantisedTensor, check_scales
from vdla.compiler.graph.integer_forms.reasons import fit
from vdla.compiler.graph.integer_forms.rules import FIRST, MOVES
from vdla.compiler.graph.integer_forms.site import CHANGE, PAIRED, Site
from vdla.compiler.graph.integers import GREATEST, LEAST, Quantisation, factors_and_shift, scaling
from vdla.compiler.graph.nodes import Attribute, Graph, Node, TensorType, extents_of
from vdla.compiler.graph.passes.dead_code import DeadCode
from vdla.compiler.graph.rewrite import Rewriting
from vdla.runtime.requantise import parameter_words

IMAGE_RANK = 4
INPUTS_AXIS = {"Int8Conv": 1, "Int8ConvTranspose": 0, "Int8MatMul": 0}  # of the weights
WHOLE_BLOCKS = 16  # channels that most configurations join without multiplying
NEAREST: Mapping[str, Attribute] = {
    "coordinate_transformation_mode": "asymmetric",
    "nearest_mode": "floor",
}
ONCE: Mapping[str, Attribute] = {"dilations": (1, 1), "pads": (0, 0, 0, 0), "strides": (1, 1)}


@dataclass(frozen=True, slots=True)
class ToIntegers:
    """The pass; what it cannot express stays as it is, as does what something reads in float."""

    def run(self, graph: Graph) -> Graph:
        """Return `graph` with integer operators.

        Raises:
            GraphError: a scale is no number, or not positive.
        """
        check_scales(graph)
        return DeadCode().run(_Lowering(graph).run())


class _Lowering(Rewriting):
    """A lowered graph in the making: the float operators, of which those that nobody needs any more go later,
    and integer operators.

    Attributes:
        moved: int8 results of operators that only move elements, by the real result and the int8 tensors
            moved.
        copies: int8 tensors whose channels are those of another one several times, by that, the number of
            groups and how many times; those whose rows are, by that, 0 and how many times; those less their
            zero point, by that, 1 and 0.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.found = Conversions(graph)
        self.moved: dict[tuple[str, ...], str] = {}
        self.copies: dict[tuple[str, int, int], str] = {}

    def run(self) -> Graph:
        """Return the graph with integer operators."""
        for node in self.graph.nodes:
            if node.op != "QuantizeLinear" or not self.lowered(node):
                self.nodes.append(node)
        return self.finished()

    def lowered(self, quantise: Node) -> bool:
        """Lower what a QuantizeLinear stands behind; return whether that could be done."""
        maker = self.found.makers.get(self.found.source(quantise.inputs[0]))
        form = None if maker is None else fit(self.found, maker, quantise)
        if not isinstance(form, Site):  # `why_float` says so again where the operator is placed
            return False
        LOWERINGS[form.kind](self, form)
        return True

    # Operators

    def product(
        self,
        site: Site,
        weights: np.ndarray,
        op: str,
        attributes: Mapping[str, Attribute] | None = None,
        x: QuantisedTensor | None = None,
    ) -> None:
        """Add an operator that sums products of the site's operand, or of `x` in its place, with `weights`,
        in the order of its kind."""
        x = x or site.operands[0]
        words = site.product.parameters(x.quantisation, site.result)
        if op == "Int8Conv":
            attributes = _bordered(x, attributes or {})
        parts = signed_bytes(weights)
        if len(parts) == 1:
            name, weights = x.name, parts[0]
        elif attributes is not None and self.has_rows(x.name, site.groups, weights, attributes):
            name, weights, attributes = self.by_rows(x.name, parts, attributes)
        else:
            name = self.repeated(x.name, op, site.groups, len(parts))
            weights = np.concatenate(parts, INPUTS_AXIS[op])
        names = (
            self.constant(f"{site.out}_weights", np.ascontiguousarray(weights, np.int8)),
            self.constant(f"{site.out}_parameters", words),
        )
        self.add(op, (name, *names), site.out, attributes, site.node.name)

    def has_rows(self, name: str, groups: int, weights: np.ndarray, more: Mapping[str, Attribute]) -> bool:
        """Whether a convolution is a depthwise one whose kernel lies on neighbouring rows of one image."""
        shape = self.shape(name)
        alone = groups > 1 and weights.shape[:2] == (groups, 1) and groups == shape[1]
        return alone and shape[0] == 1 and (weights.shape[2] == 1 or extents_of(more, "dilations")[0] == 1)

    def by_rows(
        self, name: str, parts: list[np.ndarray], attributes: Mapping[str, Attribute]
    ) -> tuple[str, np.ndarray, dict[str, Attribute]]:
        """Return an image with each row several times, the rows of several kernels between each other, and
        the attributes of their depthwise convolution: the image is convolved with the sum of the kernels."""
        times, (images, channels, high, wide) = len(parts), self.shape(name)
        sizes = (images, channels, times * high, wide)
        if (name, 0, times) not in self.copies:
            out = self.value(f"{name}_rows", TensorType(sizes, "int8"))
            scales = (1.0, 1.0, float(times), 1.0)
            self.copies[name, 0, times] = self.add(
                "Resize", (name,), out, {**NEAREST, "scales": scales, "sizes": sizes}
            )
        kernels = np.stack(parts, 3).reshape(channels, 1, -1, parts[0].shape[3])
        (down, across), pads = extents_of(attributes, "strides"), extents_of(attributes, "pads")
        tall = tuple(times * pad if place % 2 == 0 else pad for place, pad in enumerate(pads))
        close = (1, extents_of(attributes, "dilations")[1])  # rows of the parts, which are neighbours
        moves = {"dilations": close, "pads": tall, "strides": (times * down, across)}
        more: dict[str, Attribute] = {**attributes, **moves}
        return self.copies[name, 0, times], kernels, more

    def repeated(self, name: str, op: str, groups: int, count: int) -> str:
        """Return an int8 tensor with each group of another one's channels several times.

        Weights less their zero point may be nine bits wide. Then they are the sum of parts of eight bits, and
        the product of a tensor, as many times, with all parts is exact.
        """
        image, shape = op != "Int8MatMul", list(self.shape(name))
        axis = 1 if image else len(shape) - 1
        channels, shape[axis] = shape[axis], count * shape[axis]
        if (name, groups, count) in self.copies:
            return self.copies[name, groups, count]
        out = self.value(f"{name}_repeated", TensorType(tuple(shape), "int8"))
        self.copies[name, groups, count] = out
        if groups == 1 and (channels % WHOLE_BLOCKS == 0 or self.comes_in(name)):
            return self.add("Concat", (name,) * count, out, {"axis": axis})
        ones = np.tile(np.eye(channels // groups, dtype=np.int8), (count * groups, 1))
        weights = ones[..., None, None] if image else ones.T
        names = (
            self.constant(f"{out}_weights", np.ascontiguousarray(weights)),
            self.constant(f"{out}_parameters", scaling(np.ones(1), 0, Quantisation(1.0, 0))),
        )
        if not image:
            return self.add("Int8MatMul", (name, *names), out)
        return self.add("Int8Conv", (name, *names), out, {**ONCE, "group": groups, "border": 0})

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a value of either graph."""
        return (self.types.get(name) or self.graph.types[name]).shape

    def comes_in(self, name: str) -> bool:
        """Whether a tensor is an input of the network, or that quantised: the host has it anyway."""
        maker = self.found.makers.get(name)
        return maker is None or (len(maker.inputs) > 0 and maker.inputs[0] in self.graph.inputs)

    def convolution(self, site: Site) -> None:
        """Add a convolution."""
        weights = site.product.weights.reshape(site.weights.values.shape)
        self.product(site, weights, "Int8Conv", site.node.attributes)

    def changed(self, site: Site) -> None:
        """Changes of channels are a depthwise convolution of an image, or a product with a diagonal
        matrix."""
        weights = site.product.weights
        if not site.last:
            attributes = {**ONCE, "group": len(weights)}
            self.product(site, weights.reshape(-1, 1, 1, 1), "Int8Conv", attributes)
        else:
            self.product(site, np.diag(weights[:, 0]), "Int8MatMul")

    def transposed(self, site: Site) -> None:
        """Add a transposed convolution, of a kernel without gaps and an image of zero point 0."""
        inputs, outputs, *kernel = site.weights.values.shape
        dense = site.product.weights.reshape(outputs, inputs, *kernel).swapaxes(0, 1)
        weights = _dilated(dense, site.node.pair("dilations"))
        kept = {name: site.node.attributes[name] for name in ("output_padding", "pads", "strides")}
        x, count = self.less_zero(site.operands[0])
        self.product(site, np.concatenate([weights] * count), "Int8ConvTranspose", kept, x)

    def less_zero(self, x: QuantisedTensor) -> tuple[QuantisedTensor, int]:
        """Return an image less its zero point: images of int8 whose sum it is, one behind another along the
        channels; and how many these are.

        What a transposed convolution has around and between the pixels is 0, and no pixel of value 0.
        """
        if not x.quantisation.zero:
            return x, 1
        parts, shape = parts_less(x.quantisation.zero), self.graph.types[x.name].shape
        channels, key = shape[1], (x.name, 1, 0)
        if key not in self.copies:
            wide = TensorType((shape[0], len(parts) * channels, *shape[2:]), "int8")
            self.copies[key] = self.in_parts(x.name, parts, self.value(f"{x.name}_less", wide))
        return QuantisedTensor(self.copies[key], replace(x.quantisation, zero=0)), len(parts)

    def in_parts(self, name: str, parts: list[np.ndarray], out: str) -> str:
        """Add what makes several images of one; parameters of requantisation say how."""
        channels = self.graph.types[name].shape[1]
        if channels % WHOLE_BLOCKS:
            ones = np.tile(np.eye(channels, dtype=np.int8), (len(parts), 1))[..., None, None]
            words = np.concatenate([np.repeat(part, channels, 1) for part in parts], 1)
            names = self.constant(f"{out}_weights", ones), self.constant(f"{out}_parameters", words)
            return self.add("Int8Conv", (name, *names), out, {**ONCE, "group": 1, "border": 0})
        images = tuple(self.value(f"{out}_part", self.graph.types[name]) for _ in parts)
        for image, part in zip(images, parts, strict=True):
            self.add("Int8Requantise", (name, self.constant(f"{image}_parameters", part)), image)
        return self.add("Concat", images, out, {"axis": 1})

    def matrix_product(self, site: Site) -> None:
        """Add a product with constant weights."""
        self.product(site, site.product.weights.T, "Int8MatMul")

    def average(self, site: Site) -> None:
        """Average pooling is a depthwise convolution with weights of 1."""
        window = site.window
        kept = {name: window.attributes[name] for name in ("dilations", "pads", "strides")}
        weights = site.product.weights.reshape(site.weights.values.shape)
        self.product(site, weights, "Int8Conv", {"group": site.channels, **kept})

    def greatest(self, site: Site) -> None:
        """Add max pooling, and what changes its scale where input and result have others."""
        (x,), attributes, node = site.operands, site.node.attributes, site.node
        pooled = {name: attributes[name] for name in ("kernel_shape", "pads", "strides")}
        self.rescaled(
            x,
            site.out,
            site.result,
            lambda target: self.add("Int8MaxPool", (x.name,), target, pooled, node.name),
        )

    def sum(self, site: Site) -> None:
        """Add the sum of two tensors, each of which gets an integer factor."""
        factors, shift = factors_and_shift(list(site.ratios))
        bias = -sum(
            part.quantisation.zero * factor for part, factor in zip(site.operands, factors, strict=True)
        )
        self.pair("Int8Add", site, _single(bias, 1, shift, site.result), {"factors": factors})

    def times(self, site: Site) -> None:
        """Add the product of two tensors, element by element."""
        zeros = tuple(part.quantisation.zero for part in site.operands)
        self.pair("Int8Mul", site, scaling(site.ratios, 0, site.result), {"zeros": zeros})

    def products(self, site: Site) -> None:
        """Add the products of two stacks of matrices."""
        a, b = site.operands
        left, right = (self.graph.types[part.name].shape for part in site.operands)
        stacks = np.broadcast_shapes(left[:-2], right[:-2])
        rows, depth, columns = left[-2], left[-1], right[-1]
        attributes: dict[str, Attribute] = {
            "a_places": _stacked(left, stacks),
            "b_places": _stacked(right, stacks),
            "places": _stacked((*stacks, rows, columns), stacks),
            "shape": (*stacks, rows, columns),
            "size": (rows, columns, depth),
            "transposed": 0,
            "zeros": (a.quantisation.zero, b.quantisation.zero),
        }
        self.pair("Int8Products", site, scaling(site.ratios, 0, site.result), attributes)

    def pair(self, op: str, site: Site, words: np.ndarray, attributes: Mapping[str, Attribute]) -> None:
        """Add an operator on the elements of two tensors."""
        a, b = (part.name for part in site.operands)
        parameters = self.constant(f"{site.out}_parameters", words)
        self.add(op, (a, b, parameters), site.out, attributes, site.node.name)

    def again(self, site: Site) -> None:
        """Requantise an int8 tensor, with bounds perhaps."""
        self.rescaled(site.operands[0], site.out, site.result, None)

    def move(self, site: Site) -> None:
        """Move int8 elements instead of real ones; what is joined must have one scale before."""
        node, out, operands = site.node, site.out, list(site.operands)
        if node.op == "Concat":
            operands = [self.alike(operand, site.result, out) for operand in operands]
        source = self.found.source(site.quantiser.inputs[0])
        names = tuple(operand.name for operand in operands)
        if (source, *names) not in self.moved:
            results = tuple(
                self.value(f"{name}_int8", TensorType(self.graph.types[name].shape, "int8"))
                for name in node.outputs
            )
            self.nodes.append(replace(node, inputs=names, outputs=results))
            self.moved |= {(real, *names): result for real, result in zip(node.outputs, results, strict=True)}
        self.rescaled(replace(operands[0], name=self.moved[source, *names]), out, site.result, None)

    def alike(self, operand: QuantisedTensor, quantisation: Quantisation, out: str) -> QuantisedTensor:
        """Return an operand on another scale."""
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


def _bordered(x: QuantisedTensor, attributes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """Return attributes with what stands around the input: its zero point."""
    padded = any(extents_of(attributes, "pads"))
    return {**attributes, "border": x.quantisation.zero if padded else 0}


def _stacked(shape: tuple[int, ...], stacks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the first row and the first column of the matrix of each place in `stacks`, which a tensor's
    leading dimensions are broadcast to."""
    own = shape[:-2]
    numbers = np.broadcast_to(np.arange(prod(own)).reshape(own), stacks).reshape(-1)
    return tuple(place for number in numbers.tolist() for place in (number * shape[-2], 0))


def signed_bytes(weights: np.ndarray) -> list[np.ndarray]:
    """Return the fewest arrays of int8 whose sum whole numbers are."""
    parts: list[np.ndarray] = []
    rest = weights.astype(np.int64)
    while rest.any() or not parts:
        parts.append(np.clip(rest, LEAST, GREATEST).astype(np.int8))
        rest = rest - parts[-1]
    return parts


def _dilated(weights: np.ndarray, dilations: tuple[int, int]) -> np.ndarray:
    """Return weights with zeros between those of neighbouring rows and columns."""
    down, across = dilations
    *channels, high, wide = weights.shape
    spread = np.zeros((*channels, (high - 1) * down + 1, (wide - 1) * across + 1), weights.dtype)
    spread[..., ::down, ::across] = weights
    return spread


def parts_less(zero: int) -> list[np.ndarray]:
    """Return int64[4, 1] for each of the numbers of int8 whose sum is an int8 less its zero point."""
    if zero < 0:
        step, count, rest = GREATEST, -((zero - GREATEST) // GREATEST), (0, GREATEST)
    else:
        step, count, rest = LEAST, -((LEAST - zero) // -LEAST), (LEAST, 0)
    bounds = [(LEAST, GREATEST), *[rest] * (count - 1)]
    return [
        scaling(np.ones(1), -zero - place * step, Quantisation(1.0, 0, *each))
        for place, each in enumerate(bounds)
    ]


def _single(bias: int, multiplier: int, shift: int, out: Quantisation) -> np.ndarray:
    """Return int64[4, 1], the parameters of all channels."""
    return parameter_words(
        *(np.array([value]) for value in (bias, multiplier, shift, out.zero, out.least, out.greatest))
    )


LOWERINGS: Mapping[str, Callable[[_Lowering, Site], None]] = {
    "Add": _Lowering.sum,
    CHANGE: _Lowering.changed,
    "AveragePool": _Lowering.average,
    "Conv": _Lowering.convolution,
    "ConvTranspose": _Lowering.transposed,
    "DequantizeLinear": _Lowering.again,
    "Gemm": _Lowering.matrix_product,
    "GlobalAveragePool": _Lowering.average,
    "MatMul": _Lowering.matrix_product,
    "MaxPool": _Lowering.greatest,
    "Mul": _Lowering.times,
    PAIRED: _Lowering.products,
    **dict.fromkeys(MOVES, _Lowering.move),
}
assert LOWERINGS.keys() == FIRST.keys(), "an operator has a lowering, and rules"
