"""Expansion of QONNX operators (Brevitas, FINN, hls4ml) into ONNX operators between conversions.

`Quant(x, scale, zeropt, bitwidth)` becomes `DequantizeLinear(QuantizeLinear(Clip(x)))` of int8, or a
dequantised int8 constant. Ranges that int8 cannot represent are computed by the operator's definition in
float.

Results equal the definition, except for values halfway between two integers if the zero point is odd: they
are rounded to even before the zero point is added, as in QuantizeLinear.

Source: QONNX, docs/qonnx-custom-ops: quant_op, bipolar_quant_op, trunc_op.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from vdla.compiler.graph.onnx import quantised
from vdla.compiler.graph.onnx.call import ForeignNode, ForeignOperator, RefusalError
from vdla.runtime.host.evaluate import OperatorError, evaluate

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


Value = TypeVar("Value")  # the name of a value, or an array
Add = Callable[..., Value]


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


def _quant(node: ForeignNode) -> None:
    """Quant and IntQuant."""
    bits = _bits(node, 3, "bitwidth")
    low, high = _range(node, bits)
    mode = _mode(node, "ROUND")
    grid = _grid(node, low, high)
    known = [value.astype(np.float32) for value in node.values[:3] if value is not None]
    if len(known) == 3:
        _add_constant(node, _whole(_computed, known, bits, (low, high), mode), grid)
        return
    if bits > MOST_BITS:
        raise RefusalError(
            f"bitwidth {bits} of values that are not constant is not supported; 1 to {MOST_BITS} are"
        )
    if grid is not None and mode in EVEN and bits > 1:
        _convert(node, node.input(0), (low, high), grid)
        return
    result = _unscaled(node, _whole(node.add, node.inputs[:3], bits, (low, high), mode))
    if grid is not None:
        _convert(node, result, (low, high), grid)


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
    mode = node.attribute("rounding_mode", str, default).upper()
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
    rank = len(node.input_type(0).shape)
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


def _add_constant(node: ForeignNode, integers: np.ndarray, grid: Int8Grid | None) -> None:
    """Add the result of a constant with known integers."""
    if grid is None:
        scale, point = node.known(1, "scale"), node.known(2, "zeropt")
        node.constant(((integers - point) * scale).astype(np.float32))
    else:
        stored = (integers + grid.offset).astype(np.int8)
        node.add("DequantizeLinear", stored, grid.scale, grid.zero, axis=grid.axis)


def _convert(node: ForeignNode, name: str, limits: tuple[int, int], grid: Int8Grid) -> None:
    """Add the quantisation of a value to int8 and its dequantisation, clipped to the integers `limits`."""
    low, high = (limit + grid.offset for limit in limits)
    if (low, high) != (LIMITS.min, LIMITS.max):
        name = quantised.clip(node, name, (low, high), grid.scale, grid.zero, grid.axis)
    scale, zero = node.constant(grid.scale), node.constant(grid.zero)
    integers = node.add("QuantizeLinear", name, scale, zero, axis=grid.axis)
    node.add("DequantizeLinear", integers, scale, zero, axis=grid.axis)


def _computed(op: str, *operands: float | np.ndarray) -> np.ndarray:
    """Return the result of an ONNX operator on constants; numbers are float32.

    Raises:
        RefusalError: the shapes of the constants do not match.
    """
    arrays = [part if isinstance(part, np.ndarray) else np.array(part, np.float32) for part in operands]
    if op == "Clip":
        return np.clip(*arrays)
    try:
        return evaluate(op, arrays, {})[0]
    except OperatorError as error:
        raise RefusalError(str(error)) from error


def _whole(
    add: Add[Value], operands: Sequence[Value], bits: int, limits: tuple[int, int], mode: str
) -> Value:
    """Return the integers of a Quant.

    Args:
        add: computes an ONNX operator, or adds it to an expansion.
        operands: x, the scale and the zero point.
        bits: the number of bits.
        limits: the least and the greatest integer.
        mode: the rounding mode.
    """
    x, scale, zero = operands
    wide = add("Add", add("Div", x, scale), zero)
    if bits == 1 and limits[0] < 0:
        return _signs(add, wide)
    return _rounded(add, add("Clip", wide, *limits), mode)


def _unscaled(node: ForeignNode, whole: str) -> str:
    return node.add("Mul", node.add("Sub", whole, node.input(2)), node.input(1))


def _signs(add: Add[Value], value: Value) -> Value:
    """Return 1 where a value is not negative, else -1."""
    return add("Where", add("Less", value, 0), -1, 1)


def _rounded(add: Add[Value], value: Value, mode: str) -> Value:
    """Return a value rounded by a rounding mode."""
    if mode in ROUNDING:
        return add(ROUNDING[mode], value)
    op, added = TO_MAGNITUDE[mode]
    magnitude = add(op, add("Add", add("Abs", value), added))
    return add("Mul", add("Sign", value), magnitude)


def _bipolar(node: ForeignNode) -> None:
    """BipolarQuant: the scale where a value is not negative, else the negative scale."""
    x, scale = node.values
    if scale is None or scale.size != 1 or not 0 < scale.item() < np.inf:
        node.add("Mul", _signs(node.add, node.input(0)), node.input(1))
        return
    grid = Int8Grid(scale.astype(np.float32).reshape(()), np.zeros((), np.int8), 0, 0)
    if x is not None:
        _add_constant(node, _signs(_computed, x), grid)
        return
    _convert(node, node.add("Mul", _signs(node.add, node.input(0)), node.input(1)), (-1, 1), grid)


def _trunc(node: ForeignNode) -> None:
    """Trunc of version 1: drops the lowest bits."""
    before, after = _bits(node, 3, "in_bitwidth"), _bits(node, 4, "out_bitwidth")
    wide = node.add("Add", node.add("Div", node.input(0), node.input(1)), node.input(2))
    shorter = node.add("Div", node.add("Round", wide), 2.0 ** (before - after))
    _unscaled(node, _rounded(node.add, shorter, _mode(node, "FLOOR")))


QUANT = {"narrow": "INT", "rounding_mode": "STRING", "signed": "INT"}
OPERATORS: Mapping[str, ForeignOperator] = {
    "BipolarQuant": ForeignOperator((2, 2), {}, _bipolar, "QuantizeLinear"),
    "IntQuant": ForeignOperator((4, 4), QUANT, _quant, "QuantizeLinear"),
    "Quant": ForeignOperator((4, 4), QUANT, _quant, "QuantizeLinear"),
    "Trunc": ForeignOperator((5, 5), {"rounding_mode": "STRING"}, _trunc, "Round"),
}
