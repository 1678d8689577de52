"""Turns products of dynamically quantised tensors back into float products.

| rule | rewrite |
|---|---|
| `restore_real_numbers` | `DequantizeLinear(DynamicQuantizeLinear(x))` -> `x` |
| `product_of_real_numbers` | `Mul(Cast(ConvInteger(y, w, z, p)), s * t)` -> `Conv(x, (w - p) t)` |

Here `y, s, z = DynamicQuantizeLinear(x)`. Older tools add a bias b to the integers, as
`Reshape(Cast(Floor(Div(b, s * t))))`; the rewritten product adds it in float. The accelerator needs fixed
ranges. So the original float network is restored, except for the rounding of its weights, and is then
quantised on samples.

Source: ONNX operator specification, DynamicQuantizeLinear, ConvInteger, MatMulInteger.
"""

from collections.abc import Iterator

import numpy as np

from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.integer_forms.prerequisites import DYNAMIC, PRODUCTS
from vdla.compiler.graph.moves import RESHAPING
from vdla.compiler.graph.nodes import Node, TensorType
from vdla.compiler.graph.rules import Rewriter, RewriteRule, Rules
from vdla.runtime.host.quantise import dequantize_linear

KEEPING_ORDER = ("Identity", *RESHAPING)
ROUNDING = ("Cast", "Floor", "Round")


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


FIX_RANGES = Rules(
    "fix_ranges",
    (
        RewriteRule(("DequantizeLinear",), _restore_real_numbers),
        RewriteRule(("Mul",), _product_of_real_numbers),
    ),
)
