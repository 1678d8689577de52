"""The rules under which float operators have an integer form."""

from collections.abc import Mapping

import numpy as np

from vdla.compiler.graph.integer_forms.normalisation import OF_ROWS
from vdla.compiler.graph.integer_forms.prerequisites import SPACE, VOLUME_RANK
from vdla.compiler.graph.integer_forms.site import Site
from vdla.compiler.graph.integers import (
    LARGEST_MULTIPLE,
    LARGEST_RATIO,
    SUM_BITS,
    fits_factor,
    fits_multiplier,
    fits_sum,
)
from vdla.compiler.graph.nodes import REARRANGING, Node
from vdla.compiler.rules import Rule, counted
from vdla.runtime.layout import IMAGE_RANK

FARTHEST = 255  # largest distance of an int8 value from a zero point
LARGEST_STEP = 1  # of shifts of channels, in steps of the result; the error is at most half a step
WITH_CONSTANTS = ("Add", "Concat", "Mul")
"""Operators that may have int8 constants among their operands."""
MOVES = ("Concat", "DepthToSpace", "Resize", "Slice", "SpaceToDepth", "Split", *REARRANGING)
"""Operators that only move elements, so that input and result have the same scale."""


# The operator itself


def _dimensions(site: Site) -> str:
    """Describe other tensors than images, and than single volumes, which `volumes_as_images` divides."""
    shape = site.shape(site.node.inputs[0])
    if len(shape) == VOLUME_RANK and shape[0] > 1:
        return f"3 spatial dimensions and a batch of {shape[0]}"
    fits = len(shape) in (IMAGE_RANK, VOLUME_RANK)
    return "" if fits else counted(len(shape) - SPACE, "spatial dimension")


def _depth_padding(site: Site) -> str:
    kernel, pads = (site.window.extents(name) for name in ("kernel_shape", "pads"))
    begin, end = pads[0], pads[len(kernel)]
    deep = len(kernel) + SPACE == VOLUME_RANK and max(begin, end) >= kernel[0]
    return f"padding {begin, end} of kernels of depth {kernel[0]}" if deep else ""


def attribute(name: str, wanted: object) -> Rule[Site]:
    """Return the rule that an attribute has the value `wanted`."""
    return Rule(
        f"{name} = {wanted}",
        lambda site: (
            "" if site.window.attributes[name] == wanted else f"{name} = {site.window.attributes[name]}"
        ),
    )


def _dilations(site: Site) -> str:
    dilations = site.window.extents("dilations")
    return "" if set(dilations) <= {1} else f"dilations {dilations}"


def _padding(site: Site) -> str:
    window = site.window
    if window.integer("count_include_pad") or not any(window.extents("pads")):
        return ""
    return f"padding {window.extents('pads')} and count_include_pad = 0"


def _shapes(site: Site) -> str:
    shapes = [site.shape(name) for name in site.node.inputs]
    return "" if len(set(shapes)) == 1 else f"operands of the shapes {' and '.join(map(str, shapes))}"


def _factors_shapes(site: Site) -> str:
    shapes = [site.shape(name) for name in site.node.inputs]
    for image, factors in (shapes, shapes[::-1]):
        of_space = (1,) * (len(image) - SPACE)
        if len(image) in (IMAGE_RANK, VOLUME_RANK) and factors == (*image[:SPACE], *of_space):
            return ""
    return _shapes(site)


DIMENSIONS = Rule("2 spatial dimensions, or 3 and a batch of 1", _dimensions)
DEPTH_PADDING = Rule("less padding along depth than a kernel is deep", _depth_padding)
DILATIONS = Rule("dilations of 1", _dilations)
CEIL_MODE = attribute("ceil_mode", 0)
PADDING = Rule("padding only if it is counted (count_include_pad = 1)", _padding)
SHAPES = Rule("operands of one shape", _shapes)
FACTORED = Rule("operands of one shape, or a factor for each channel of an image", _factors_shapes)


# Weights and bias


def _weights(site: Site) -> str:
    name = site.weights_name
    if name in site.graph.constants:
        return f"constant weights {name} that are {site.graph.types[name].dtype}, {NOT_QUANTISED}"
    if site.conversions.dequantised_constants(name) is None:
        return f"weights {name} that are not constant"
    dtype = site.weights.values.dtype
    return "" if dtype == np.int8 else f"weights {name} of {dtype}"


def _matrix(site: Site) -> str:
    rank = len(site.shape(site.weights_name))
    return "" if rank == 2 else f"weights {site.weights_name} of {counted(rank, 'dimension')}"


def _matrices(site: Site) -> str:
    ranks = [len(site.shape(name)) for name in site.node.inputs]
    return "" if min(ranks) >= 2 else f"operands of {ranks[0]} and {ranks[1]} dimensions"


def _weights_axis(site: Site) -> str:
    rank = site.weights.values.ndim
    axis = site.conversions.makers[site.weights_name].integer("axis") % rank
    along = site.weights.scale.size > 1 and axis != site.outputs_axis
    return f"scales of weights {site.weights_name} along axis {axis}" if along else ""


def _weights_scale(site: Site) -> str:
    return "" if site.weights.scale.min() > 0 else f"weights {site.weights_name} of scale 0"


def _bias(site: Site) -> str:
    name = site.bias_name
    known = (
        not name or name in site.graph.constants or site.conversions.dequantised_constants(name) is not None
    )
    return "" if known else f"bias {name} that is not constant"


def _bias_shape(site: Site) -> str:
    if not site.bias_name:
        return ""
    shape = site.shape(site.bias_name)
    scales = 1 if site.bias_name in site.graph.constants else site.dequantised(site.bias_name)[1].size
    one_row = np.prod(shape) == (shape or (1,))[-1] and np.prod(shape) in (1, site.channels)
    if one_row and (scales == 1 or len(shape) == 1):
        return ""
    return f"bias {site.bias_name} of shape {shape}" + f" and {scales} scales" * (scales > 1)


NOT_QUANTISED = "not quantised"
WEIGHTS = (
    Rule("constant int8 weights", _weights),
    Rule("one scale of weights, or one for each output channel", _weights_axis),
    Rule("weights of scales greater than 0", _weights_scale),
)
MATRIX = Rule("weights of 2 dimensions", _matrix)
MATRICES = Rule("two tensors of 2 dimensions or more", _matrices)
BIAS = (
    Rule("a constant bias", _bias),
    Rule("a bias of one number, or one for each output channel", _bias_shape),
)


# Conversions around it


def _quantised(site: Site) -> str:
    for name in site.inputs:
        if name in site.graph.constants:
            return f"constant operand {name}"
        if not site.conversions.is_dequantised(name):
            return unquantised(site, name)
    return ""


def unquantised(site: Site, name: str) -> str:
    """Describe an input that no DequantizeLinear makes, with the operator that makes it."""
    maker, dtype = site.conversions.makers.get(name), site.graph.types[name].dtype
    where = "it enters the network as" if maker is None else f"{maker} computes it as"
    kind = "not quantised" if dtype.startswith("float") else f"of {dtype}, not dequantised"
    return f"input {name} {kind}: {where} {dtype}"


def _computed(site: Site) -> str:
    if site.node.op in WITH_CONSTANTS:
        return ""
    names = (site.conversions.makers[name].inputs[0] for name in site.inputs)
    return next((f"constant operand {name}" for name in names if name in site.graph.constants), "")


def _result(site: Site) -> str:
    if site.quantise is not None:
        return ""
    uses = (site.conversions.float_use(name) for name in site.node.outputs)
    return next((f"result {use}, not quantised" for use in uses if use), "")


def _conversions(site: Site) -> list[tuple[Node, str, str]]:
    """Return the conversions before and after an operator, each with its int8 tensor and the tensor's
    role."""
    before = [(site.conversions.makers[name], "input") for name in site.inputs]
    inputs = [(node, node.inputs[0], role) for node, role in before]
    return [*inputs, (site.quantiser, site.out, "result")]


def _bytes(site: Site) -> str:
    for _, name, role in _conversions(site):
        dtype = site.graph.types[name].dtype
        if dtype != "int8":
            return f"{role} {name} of {dtype}"
    return ""


def _scales(site: Site) -> str:
    for conversion, name, role in _conversions(site):
        if not all(parameter in site.graph.constants for parameter in conversion.inputs[1:3]):
            return f"{role} {name} of a scale or zero point that is not constant"
        parameters = [site.graph.constants[parameter] for parameter in conversion.inputs[1:3]]
        if any(array.size != 1 for array in parameters):
            return f"{role} {name} of {parameters[0].size} scales"
    return ""


QUANTISE = "it needs int8 neighbours: quantise them (QuantizeLinear and DequantizeLinear, or --calibrate)"
RESULT = Rule("int8 results, from QuantizeLinear", _result, QUANTISE)
QUANTISED = Rule("int8 inputs, from DequantizeLinear", _quantised, QUANTISE)
AROUND: tuple[Rule[Site], ...] = (
    QUANTISED,
    Rule(f"computed inputs ({', '.join(WITH_CONSTANTS)}: also constants)", _computed),
    RESULT,
    Rule("int8 tensors", _bytes),
    Rule("one constant scale and zero point for a tensor", _scales),
)


# Functions of elements


def _operands(site: Site) -> list[str]:
    """Return the distinct inputs of an elementwise operator that are not constant."""
    return [name for name in dict.fromkeys(site.node.inputs) if name and name not in site.graph.constants]


def _elements(site: Site) -> str:
    names = _operands(site)
    if len(names) != 1:
        return f"{counted(len(names), 'input')} that {'is' if len(names) == 1 else 'are'} not constant"
    dtype = site.graph.types[names[0]].dtype
    return "" if dtype.startswith("float") else f"input {names[0]} of {dtype}"


def _dequantised(site: Site) -> str:
    (name,) = _operands(site)
    return "" if site.conversions.is_dequantised(name) else unquantised(site, name)


FUNCTION = Rule("an elementwise function of one int8 tensor", _elements)
FUNCTION_RULES: tuple[Rule[Site], ...] = (
    FUNCTION,
    Rule("int8 inputs, from DequantizeLinear", _dequantised, QUANTISE),
    RESULT,
)
"""Rules for an elementwise operator that becomes a table."""


# Rows


def _zero_point(site: Site) -> str:
    (name, *_) = site.node.inputs
    zero = site.graph.constants.get(site.conversions.makers[name].inputs[2])
    return f"input {name} of zero point {zero}" if zero is not None and zero.any() else ""


ROW_RULES: Mapping[str, tuple[Rule[Site], ...]] = {
    **dict.fromkeys(OF_ROWS, FUNCTION_RULES[1:]),
    "RMSNormalization": (
        *FUNCTION_RULES[1:],
        Rule(
            "an input of zero point 0",
            _zero_point,
            "quantise its input symmetrically, as it subtracts no mean",
        ),
    ),
}
"""Rules for operators of rows, by operator. Their numbers have further conditions."""


# Numbers


def _sums(site: Site) -> str:
    reach = site.product.reach(site.operands[0].quantisation)
    return "" if fits_sum(reach) else f"sums of up to {reach:g}"


def _ratios(site: Site) -> str:
    if fits_multiplier(site.ratios):
        return ""
    return f"scales that make a ratio of {site.ratios.max():g}"


def _shifts(site: Site) -> str:
    assert site.affine is not None, f"{site.node} is no affine change"
    coarse = site.ratios[(site.affine.shifts != 0) & (site.ratios > LARGEST_STEP)]
    return f"added constants in steps of {coarse.max():g} times the result's scale" if coarse.size else ""


def _factors(site: Site) -> str:
    if fits_factor(site.ratios.tolist()):
        return ""
    return f"a scale of an operand {max(site.ratios):g} times the result's"


def _pair_sums(site: Site) -> str:
    depth = site.shape(site.node.inputs[0])[-1]
    return "" if fits_sum(depth * FARTHEST**2) else f"sums of {depth} products"


def _one_factor(site: Site) -> str:
    if site.affine is None:
        return ""
    factors, shifts = site.affine.factors, site.affine.shifts
    alike = bool((factors == factors[0]).all() and factors[0] > 0) and not shifts.any()
    return "" if alike else "channelwise operators after it"


SUMS = Rule(f"sums of {SUM_BITS} bits", _sums)
PAIR_SUMS = Rule(f"sums of {SUM_BITS} bits", _pair_sums)
RATIOS = Rule(f"ratios of scales between 0 and {LARGEST_MULTIPLE}", _ratios)
SHIFTS = Rule(f"added constants in steps of at most {LARGEST_STEP} times the result's scale", _shifts)
FACTORS = Rule(f"scales of operands less than {LARGEST_RATIO} times the result's", _factors)
ONE_FACTOR = Rule("at most one positive factor after it", _one_factor)
