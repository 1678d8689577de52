"""Adds QuantizeLinear and DequantizeLinear where they change no values, so that more operators have integer
forms, and fuses operators with the conversions around them into operators on int8 tensors.

| rule | rewrite |
|---|---|
| `split_prelu` | `PRelu(x, slopes)` between conversions -> `Relu(x)` + the negative part of `slopes * x` |
| `convert_after_choice` | `Relu(DequantizeLinear(x))` -> the same with conversions after it |
| `convert_before_maximum` | `QuantizeLinear(MaxPool(x))` -> the same with conversions before the MaxPool |
| `quantise_operand` | `Add(DequantizeLinear(x), constant)` -> the same with int8 constants; also `Concat` |
| `softmax_of_integers` | `Softmax(DequantizeLinear(x))` -> `DequantizedSoftmax(x, powers)` |
| `quantised_softmax` | `QuantizeLinear(DequantizedSoftmax(x, powers))` -> `Int8Softmax(x, powers)` |
| `quantised_normalisation` | a normalisation between conversions -> `Int8LayerNormalization(x)` |
| `dense_to_convolution` | `Int8MatMul(moves(x), w)` of an image or of its lines -> `moves(Int8Conv(x, w))` |
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

import numpy as np

from vdla.compiler.graph.conversions import BOUNDS, has_one_constant_scale
from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.integer_forms.normalisation import (
    NORMALISATIONS,
    OF_ROWS,
    NormalParameters,
    normal_parameters,
    softmax_parameters,
)
from vdla.compiler.graph.integer_forms.prerequisites import SPACE, VOLUME_RANK
from vdla.compiler.graph.integers import GREATEST, Quantisation, plain_convolution
from vdla.compiler.graph.nodes import REARRANGING, Attribute, Node, TensorType
from vdla.compiler.graph.passes.merge_moves import CHANNELS_LAST, source_positions
from vdla.compiler.graph.rules import Rewriter, RewriteRule, Rules
from vdla.compiler.rules import Unfit
from vdla.runtime.host import elementwise
from vdla.runtime.host.dtypes import UNKNOWN
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.host.normalisation import softmax_powers
from vdla.runtime.layout import IMAGE_RANK

LEAST: float = float(np.finfo(np.float32).min)
SLOPES = "a constant slope for each channel, between conversions, which becomes a sum"
BELOW_ZERO: dict[str, Attribute] = {"max": 0.0, "min": LEAST}
CHOOSING = ("GlobalMaxPool", "MaxPool", *BOUNDS)
"""Operators whose result consists of elements of their input, or of a bound."""
OF_WINDOWS = ("Int8AveragePool", "Int8Conv", "Int8ConvTranspose", "Int8MaxPool", "MaxPool")
"""Operators that compute images from windows of images."""


# Added conversions


def _converted(
    at: Rewriter, real: str, conversion: Node, name: str, wish: str = "", out: str = ""
) -> tuple[Node, Node]:
    """Return QuantizeLinear and DequantizeLinear of a value, with the scale of a conversion.

    Args:
        name: name of the node that the conversions belong to.
        wish: prefix of the names of new values; by default the value's name.
        out: result of the second conversion; by default a new value.
    """
    parameters, shape = conversion.inputs[1:], at.types[real].shape
    integers = at.value(f"{wish or real}_integers", TensorType(shape, at.types[parameters[1]].dtype))
    again = out or at.value(f"{wish or real}_again", TensorType(shape, "float32"))
    return (
        Node("QuantizeLinear", (real, *parameters), (integers,), conversion.attributes, name),
        Node("DequantizeLinear", (integers, *parameters), (again,), conversion.attributes, name),
    )


def _split_prelu(at: Rewriter, node: Node) -> None:
    """A PRelu with a slope for each channel becomes the sum of `Relu(x)` and the negative part of `slopes *
    x`.

    The sum is exact, because an operand is 0 for every element. If a slope is negative, x is bounded by 0
    before the product. A PRelu with a single slope becomes a table instead.
    """
    (x, slopes), (out,) = node.inputs, node.outputs
    before, after = at.maker(x, "DequantizeLinear"), at.only_reader(out, "QuantizeLinear")
    values = at.constants.get(slopes)
    if values is None or values.size == 1 or before is None or after is None:
        return
    if not (has_one_constant_scale(at, before) and has_one_constant_scale(at, after)):
        at.missed(node, "a conversion around it has several scales, or scales that are not constant")
        return

    def value(role: str) -> str:
        return at.value(f"{out}_{role}", at.types[out])

    above, below, new = value("above"), value("below"), list[Node]()
    new.append(Node("Relu", (x,), (above,), {}, node.name))
    if (values < 0).any():
        bounded = value("bounded")
        new.append(Node("Clip", (x,), (bounded,), BELOW_ZERO, node.name))
        new += _converted(at, bounded, before, node.name)
        new.append(Node("Mul", (new[-1].result, slopes), (below,), {}, node.name))
    else:
        product = value("product")
        new.append(Node("Mul", (x, slopes), (product,), {}, node.name))
        new.append(Node("Clip", (product,), (below,), BELOW_ZERO, node.name))
    parts = [_converted(at, part, after, node.name) for part in (above, below)]
    total = Node("Add", tuple(last.result for _, last in parts), (out,), {}, node.name)
    at.replace(node, [*new, *parts[0], *parts[1], total])


def _convert_after_choice(at: Rewriter, node: Node) -> None:
    """Conversions after an operator that selects among dequantised numbers change no values, because the
    result has the same scale and zero point.

    An operator that combines several numbers then reads a dequantised tensor, so it may have an integer form.
    """
    (out,), before = node.outputs, at.maker(node.inputs[0], "DequantizeLinear")
    if before is None or not any(_combines(at, reader) for reader in at.readers(out)):
        return
    if not _stays_on_grid(at, node, before):
        at.missed(node, f"its results are not multiples of the scale of {before}")
        return
    exact = at.value(f"{out}_exact", TensorType(at.types[out].shape, "float32"))
    at.replace(node, [replace(node, outputs=(exact,)), *_converted(at, exact, before, node.name, out, out)])


def _combines(at: DefUse, node: Node) -> bool:
    """Whether a node combines several real numbers, other than constants of a single element."""
    known = {name for name in node.inputs if name in at.constants and at.types[name].size == 1}
    by_element = node.op in elementwise.OPERATORS and len(set(node.inputs) - known) == 1
    return not by_element and node.op not in (*BOUNDS, "QuantizeLinear")


def _stays_on_grid(at: DefUse, node: Node, before: Node) -> bool:
    """Whether both conversions leave every possible result of a node unchanged, if its input comes from the
    DequantizeLinear `before`."""
    if not has_one_constant_scale(at, before):
        return False
    scale, zero = (at.constants[name] for name in before.inputs[1:])
    if zero.dtype.itemsize > 1:
        return False
    limits = np.iinfo(zero.dtype)
    integers = np.arange(limits.min, limits.max + 1).astype(zero.dtype)
    (real,) = evaluate("DequantizeLinear", [integers, scale, zero], before.attributes)
    (chosen,) = evaluate(node.op, [real], node.attributes) if node.op in BOUNDS else (real,)
    return np.array_equal(_through(chosen, scale, zero, before.attributes), chosen)


def _through(
    real: np.ndarray, scale: np.ndarray, zero: np.ndarray, attributes: Mapping[str, object]
) -> np.ndarray:
    """Return real numbers after both conversions."""
    (integers,) = evaluate("QuantizeLinear", [real, scale, zero], attributes)
    return evaluate("DequantizeLinear", [integers, scale, zero], attributes)[0]


def _convert_before_maximum(at: Rewriter, node: Node) -> None:
    """A MaxPool whose result is quantised takes the maxima of quantised numbers: quantisation is
    monotonic."""
    (x, *_), quantise = node.inputs, at.only_reader(node.result, "QuantizeLinear")
    if quantise is None or at.maker(x, "DequantizeLinear") is not None:
        return
    if not has_one_constant_scale(at, quantise):
        return
    first, second = _converted(at, x, quantise, quantise.name, node.result)
    at.replace(node, [first, second, replace(node, inputs=second.outputs)])


def _quantise_operand(at: Rewriter, node: Node) -> None:
    """The constant operands of a sum or a Concat become int8 if its other operands and its result are. The
    scale of an addend is that of its greatest element; parts of a Concat have the scale of the result."""
    given = [name for name in node.inputs if name in at.constants]
    others = [name for name in node.inputs if name not in at.constants]
    quantise = at.only_reader(node.result, "QuantizeLinear")
    if not given or quantise is None or not _is_narrow(at, quantise):
        return
    if not others or any(at.maker(name, "DequantizeLinear") is None for name in others):
        return
    parameters = quantise.inputs[1:3]
    if node.op == "Add":
        if any(at.types[name].shape != at.types[node.result].shape for name in node.inputs):
            return  # an addend for each channel belongs to a requantisation
        greatest = np.abs(at.constants[given[0]]).max()
        if not greatest > 0:
            return
        scale, zero = np.float32(greatest / GREATEST), np.zeros((), np.int8)
        parameters = _constants(at, node.result, {"scale": np.asarray(scale), "zero": zero})
    conversions = {name: _dequantised_constant(at, name, parameters) for name in given}
    inputs = (conversions[name].result if name in conversions else name for name in node.inputs)
    at.replace(node, [*conversions.values(), replace(node, inputs=tuple(inputs))])


def _dequantised_constant(at: Rewriter, name: str, parameters: Sequence[str]) -> Node:
    """Return the DequantizeLinear of the integers of a real constant."""
    attributes: dict[str, Attribute] = {"axis": 0}
    given = [at.constants[each] for each in (name, *parameters)]
    (integers,) = evaluate("QuantizeLinear", given, attributes)
    held = at.constant(f"{name}_integers", integers)
    real = at.value(f"{name}_again", at.types[name])
    return Node("DequantizeLinear", (held, *parameters), (real,), attributes)


# Fusion


def _is_narrow(at: DefUse, conversion: Node) -> bool:
    """Whether a conversion is between real numbers and int8, by a single constant scale and zero point. The
    scale is positive and finite."""
    _, scale, zero_point, *_ = conversion.inputs
    narrow = at.types[zero_point].dtype == "int8"  # the zero point has the integers' type
    return narrow and has_one_constant_scale(at, conversion) and 0 < at.constants[scale].item() < inf


def _softmax_of_integers(at: Rewriter, node: Node) -> None:
    """A softmax that alone reads a dequantised tensor, or its multiple, reads the int8 tensor and a table of
    powers."""
    real, multiple = _unscaled(at, node.inputs[0])
    conversion = at.maker(real, "DequantizeLinear")
    if conversion is None or not at.is_read_once(real) or not _is_narrow(at, conversion):
        return
    x, scale = conversion.inputs[:2]
    powers = at.constant(f"{node.result}_powers", softmax_powers(at.constants[scale] * np.float32(multiple)))
    at.replace(node, [replace(node, op="DequantizedSoftmax", inputs=(x, powers))])


def _unscaled(at: Rewriter, name: str) -> tuple[str, float]:
    """Return the value of which a value that is read once is a positive multiple, and the factor; the value
    itself and 1 if it is no such multiple."""
    for op in ("Mul", "Div"):
        for real, constant in at.operands(name, op):
            number = at.number(constant)
            if number is not None and number > 0 and at.is_read_once(name):
                return real, number if op == "Mul" else 1 / number
    return name, 1.0


def _quantised_softmax(at: Rewriter, node: Node) -> None:
    """A softmax whose result is only read by QuantizeLinear makes int8 numbers."""
    softmax = at.maker(node.inputs[0], "DequantizedSoftmax")
    if softmax is None or not at.is_read_once(node.inputs[0]) or not _is_narrow(at, node):
        return
    x, powers = softmax.inputs
    count = at.types[x].shape[softmax.integer("axis")]
    if not at.are_constant(powers) or count == UNKNOWN:
        return
    parameters = softmax_parameters(at.constants[powers], count, _quantisation(at, node))
    if isinstance(parameters, Unfit):
        at.missed(node, parameters.reason)
        return
    inputs = (x, *_constants(at, node.result, parameters._asdict()))
    at.replace(node, [replace(softmax, op="Int8Softmax", inputs=inputs, outputs=node.outputs, reason="")])


def _quantised_normalisation(at: Rewriter, node: Node) -> None:
    """A normalisation of the last axis between conversions reads and makes int8 numbers."""
    normal = at.maker(node.inputs[0], *NORMALISATIONS)
    if normal is None or not at.is_read_once(node.inputs[0]) or not _is_narrow(at, node):
        return
    conversion = at.maker(normal.inputs[0], "DequantizeLinear")
    if conversion is None or not _is_narrow(at, conversion):
        return
    parameters = _parameters_of(at, normal, _quantisation(at, conversion), _quantisation(at, node))
    if isinstance(parameters, Unfit):
        at.missed(node, parameters.reason)
        return
    factors, addends, epsilon = parameters
    vectors = _constants(at, node.result, {"factors": factors, "addends": addends})
    attributes: dict[str, Attribute] = {"centred": int(NORMALISATIONS[normal.op]), "epsilon": epsilon}
    operator = replace(normal, op=OF_ROWS[normal.op], attributes=attributes, reason="")
    inputs = conversion.inputs[0], *vectors
    at.replace(node, [replace(operator, inputs=inputs, outputs=node.outputs)])


def _parameters_of(
    at: Rewriter, normal: Node, before: Quantisation, after: Quantisation
) -> NormalParameters | Unfit:
    """Return the parameters of a normalisation between the int8 numbers `before` and `after`."""
    (*_, count), rank = at.types[normal.inputs[0]].shape, len(at.types[normal.inputs[0]].shape)
    if normal.integer("axis") % rank != rank - 1:
        return Unfit(f"{normal} normalises axis {normal.integer('axis')} of {rank}, not the last")
    if count == UNKNOWN or not at.are_constant(*filter(None, normal.inputs[1:])):
        return Unfit(f"{normal} has weights that are not constant")
    centred, epsilon = NORMALISATIONS[normal.op], normal.attributes["epsilon"]
    if before.zero and not centred:
        return Unfit(f"{normal} subtracts no mean, and its input has the zero point {before.zero}")
    weights, bias = (
        np.broadcast_to(vector, count).astype(np.float64) for vector in _weights_and_bias(at, normal)
    )
    assert isinstance(epsilon, float), f"epsilon of {normal} is {epsilon!r}"
    return normal_parameters(weights, bias, epsilon, before.scale, after, centred=centred)


def _weights_and_bias(at: Rewriter, normal: Node) -> tuple[np.ndarray, np.ndarray]:
    """Return the constants of a normalisation; without a bias, it is 0."""
    _, weights, *bias = normal.inputs
    return at.constants[weights], at.constants[bias[0]] if any(bias) else np.zeros(1, np.float32)


def _quantisation(at: Rewriter, conversion: Node) -> Quantisation:
    """Return the integers of a conversion with a single constant scale and zero point."""
    scale, zero = (at.constants[name].item() for name in conversion.inputs[1:3])
    return Quantisation(scale, zero)


def _constants(at: Rewriter, wish: str, arrays: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """Add constants by their roles; return their names."""
    return tuple(at.constant(f"{wish}_{role}", array) for role, array in arrays.items())


class _Lines(NamedTuple):
    """An image of which each line is a row of a matrix.

    Attributes:
        image: name of the image.
        axis: dimension of the image that counts the rows of the matrix; None: the image is a single row.
        shape: channels and spatial extents of a line.
        columns: int64[elements of a line]: the column of the matrix that holds each element of a line.
    """

    image: str
    axis: int | None
    shape: tuple[int, ...]
    columns: np.ndarray


def _lines_of(at: DefUse, matrix: str) -> _Lines | None:
    """Return the image from which moves make a matrix so that each of its rows is a line of the image.

    A convolution or a pooling computes the image, or the last move flattens it.
    """
    flattened, moves, name = None, list[Node](), matrix
    while (move := at.maker(name, *REARRANGING)) is not None:
        moves.insert(0, move)
        name = move.inputs[0]
        numbers = source_positions(moves, at.types.__getitem__)
        lines = None if numbers is None else _lines_in(at, name, numbers.reshape(-1, numbers.shape[-1]))
        if lines is not None and _is_image(at, name):
            return lines
        if lines is not None and lines.axis is None and len(moves) == 1:
            flattened = lines
    return flattened


def _is_image(at: DefUse, name: str) -> bool:
    """Whether a convolution or a pooling computes a value, up to operators that keep its shape."""
    while (maker := at.maker(name)) is not None and maker.op not in OF_WINDOWS:
        if maker.op in REARRANGING or at.types[maker.inputs[0]].shape != at.types[name].shape:
            return False
        name = maker.inputs[0]
    return maker is not None


def _lines_in(at: DefUse, name: str, rows: np.ndarray) -> _Lines | None:
    """Return the lines of an image that are the rows of a matrix; None if there are none.

    Args:
        rows: int64[rows, columns], the position in the image of each element of the matrix.
    """
    shape = at.types[name].shape
    if len(shape) not in (IMAGE_RANK, VOLUME_RANK) or shape[0] != 1:
        return None
    positions = np.arange(rows.size).reshape(shape)
    of_rows = range(SPACE, IMAGE_RANK) if len(shape) == IMAGE_RANK and shape[1] > 1 else ()
    columns = np.argsort(rows[0])
    for axis in (None,) if len(rows) == 1 else of_rows:
        lines = positions[None] if axis is None else np.moveaxis(positions, axis, 0)
        if np.array_equal(rows[:, columns], lines.reshape(len(lines), -1)):
            of_line = shape[1:] if axis is None else (*shape[1:axis], 1, *shape[axis + 1 :])
            return _Lines(name, axis, of_line, columns)
    return None


def _dense_to_convolution(at: Rewriter, node: Node) -> None:
    """A dense layer on a flattened image, or on each line of an image, becomes a convolution whose kernel
    covers the image or the line, so that the image keeps the layout in which convolutions write it. Products
    of activations write rows, which are no image."""
    (matrix, *constants), (out,) = node.inputs, node.outputs
    lines = _lines_of(at, matrix) if at.are_constant(*constants) else None
    if lines is None or set(lines.shape[1:]) == {1}:  # a pixel lies in DRAM as a row does
        return
    if at.maker(lines.image, "Int8Products") is not None:
        return
    weights = at.constants[node.inputs[1]]
    kernels = np.ascontiguousarray(weights[lines.columns].T).reshape(-1, *lines.shape)
    inputs = (lines.image, at.constant(f"{out}_kernels", kernels), node.inputs[2])
    extents = [1] * len(lines.shape[1:])
    if lines.axis is not None:
        extents[lines.axis - SPACE] = at.types[lines.image].shape[lines.axis]
    sums = at.value(f"{out}_image", TensorType((1, weights.shape[1], *extents), "int8"))
    new = [Node("Int8Conv", inputs, (sums,), plain_convolution(len(extents)), node.name)]
    if lines.axis is not None:
        pixels = at.value(f"{out}_pixels", TensorType((1, *extents, weights.shape[1]), "int8"))
        new.append(Node("Transpose", (sums,), (pixels,), {"perm": CHANNELS_LAST}))
    new.append(Node("Reshape", new[-1].outputs, (out,), {"shape": at.types[out].shape}))
    at.replace(node, new)


CONVERT_BEFORE_MAXIMA = Rules("convert_before_maxima", (RewriteRule(("MaxPool",), _convert_before_maximum),))
SPLIT_PRELU = Rules("split_prelu", (RewriteRule(("PRelu",), _split_prelu),))
QUANTISE_OPERANDS = Rules("quantise_operands", (RewriteRule(("Add", "Concat"), _quantise_operand),))
CONVERT_AFTER_CHOICES = Rules("convert_after_choices", (RewriteRule(CHOOSING, _convert_after_choice),))
DENSE_TO_CONVOLUTION = Rules("dense_to_convolution", (RewriteRule(("Int8MatMul",), _dense_to_convolution),))
FUSE_CONVERSIONS = Rules(
    "fuse_conversions",
    (
        RewriteRule(("Softmax",), _softmax_of_integers),
        RewriteRule(("QuantizeLinear",), _quantised_softmax),
        RewriteRule(("QuantizeLinear",), _quantised_normalisation),
    ),
)
