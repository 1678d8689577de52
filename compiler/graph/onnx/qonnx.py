"""Expansion of QONNX operators (Brevitas, FINN, hls4ml) into ONNX operators between conversions.

`Quant(x, scale, zeropt, bitwidth)` becomes `DequantizeLinear(QuantizeLinear(Clip(x)))` of int8, or a
dequantised int8 constant. Ranges that int8 cannot represent are computed by the operator's definition in
float.

Results equal the definition, except for values halfway between two integers if the zero point is odd: they
are rounded to even before the zero point is added, as in QuantizeLinear.

Source: QONNX, docs/qonnx-custom-ops: quant_op, bipolar_quant_op, trunc_op.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from onnx import helper

from vdla.compiler.graph.onnx import nibbles
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.foreign import OPSET, ForeignNode, ForeignOperator, OnnxNode
from vdla.runtime.host.evaluate import evaluate

DOMAINS = (
    "qonnx.custom_op.general",
    "finn.custom_op.general",
    "onnx.brevitas",
)
LIMITS = np.iinfo(np.int8)
MOST_BITS = 24  # whose integers float32 represents exactly
EVEN = ("HALF_EVEN", "ROUND")
TO_MAGNITUDE: Mapping[str, tuple[str, float]] = {
    "DOWN": ("Floor", 0.0),
    "HALF_DOWN": ("Ceil", -0.5),
    "HALF_UP": ("Floor", 0.5),
    "UP": ("Ceil", 0.0),
}
"""Rounding modes that round magnitudes: the operator, and the number added before it."""
ROUNDING: Mapping[str, str] = {"CEIL": "Ceil", "FLOOR": "Floor", **dict.fromkeys(EVEN, "Round")}


class Int8Grid(NamedTuple):
    """The int8 quantisation that represents a Quant's results.

    Attributes:
        scale: float32, a scalar or a number for each index of `axis`.
        zero: int8, of the same shape.
        axis: the dimension that scales and zero points vary along.
        offset: the int8 value minus a Quant's integer.
    """

    scale: np.ndarray
    zero: np.ndarray
    axis: int
    offset: int


def _quant(node: ForeignNode) -> Iterator[OnnxNode]:
    """Quant and IntQuant."""
    bits = _bits(node, 3, "bitwidth")
    low, high = _range(node, bits)
    mode = _mode(node, "ROUND")
    grid = _grid(node, low, high)
    if node.values[0] is not None and node.values[1] is not None and node.values[2] is not None:
        yield from _constant(node, _integers(node, bits, low, high, mode), grid)
    elif grid is None:
        yield from _arithmetic(node, bits, low, high, mode, node.out)
    elif mode in EVEN and bits > 1:
        yield from _conversions(node, node.input(0), (low, high), grid)
    else:
        yield from _arithmetic(node, bits, low, high, mode, node.temporary("rounded"))
        yield from _conversions(node, node.temporary("rounded"), (low, high), grid)


def _bits(node: ForeignNode, place: int, role: str) -> int:
    bits = node.known(place, role)
    if bits.size != 1 or not 1 <= bits.item() <= 32 or bits.item() % 1:
        raise RefusalError(f"{role} {bits.tolist()} is not supported; it may be one whole number in 1..32")
    return int(bits.item())


def _range(node: ForeignNode, bits: int) -> tuple[int, int]:
    """Return the least and the greatest integer."""
    narrow = node.integer("narrow", 0)
    if not node.integer("signed", 1):
        return 0, (1 << bits) - 1 - narrow
    if bits == 1:
        return -1, 1
    return -(1 << bits - 1) + narrow, (1 << bits - 1) - 1


def _mode(node: ForeignNode, default: str) -> str:
    mode = str(node.attributes.get("rounding_mode", default)).upper()
    if mode not in ROUNDING and mode not in TO_MAGNITUDE:
        raise RefusalError(
            f"attribute rounding_mode = {mode!r} is not supported; it may be "
            f"{', '.join(sorted((*ROUNDING, *TO_MAGNITUDE)))}"
        )
    return mode


def _grid(node: ForeignNode, low: int, high: int) -> Int8Grid | None:
    """Return the int8 quantisation that represents the integers `low`..`high`, or None."""
    scale, point = node.values[1], node.values[2]
    if scale is None or point is None or high - low > LIMITS.max - LIMITS.min:
        return None
    rank = len(node.type(0).shape)
    offset = LIMITS.max - max(high, LIMITS.max)
    axes = {_axis(array, rank) for array in (scale, point) if array.size > 1}
    axis = next(iter(axes), 0)
    if len(axes) > 1 or axis is None or not (np.isfinite(scale).all() and (scale > 0).all()):
        return None
    count = max(scale.size, point.size)
    flat = np.broadcast_to(point.reshape(-1), count).astype(np.float64) + offset
    if (flat % 1).any() or flat.min() < LIMITS.min or flat.max() > LIMITS.max:
        return None
    shape = (count,) if axes else ()
    scales = np.broadcast_to(scale.reshape(-1), count).astype(np.float32).reshape(shape)
    return Int8Grid(scales, flat.astype(np.int8).reshape(shape), axis, offset)


def _axis(array: np.ndarray, rank: int) -> int | None:
    """Return the dimension of extent above 1 of an array broadcast to `rank`, or None unless it is unique."""
    wide = [place + rank - array.ndim for place, size in enumerate(array.shape) if size > 1]
    return wide[0] if len(wide) == 1 and wide[0] >= 0 else None


def _constant(node: ForeignNode, integers: np.ndarray, grid: Int8Grid | None) -> Iterator[OnnxNode]:
    """Yield the result of a constant with known integers."""
    if grid is None:
        scale, point = node.known(1, "scale"), node.known(2, "zeropt")
        yield node.constant(node.out, ((integers - point) * scale).astype(np.float32))
        return
    yield node.constant(node.temporary("integers"), (integers + grid.offset).astype(np.int8))
    yield from _dequantised(node, node.temporary("integers"), grid)


def _integers(node: ForeignNode, bits: int, low: int, high: int, mode: str) -> np.ndarray:
    """Return the integers of a constant as float32."""
    x, scale, point = (node.known(place, "x") for place in range(3))
    wide = (x / scale + point).astype(np.float32)
    if bits == 1 and low < 0:
        return np.where(wide >= 0, np.float32(1), np.float32(-1))
    clipped: np.ndarray = np.clip(wide, np.float32(low), np.float32(high))
    if mode not in TO_MAGNITUDE:
        whole: np.ndarray = evaluate(ROUNDING[mode], [clipped], {})[0]
        return whole
    op, added = TO_MAGNITUDE[mode]
    (magnitude,) = evaluate(op, [np.abs(clipped) + np.float32(added)], {})
    signed: np.ndarray = np.copysign(magnitude, clipped)
    return signed


def _conversions(node: ForeignNode, name: str, limits: tuple[int, int], grid: Int8Grid) -> Iterator[OnnxNode]:
    """Yield the quantisation of a value to int8 and its dequantisation, clipped to the integers `limits`."""
    names = [name, node.temporary("scale"), node.temporary("zero")]
    yield node.constant(names[1], grid.scale)
    yield node.constant(names[2], grid.zero)
    quantise = helper.make_node(
        "QuantizeLinear", names, [node.temporary("integers")], node.proto.name, axis=grid.axis
    )
    bounds = limits[0] + grid.offset, limits[1] + grid.offset
    if bounds == (LIMITS.min, LIMITS.max):
        yield OnnxNode(quantise, OPSET)
    else:
        rank = len(node.type(0).shape)
        for proto in nibbles.with_clipped_input(quantise, bounds, grid.scale, grid.zero, rank):
            yield OnnxNode(proto, OPSET)
    yield node.operator(
        "DequantizeLinear", [node.temporary("integers"), *names[1:]], node.out, axis=grid.axis
    )


def _dequantised(node: ForeignNode, integers: str, grid: Int8Grid) -> Iterator[OnnxNode]:
    names = [integers, node.temporary("scale"), node.temporary("zero")]
    yield node.constant(names[1], grid.scale)
    yield node.constant(names[2], grid.zero)
    yield node.operator("DequantizeLinear", names, node.out, axis=grid.axis)


def _arithmetic(node: ForeignNode, bits: int, low: int, high: int, mode: str, out: str) -> Iterator[OnnxNode]:
    """Yield the definition in float: scale, add the zero point, clip, round, and dequantise."""
    if bits > MOST_BITS:
        raise RefusalError(
            f"bitwidth {bits} of values that are not constant is not supported; 1 to {MOST_BITS} are"
        )
    name = node.temporary("shifted")
    yield from _scaled(node, name)
    if bits == 1 and low < 0:
        yield from _signs(node, name, "whole")
    else:
        yield node.number(node.temporary("low"), low)
        yield node.number(node.temporary("high"), high)
        yield node.operator(
            "Clip", [name, node.temporary("low"), node.temporary("high")], node.temporary("clipped")
        )
        yield from _rounded(node, node.temporary("clipped"), mode, node.temporary("whole"))
    yield node.operator("Sub", [node.temporary("whole"), node.input(2)], node.temporary("steps"))
    yield node.operator("Mul", [node.temporary("steps"), node.input(1)], out)


def _scaled(node: ForeignNode, out: str) -> Iterator[OnnxNode]:
    yield node.operator("Div", [node.input(0), node.input(1)], node.temporary("scaled"))
    yield node.operator("Add", [node.temporary("scaled"), node.input(2)], out)


def _signs(node: ForeignNode, name: str, out: str) -> Iterator[OnnxNode]:
    """Yield the nodes that compute 1 where a value is not negative, else -1."""
    for role, number in (("nought", 0), ("one", 1), ("less", -1)):
        yield node.number(node.temporary(role), number)
    yield node.operator("Less", [name, node.temporary("nought")], node.temporary("negative"))
    names = [node.temporary(role) for role in ("negative", "less", "one")]
    yield node.operator("Where", names, node.temporary(out))


def _rounded(node: ForeignNode, name: str, mode: str, out: str) -> Iterator[OnnxNode]:
    """Yield the nodes that round a value by a rounding mode."""
    if mode in ROUNDING:
        yield node.operator(ROUNDING[mode], [name], out)
        return
    op, added = TO_MAGNITUDE[mode]
    yield node.operator("Abs", [name], node.temporary("magnitude"))
    yield node.number(node.temporary("added"), added)
    yield node.operator(
        "Add", [node.temporary("magnitude"), node.temporary("added")], node.temporary("moved")
    )
    yield node.operator(op, [node.temporary("moved")], node.temporary("rounded_magnitude"))
    yield node.operator("Sign", [name], node.temporary("sign"))
    yield node.operator("Mul", [node.temporary("sign"), node.temporary("rounded_magnitude")], out)


def _bipolar(node: ForeignNode) -> Iterator[OnnxNode]:
    """BipolarQuant: the scale where a value is not negative, else the negative scale."""
    scale, x = node.values[1], node.values[0]
    if scale is None or scale.size != 1 or not scale.item() > 0 or not np.isfinite(scale.item()):
        yield from _signs(node, node.input(0), "whole")
        yield node.operator("Mul", [node.temporary("whole"), node.input(1)], node.out)
        return
    grid = Int8Grid(scale.astype(np.float32).reshape(()), np.zeros((), np.int8), 0, 0)
    if x is not None:
        signs = np.where(x >= 0, np.float32(1), np.float32(-1))
        yield node.constant(node.temporary("integers"), signs.astype(np.int8))
        yield from _dequantised(node, node.temporary("integers"), grid)
        return
    yield from _signs(node, node.input(0), "whole")
    yield node.operator("Mul", [node.temporary("whole"), node.input(1)], node.temporary("signed"))
    yield from _conversions(node, node.temporary("signed"), (-1, 1), grid)


def _trunc(node: ForeignNode) -> Iterator[OnnxNode]:
    """Trunc of version 1: drops the lowest bits."""
    before, after = _bits(node, 3, "in_bitwidth"), _bits(node, 4, "out_bitwidth")
    name = node.temporary("shifted")
    yield from _scaled(node, name)
    yield node.operator("Round", [name], node.temporary("integers"))
    yield node.number(node.temporary("step"), 2.0 ** (before - after))
    yield node.operator(
        "Div", [node.temporary("integers"), node.temporary("step")], node.temporary("shorter")
    )
    yield from _rounded(node, node.temporary("shorter"), _mode(node, "FLOOR"), node.temporary("whole"))
    yield node.operator("Sub", [node.temporary("whole"), node.input(2)], node.temporary("steps"))
    yield node.operator("Mul", [node.temporary("steps"), node.input(1)], node.out)


QUANT: Mapping[str, type] = {"narrow": int, "rounding_mode": str, "signed": int}
OPERATORS: Mapping[str, ForeignOperator] = {
    "BipolarQuant": ForeignOperator((2, 2), {}, _bipolar, "QuantizeLinear", (0, 1)),
    "IntQuant": ForeignOperator((4, 4), QUANT, _quant, "QuantizeLinear", (0, 1, 2, 3)),
    "Quant": ForeignOperator((4, 4), QUANT, _quant, "QuantizeLinear", (0, 1, 2, 3)),
    "Trunc": ForeignOperator((5, 5), {"rounding_mode": str}, _trunc, "Round", (0, 1, 2, 3, 4)),
}
