"""Brings all quantised networks into QDQ form: float operators between QuantizeLinear and DequantizeLinear.
Products of dynamically quantised tensors become float products, which are then quantised on samples.

| rule | rewrite |
|---|---|
| `expand_qlinear` | `QLinearConv(x, w)` -> Conv between conversions |
| `expand_integer_product` | `Cast(ConvInteger(x, w))` -> Conv after conversions with a scale of 1 |
| `convert_bytes` | `MaxPool(bytes)` -> MaxPool between conversions with a scale of 1 |
| `fold_quantised_constant` | `QuantizeLinear(constant)` -> integers |
| `move_weights` | `Reshape(DequantizeLinear(constant))` -> `DequantizeLinear(reshaped constant)` |
| `fold_dequantised_constant` | `DequantizeLinear(constant)` -> real numbers, except for weights |
| `fold_zero_scale` | `DequantizeLinear` with scale 0 -> zeros |
| `move_after_dequantise` | `Reshape(DequantizeLinear(x))` -> `DequantizeLinear(Reshape(x))` |
| `move_before_quantise` | `QuantizeLinear(Reshape(x))` -> `Reshape(QuantizeLinear(x))` |
| `restore_real_numbers` | `DequantizeLinear(DynamicQuantizeLinear(x))` -> `x` |
| `product_of_real_numbers` | `Mul(Cast(ConvInteger(y, w, z, p)), s * t)` -> `Conv(x, (w - p) t)` |

In the last rule, `y, s, z = DynamicQuantizeLinear(x)`. Older tools add a bias b to the integers, as
`Reshape(Cast(Floor(Div(b, s * t))))`; the rewritten product adds it in float. The accelerator needs fixed
ranges, so the original float network is restored, except for the rounding of its weights.

Sources: ONNX operator specification, QLinearConv, QLinearMatMul, ConvInteger, MatMulInteger, MaxPool,
DynamicQuantizeLinear.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from vdla.compiler.graph.conversions import has_one_scale
from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.integer_forms.prerequisites import DYNAMIC, MEANINGS, PRODUCTS, becomes_another
from vdla.compiler.graph.integer_forms.rules import MOVES
from vdla.compiler.graph.interpret import run_node
from vdla.compiler.graph.nodes import PICKING, REARRANGING, RESHAPING, Node, TensorType
from vdla.compiler.graph.quantise_weights import WEIGHTED
from vdla.compiler.graph.rules import Rewriter, RewriteRule, Rules
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.host.quantise import dequantize_linear

BYTES = ("int8", "uint8")
KEEPING_ORDER = ("Identity", *RESHAPING)
ROUNDING = ("Cast", "Floor", "Round")


def _real(at: Rewriter, name: str) -> str:
    """Declare the float32 value that an integer value represents; return its name."""
    return at.value(f"{name}_real", TensorType(at.types[name].shape, "float32"))


def _dequantised(at: Rewriter, name: str, parameters: tuple[str, str], axis: int) -> Node:
    """Return a DequantizeLinear with a scale and a zero point."""
    return Node("DequantizeLinear", (name, *parameters), (_real(at, name),), {"axis": axis})


def _unit_scale(at: Rewriter, zero: np.ndarray) -> tuple[str, str]:
    """Return a scale of 1 for each zero point, and the zero points, as constants."""
    return at.constant("one", np.ones(zero.shape, np.float32)), at.constant("zero", zero)


# Operators on integers


def _expand_qlinear(at: Rewriter, node: Node) -> None:
    """A QLinear operator becomes the float operator between conversions."""
    if not becomes_another(at, node):
        return
    (out,), (scale, *zero) = node.outputs, node.inputs[6:8]
    operands = [_qlinear_operand(at, node, place) for place in range(2)]
    if node.op == "QLinearConv" and len(node.inputs) > 8 and node.inputs[8]:
        operands.append(_qlinear_bias(at, node))
    real = _real(at, out)
    names = tuple(operand.result for operand in operands)
    product = Node(MEANINGS[node.op], names, (real,), node.attributes, node.name)
    parameters = (scale, _zero_point(at, zero, out))
    quantise = Node("QuantizeLinear", (real, *parameters), (out,), {"axis": 0}, node.name)
    at.replace(node, [*operands, product, quantise])


def _qlinear_operand(at: Rewriter, node: Node, place: int) -> Node:
    """Return the conversion of an operand; the scales of a matrix may differ along rows, or columns."""
    name, scale, *zero = node.inputs[3 * place : 3 * place + 3]
    rank = len(at.types[name].shape)
    axis = max(rank - 2 + place, 0) if node.op == "QLinearMatMul" else 0
    return _dequantised(at, name, (scale, _zero_point(at, zero, name)), axis)


def _qlinear_bias(at: Rewriter, node: Node) -> Node:
    """Return the conversion of the bias of a convolution, whose scale is the product of both scales."""
    scale = at.constants[node.inputs[1]] * at.constants[node.inputs[4]]
    zero = np.zeros(scale.shape, np.int32)
    bias = node.inputs[8]
    names = at.constant(f"{bias}_scale", scale), at.constant(f"{bias}_zero", zero)
    return _dequantised(at, bias, names, 0)


def _zero_point(at: Rewriter, given: list[str] | tuple[str, ...], of: str) -> str:
    """Return the zero point of a quantised tensor; a 0 of its type if the file has none."""
    name = given[0] if given else ""
    return name or at.constant(f"{of}_zero", np.zeros((), at.types[of].dtype))


def _expand_integer_product(at: Rewriter, node: Node) -> None:
    """A product of integers that is cast to float32 becomes a product of real numbers with a scale of 1."""
    (out,), (*operands,) = node.outputs, node.inputs[:2]
    casts, points = at.readers(out), (*node.inputs[2:], "", "")
    if not casts or out in at.graph.outputs or not at.are_constant(*node.inputs[2:]):
        return
    if any(cast.op != "Cast" or cast.attributes["to"] != "float32" for cast in casts):
        at.missed(node, f"its result {out} is read as {at.types[out].dtype}")
        return
    conversions = []
    for place, (name, point) in enumerate(zip(operands, points, strict=False)):
        zero = at.constants[point] if point else np.zeros((), at.types[name].dtype)
        rank = len(at.types[name].shape)
        axis = max(rank - 2 + place, 0) if node.op == "MatMulInteger" else 0
        conversions.append(_dequantised(at, name, _unit_scale(at, zero), axis))
    names = tuple(conversion.result for conversion in conversions)
    first, *further_casts = casts
    product = Node(PRODUCTS[node.op], names, first.outputs, node.attributes, node.name)
    for cast in further_casts:
        at.replace(cast, [Node("Identity", first.outputs, cast.outputs, {}, cast.name)])
    at.replace(first, [*conversions, product])


def _convert_bytes(at: Rewriter, node: Node) -> None:
    """A MaxPool of bytes, or a move of uint8, gets conversions with a scale of 1 before and after it."""
    kinds = {at.types[name].dtype for name in node.inputs}
    if len(kinds) != 1 or not kinds <= set(BYTES if node.op == "MaxPool" else ("uint8",)):
        return
    (kind,) = kinds
    zero = np.zeros((), kind)
    before = [_dequantised(at, name, _unit_scale(at, zero), 0) for name in node.inputs]
    reals = tuple(_real(at, name) for name in node.outputs)
    inputs = tuple(conversion.result for conversion in before)
    after = [
        Node("QuantizeLinear", (real, *_unit_scale(at, zero)), (out,), {"axis": 0}, node.name)
        for real, out in zip(reals, node.outputs, strict=True)
    ]
    at.replace(node, [*before, Node(node.op, inputs, reals, node.attributes, node.name), *after])


# Conversions of constants


def _is_known(at: DefUse, node: Node) -> bool:
    """Whether a conversion reads constants, and its scales are valid."""
    if not at.are_constant(*node.inputs):
        return False
    scale = at.constants[node.inputs[1]]
    return bool((np.isfinite(scale) & (scale > 0 if node.op == "QuantizeLinear" else scale >= 0)).all())


def _fold(at: Rewriter, node: Node) -> None:
    at.replace_by_constant(node, run_node(node, at.constants, at.types)[node.result])


def _fold_quantised_constant(at: Rewriter, node: Node) -> None:
    """QuantizeLinear of a constant, as quantisation-aware training leaves it before weights, becomes
    integers."""
    if _is_known(at, node):
        _fold(at, node)


def _fold_zero_scale(at: Rewriter, node: Node) -> None:
    """DequantizeLinear of an activation with scale 0 becomes zeros."""
    scale = at.constants.get(node.inputs[1])
    if scale is not None and not scale.any() and node.inputs[0] not in at.constants:
        real = at.types[node.result]
        at.replace_by_constant(node, np.zeros(real.shape, real.dtype))


def _move_weights(at: Rewriter, node: Node) -> None:
    """Operators that move the elements of dequantised weights move the integers."""
    conversion = at.maker(node.inputs[0], "DequantizeLinear")
    if conversion is None or not at.are_constant(*conversion.inputs):
        return
    integers = at.constants[conversion.inputs[0]]
    (values,) = evaluate(node.op, [integers], node.attributes)
    axis: int | None = 0
    if at.constants[conversion.inputs[1]].size > 1:
        axis = _moved_axis(node, conversion.integer("axis") % integers.ndim, integers, values)
    if axis is None:
        at.missed(node, f"the axis of the scales of {conversion} is not one axis of the result")
        return
    name = at.constant(f"{node.result}_integers", np.ascontiguousarray(values))
    inputs = (name, *conversion.inputs[1:])
    at.replace(node, [replace(conversion, inputs=inputs, outputs=node.outputs, attributes={"axis": axis})])


def _moved_axis(node: Node, axis: int, before: np.ndarray, after: np.ndarray) -> int | None:
    """Return the axis of the result that an axis becomes; None if its elements do not stay together."""
    if node.op == "Transpose":
        return node.extents("perm").index(axis)
    outer, size = prod(before.shape[:axis]), before.shape[axis]
    axes = (
        place
        for place, extent in enumerate(after.shape)
        if extent == size and prod(after.shape[:place]) == outer
    )
    return next(axes, None)


def _fold_dequantised_constant(at: Rewriter, node: Node) -> None:
    """DequantizeLinear of a constant becomes real numbers, unless only products of quantised tensors read
    it."""
    (real,) = node.outputs
    narrow = real not in at.graph.outputs and all(_is_weight(at, reader, real) for reader in at.readers(real))
    if not narrow and _is_known(at, node):
        _fold(at, node)


def _is_weight(at: DefUse, reader: Node, real: str) -> bool:
    """Whether a reader multiplies a quantised tensor with a value."""
    quantised = at.maker(reader.inputs[0], "DequantizeLinear") is not None
    return reader.op in WEIGHTED and real in reader.inputs[1:] and quantised


# Moves of elements between conversions


def _move_after_dequantise(at: Rewriter, node: Node) -> None:
    """Operators that move elements, or pick some, do so before DequantizeLinear."""
    conversion = at.maker(node.inputs[0], "DequantizeLinear")
    if conversion is None or not has_one_scale(at, conversion):
        return
    (integers, *parameters), (out,) = conversion.inputs, node.outputs
    moved = at.value(f"{out}_moved", TensorType(at.types[out].shape, at.types[integers].dtype))
    at.replace(
        node,
        [
            replace(node, inputs=(integers, *node.inputs[1:]), outputs=(moved,)),
            replace(conversion, inputs=(moved, *parameters), outputs=(out,)),
        ],
    )


def _move_before_quantise(at: Rewriter, node: Node) -> None:
    """Operators that move elements do so after the QuantizeLinear that alone reads their result."""
    (real, *parameters), (out,) = node.inputs, node.outputs
    move = at.maker(real, *REARRANGING)
    if move is None or not at.is_read_once(real) or not has_one_scale(at, node):
        return
    x = move.inputs[0]
    integers = at.value(f"{x}_quantised", TensorType(at.types[x].shape, at.types[out].dtype))
    at.replace(
        node,
        [
            replace(node, inputs=(x, *parameters), outputs=(integers,)),
            replace(move, inputs=(integers, *move.inputs[1:]), outputs=(out,)),
        ],
    )


# Dynamic ranges


def _dynamic(at: DefUse, name: str) -> Node | None:
    """Return the DynamicQuantizeLinear whose quantised output is the value `name`, or None."""
    maker = at.maker(name, DYNAMIC)
    return maker if maker is not None and maker.result == name else None


def _restore_real_numbers(at: Rewriter, node: Node) -> None:
    """The DequantizeLinear of a DynamicQuantizeLinear becomes an Identity of the real numbers."""
    dynamic = _dynamic(at, node.inputs[0])
    if dynamic is not None and node.inputs == dynamic.outputs:
        at.replace(node, [Node("Identity", dynamic.inputs, node.outputs, {}, node.name)])


def _product_of_real_numbers(at: Rewriter, node: Node) -> None:
    """The Mul that scales a product of dynamically quantised integers ends a product of real numbers."""
    for sums, scales in (node.inputs, node.inputs[::-1]):
        cast, scaling = at.maker(sums, "Cast"), at.maker(scales)
        end = None if cast is None else at.maker(cast.inputs[0])
        if cast is None or end is None or scaling is None:
            continue
        for product, bias in _summands(at, end):
            shift = _shift(at, bias, scaling) if bias else None
            if bias and shift is None:
                at.missed(node, f"the bias {bias} is not a constant divided by the scale of the integers")
            elif all(at.is_read_once(each.result) for each in (product, end, cast)):
                new = _of_real_numbers(at, product, scaling, node, shift)
                if new:
                    at.replace(node, new)
                    return


def _summands(at: DefUse, end: Node) -> Iterator[tuple[Node, str]]:
    """Yield the integer product that a node is, or adds a bias to, with the name of the bias or ""."""
    if end.op in PRODUCTS:
        yield end, ""
    for sums, bias in at.operands(end.result, "Add"):
        product = at.maker(sums, *PRODUCTS)
        if product is not None:
            yield product, bias


def _shift(at: DefUse, bias: str, scaling: Node) -> np.ndarray | None:
    """Return the bias as float32, in the shape of the integer bias; None unless the integer bias is a
    constant divided by the scale of the product."""
    shape, node = at.types[bias].shape, at.maker(bias)
    while node is not None and node.op in (*KEEPING_ORDER, *ROUNDING):
        node = at.maker(node.inputs[0])
    if node is None or node.op != "Div" or node.inputs[0] not in at.constants:
        return None
    divisor = at.maker(node.inputs[1])
    if divisor is None or (divisor.op, sorted(divisor.inputs)) != (scaling.op, sorted(scaling.inputs)):
        return None
    scales, divided = at.types[scaling.result], at.types[node.result].shape
    places = np.arange(scales.size).reshape(scales.shape)
    of_bias = np.broadcast_to(places, divided).reshape(shape)
    beside, along = np.broadcast_arrays(of_bias, places)
    if not np.array_equal(beside, along):
        return None
    return np.broadcast_to(at.constants[node.inputs[0]], divided).reshape(shape)


def _of_real_numbers(
    at: Rewriter, product: Node, scaling: Node, last: Node, shift: np.ndarray | None
) -> list[Node]:
    """Return the float product, and the addition of its bias; [] if scales or zero points differ from the
    operands'."""
    dynamic, (integers, weights, *points) = _dynamic(at, product.inputs[0]), product.inputs
    point, weights_point = (*points, "", "")[:2]
    factor = [name for name in scaling.inputs if name in at.constants]
    if dynamic is None or not at.are_constant(weights, weights_point) or len(factor) != 1:
        return []
    if (integers, point) != dynamic.outputs[::2]:
        return []
    if scaling.op != "Mul" or dynamic.outputs[1] not in scaling.inputs:
        return []
    real = _real_weights(at, product, weights, weights_point, at.constants[factor[0]])
    if real is None:
        return []
    op, (result,) = PRODUCTS[product.op], last.outputs
    inputs = (*dynamic.inputs, at.constant(f"{weights}_real", real))
    if shift is None:
        return [Node(op, inputs, (result,), product.attributes, product.name)]
    type_ = TensorType(at.types[product.result].shape, "float32")
    sums, bias = at.value(f"{result}_product", type_), at.constant(f"{result}_bias", shift)
    return [
        Node(op, inputs, (sums,), product.attributes, product.name),
        Node("Add", (sums, bias), (result,), {}, last.name),
    ]


def _real_weights(
    at: DefUse, product: Node, weights: str, point: str, scale: np.ndarray
) -> np.ndarray | None:
    """Return weights as float32; None unless scales go along the channels of the result."""
    integers = at.constants[weights]
    zero = at.constants[point] if point else np.zeros((), integers.dtype)
    axis, along = (0, 1) if product.op == "ConvInteger" else (integers.ndim - 1, -1)
    rank, channels = len(at.types[product.result].shape), integers.shape[axis]
    wide = (1,) * (rank - scale.ndim) + scale.shape
    if scale.size > 1 and (scale.size != channels or wide[along] != channels):
        return None
    if zero.size > 1 and zero.size != channels:
        return None
    values = dequantize_linear(integers, np.ones(zero.shape, np.float32), zero, axis=axis)
    shape = [channels if place == axis else 1 for place in range(integers.ndim)]
    real: np.ndarray = values * (scale.reshape(shape) if scale.size > 1 else scale.reshape(()))
    return real.astype(np.float32)


EXPAND_INTEGERS = Rules(
    "expand_integers",
    (
        RewriteRule(tuple(MEANINGS), _expand_qlinear),
        RewriteRule(tuple(PRODUCTS), _expand_integer_product),
        RewriteRule(("MaxPool", *MOVES), _convert_bytes),
    ),
)
QUANTISE_CONSTANTS = Rules(
    "quantise_constants",
    (
        RewriteRule(("QuantizeLinear",), _fold_quantised_constant),
        RewriteRule(("DequantizeLinear",), _fold_zero_scale),
        RewriteRule(REARRANGING, _move_weights),
    ),
)
DEQUANTISE_CONSTANTS = Rules(
    "dequantise_constants", (RewriteRule(("DequantizeLinear",), _fold_dequantised_constant),)
)
MOVE_INTEGERS = Rules(
    "move_integers",
    (
        RewriteRule((*REARRANGING, *PICKING), _move_after_dequantise),
        RewriteRule(("QuantizeLinear",), _move_before_quantise),
    ),
)
FIX_RANGES = Rules(
    "fix_ranges",
    (
        RewriteRule(("DequantizeLinear",), _restore_real_numbers),
        RewriteRule(("Mul",), _product_of_real_numbers),
    ),
)
