"""Operators of QONNX (Brevitas, FINN, hls4ml), as operators of ONNX between conversions.

`Quant(x, scale, zeropt, bitwidth)` becomes `DequantizeLinear(QuantizeLinear(Clip(x)))` of int8, or a constant
of int8 behind a DequantizeLinear. What int8 does not hold becomes the arithmetic of its definition.

Results are those of the definition, but for one case: where activations have an odd zero point and a value is
halfway between two integers, it is rounded to even before the zero point is added, as QuantizeLinear does.

Source: QONNX, docs/qonnx-custom-ops: quant_op, bipolar_quant_op, trunc_op.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from onnx import helper

from vdla.compiler.graph.onnx import nibbles
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.written import OPSET, Contributed, Part, Written
from vdla.runtime.host.evaluate import evaluate

DOMAINS = (
    "qonnx.custom_op.general",
    "finn.custom_op.general",
    "onnx.brevitas",
)
LIMITS = np.iinfo(np.int8)
MOST_BITS = 24  # whose integers float32 holds
EVEN = ("HALF_EVEN", "ROUND")
TO_MAGNITUDE: Mapping[str, tuple[str, float]] = {
    "DOWN": ("Floor", 0.0),
    "HALF_DOWN": ("Ceil", -0.5),
    "HALF_UP": ("Floor", 0.5),
    "UP": ("Ceil", 0.0),
}
"""Rounding modes that look at magnitudes: the operator, and what is added before it."""
ROUNDING: Mapping[str, str] = {"CEIL": "Ceil", "FLOOR": "Floor", **dict.fromkeys(EVEN, "Round")}


class Grid(NamedTuple):
    """The int8 numbers that stand for a Quant's results.

    Attributes:
        scale, zero: float32 and int8: one, or one for each along `axis`.
        offset: what is added to a Quant's integer.
    """

    scale: np.ndarray
    zero: np.ndarray
    axis: int
    offset: int


def _quant(written: Written) -> Iterator[Part]:
    """Quant and IntQuant."""
    bits = _bits(written, 3, "bitwidth")
    low, high = _range(written, bits)
    mode = _mode(written, "ROUND")
    grid = _grid(written, low, high)
    if written.values[0] is not None and written.values[1] is not None and written.values[2] is not None:
        yield from _constant(written, _integers(written, bits, low, high, mode), grid)
    elif grid is None:
        yield from _arithmetic(written, bits, low, high, mode, written.out)
    elif mode in EVEN and bits > 1:
        yield from _conversions(written, written.input(0), (low, high), grid)
    else:
        yield from _arithmetic(written, bits, low, high, mode, written.made("rounded"))
        yield from _conversions(written, written.made("rounded"), (low, high), grid)


def _bits(written: Written, place: int, role: str) -> int:
    bits = written.known(place, role)
    if bits.size != 1 or not 1 <= bits.item() <= 32 or bits.item() % 1:
        raise RefusalError(f"{role} {bits.tolist()} is not supported; it may be one whole number in 1..32")
    return int(bits.item())


def _range(written: Written, bits: int) -> tuple[int, int]:
    """Return the least and the greatest integer."""
    narrow = written.integer("narrow", 0)
    if not written.integer("signed", 1):
        return 0, (1 << bits) - 1 - narrow
    if bits == 1:
        return -1, 1
    return -(1 << bits - 1) + narrow, (1 << bits - 1) - 1


def _mode(written: Written, default: str) -> str:
    mode = str(written.attributes.get("rounding_mode", default)).upper()
    if mode not in ROUNDING and mode not in TO_MAGNITUDE:
        raise RefusalError(
            f"attribute rounding_mode = {mode!r} is not supported; it may be "
            f"{', '.join(sorted((*ROUNDING, *TO_MAGNITUDE)))}"
        )
    return mode


def _grid(written: Written, low: int, high: int) -> Grid | None:
    """Return the int8 numbers that hold the integers from `low` to `high`; None where there are none."""
    scale, point = written.values[1], written.values[2]
    if scale is None or point is None or high - low > LIMITS.max - LIMITS.min:
        return None
    rank = len(written.type(0).shape)
    offset = LIMITS.max - max(high, LIMITS.max)
    found = {_axis(array, rank) for array in (scale, point) if array.size > 1}
    axis = next(iter(found), 0)
    if len(found) > 1 or axis is None or not (np.isfinite(scale).all() and (scale > 0).all()):
        return None
    count = max(scale.size, point.size)
    flat = np.broadcast_to(point.reshape(-1), count).astype(np.float64) + offset
    if (flat % 1).any() or flat.min() < LIMITS.min or flat.max() > LIMITS.max:
        return None
    shape = (count,) if found else ()
    scales = np.broadcast_to(scale.reshape(-1), count).astype(np.float32).reshape(shape)
    return Grid(scales, flat.astype(np.int8).reshape(shape), axis, offset)


def _axis(array: np.ndarray, rank: int) -> int | None:
    """Return the only dimension along which an array differs, as it is broadcast to a rank."""
    wide = [place + rank - array.ndim for place, size in enumerate(array.shape) if size > 1]
    return wide[0] if len(wide) == 1 and wide[0] >= 0 else None


def _constant(written: Written, integers: np.ndarray, grid: Grid | None) -> Iterator[Part]:
    """Yield the result for a constant whose integers are known."""
    if grid is None:
        scale, point = written.known(1, "scale"), written.known(2, "zeropt")
        yield written.constant(written.out, ((integers - point) * scale).astype(np.float32))
        return
    yield written.constant(written.made("integers"), (integers + grid.offset).astype(np.int8))
    yield from _dequantised(written, written.made("integers"), grid)


def _integers(written: Written, bits: int, low: int, high: int, mode: str) -> np.ndarray:
    """Return float32: the integers of a constant."""
    x, scale, point = (written.known(place, "x") for place in range(3))
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


def _conversions(written: Written, name: str, limits: tuple[int, int], grid: Grid) -> Iterator[Part]:
    """Yield the conversion of a value to int8 and back, between what its least and greatest integer stand
    for."""
    names = [name, written.made("scale"), written.made("zero")]
    yield written.constant(names[1], grid.scale)
    yield written.constant(names[2], grid.zero)
    quantise = helper.make_node(
        "QuantizeLinear", names, [written.made("integers")], written.node.name, axis=grid.axis
    )
    bounds = limits[0] + grid.offset, limits[1] + grid.offset
    if bounds == (LIMITS.min, LIMITS.max):
        yield Part(quantise, OPSET)
    else:
        rank = len(written.type(0).shape)
        for node in nibbles.bounded(quantise, bounds, grid.scale, grid.zero, rank):
            yield Part(node, OPSET)
    yield written.part(
        "DequantizeLinear", [written.made("integers"), *names[1:]], written.out, axis=grid.axis
    )


def _dequantised(written: Written, integers: str, grid: Grid) -> Iterator[Part]:
    names = [integers, written.made("scale"), written.made("zero")]
    yield written.constant(names[1], grid.scale)
    yield written.constant(names[2], grid.zero)
    yield written.part("DequantizeLinear", names, written.out, axis=grid.axis)


def _arithmetic(written: Written, bits: int, low: int, high: int, mode: str, out: str) -> Iterator[Part]:
    """Yield the definition: scale, add the zero point, clip, round, and back."""
    if bits > MOST_BITS:
        raise RefusalError(
            f"bitwidth {bits} of values that are not constant is not supported; 1 to {MOST_BITS} are"
        )
    name = written.made("shifted")
    yield from _scaled(written, name)
    if bits == 1 and low < 0:
        yield from _signs(written, name, "whole")
    else:
        yield written.number(written.made("low"), low)
        yield written.number(written.made("high"), high)
        yield written.part("Clip", [name, written.made("low"), written.made("high")], written.made("clipped"))
        yield from _rounded(written, written.made("clipped"), mode, written.made("whole"))
    yield written.part("Sub", [written.made("whole"), written.input(2)], written.made("steps"))
    yield written.part("Mul", [written.made("steps"), written.input(1)], out)


def _scaled(written: Written, out: str) -> Iterator[Part]:
    yield written.part("Div", [written.input(0), written.input(1)], written.made("scaled"))
    yield written.part("Add", [written.made("scaled"), written.input(2)], out)


def _signs(written: Written, name: str, out: str) -> Iterator[Part]:
    """Yield 1 where a value is 0 or more, else -1."""
    for role, number in (("nought", 0), ("one", 1), ("less", -1)):
        yield written.number(written.made(role), number)
    yield written.part("Less", [name, written.made("nought")], written.made("negative"))
    names = [written.made(role) for role in ("negative", "less", "one")]
    yield written.part("Where", names, written.made(out))


def _rounded(written: Written, name: str, mode: str, out: str) -> Iterator[Part]:
    """Yield a value rounded by a rounding mode."""
    if mode in ROUNDING:
        yield written.part(ROUNDING[mode], [name], out)
        return
    op, added = TO_MAGNITUDE[mode]
    yield written.part("Abs", [name], written.made("magnitude"))
    yield written.number(written.made("added"), added)
    yield written.part("Add", [written.made("magnitude"), written.made("added")], written.made("moved"))
    yield written.part(op, [written.made("moved")], written.made("rounded_magnitude"))
    yield written.part("Sign", [name], written.made("sign"))
    yield written.part("Mul", [written.made("sign"), written.made("rounded_magnitude")], out)


def _bipolar(written: Written) -> Iterator[Part]:
    """BipolarQuant: the scale where a value is 0 or more, else its negative."""
    scale, x = written.values[1], written.values[0]
    if scale is None or scale.size != 1 or not scale.item() > 0 or not np.isfinite(scale.item()):
        yield from _signs(written, written.input(0), "whole")
        yield written.part("Mul", [written.made("whole"), written.input(1)], written.out)
        return
    grid = Grid(scale.astype(np.float32).reshape(()), np.zeros((), np.int8), 0, 0)
    if x is not None:
        signs = np.where(x >= 0, np.float32(1), np.float32(-1))
        yield written.constant(written.made("integers"), signs.astype(np.int8))
        yield from _dequantised(written, written.made("integers"), grid)
        return
    yield from _signs(written, written.input(0), "whole")
    yield written.part("Mul", [written.made("whole"), written.input(1)], written.made("signed"))
    yield from _conversions(written, written.made("signed"), (-1, 1), grid)


def _trunc(written: Written) -> Iterator[Part]:
    """Trunc of version 1: the lowest bits go."""
    before, after = _bits(written, 3, "in_bitwidth"), _bits(written, 4, "out_bitwidth")
    name = written.made("shifted")
    yield from _scaled(written, name)
    yield written.part("Round", [name], written.made("integers"))
    yield written.number(written.made("step"), 2.0 ** (before - after))
    yield written.part("Div", [written.made("integers"), written.made("step")], written.made("shorter"))
    yield from _rounded(written, written.made("shorter"), _mode(written, "FLOOR"), written.made("whole"))
    yield written.part("Sub", [written.made("whole"), written.input(2)], written.made("steps"))
    yield written.part("Mul", [written.made("steps"), written.input(1)], written.out)


QUANT: Mapping[str, type] = {"narrow": int, "rounding_mode": str, "signed": int}
OPERATORS: Mapping[str, Contributed] = {
    "BipolarQuant": Contributed((2, 2), {}, _bipolar, "QuantizeLinear", (0, 1)),
    "IntQuant": Contributed((4, 4), QUANT, _quant, "QuantizeLinear", (0, 1, 2, 3)),
    "Quant": Contributed((4, 4), QUANT, _quant, "QuantizeLinear", (0, 1, 2, 3)),
    "Trunc": Contributed((5, 5), {"rounding_mode": str}, _trunc, "Round", (0, 1, 2, 3, 4)),
}
