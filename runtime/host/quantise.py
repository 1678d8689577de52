"""Quantised tensors: numbers as integers q with scale s and zero point z, so that x = (q - z) s.

Rounding is to nearest, ties to even; results saturate. Rescaling of integer sums is done in float32.

Source: ONNX operator specification, QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, QLinearConv,
QLinearMatMul.
"""

from collections.abc import Sequence

import numpy as np

from vdla.runtime.host.convolution import conv_integer
from vdla.runtime.host.matrix import matmul_integer

STEPS = 255  # of a range that uint8 holds
NARROW_BYTES = 2
"""Integers of up to so many bytes, their sums and their differences are exact in float32."""


def quantize_linear(x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, *, axis: int) -> np.ndarray:
    """Return x as integers of the type of `zero_point`; scale and zero point are of one element, or one for
    each index of `axis`. NaN, of which the specification says nothing, becomes the least integer, as
    onnxruntime has it."""
    return _saturated(x / _along(scale, x.ndim, axis), _along(zero_point, x.ndim, axis))


def dequantize_linear(x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, *, axis: int) -> np.ndarray:
    """Return (x - zero_point) scale as float32; scale and zero point as in `quantize_linear`."""
    scale, zero_point = _along(scale, x.ndim, axis), _along(zero_point, x.ndim, axis)
    if scale.dtype != np.float32 or not (_narrow(x) and _narrow(zero_point)):
        return (x.astype(np.int64) - zero_point.astype(np.int64)).astype(scale.dtype) * scale
    wide = x.astype(np.float32)
    if zero_point.ndim or zero_point:
        wide = wide - zero_point
    return np.multiply(wide, scale, out=None if scale.ndim else np.asarray(wide))


def dynamic_quantize_linear(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x as uint8, with the scale and the zero point of its range, which holds 0; the scale of
    nothing but zeros is 1."""
    low, high = x.min(initial=0), x.max(initial=0)
    scale = np.asarray((high - low) / np.float32(STEPS) if high > low else 1, np.float32)
    point = _saturated(np.asarray(-low / scale), np.zeros((), np.uint8))
    return quantize_linear(x, scale, point, axis=0), scale, point


def qlinear_conv(
    x: np.ndarray,
    x_scale: np.ndarray,
    x_zero_point: np.ndarray,
    w: np.ndarray,
    w_scale: np.ndarray,
    w_zero_point: np.ndarray,
    y_scale: np.ndarray,
    y_zero_point: np.ndarray,
    b: np.ndarray | None = None,
    *,
    dilations: Sequence[int],
    group: int,
    pads: Sequence[int],
    strides: Sequence[int],
) -> np.ndarray:
    """Convolve quantised tensors; `w_scale` and `w_zero_point` may be per output channel, `b` is int32[M] of
    scale x_scale w_scale."""
    sums = conv_integer(
        x, w, x_zero_point, w_zero_point, dilations=dilations, group=group, pads=pads, strides=strides
    )
    sums = sums if b is None else sums + _along(b, sums.ndim, 1)
    return _rescaled(sums, _along(x_scale * w_scale / y_scale, sums.ndim, 1), y_zero_point)


def qlinear_matmul(
    a: np.ndarray,
    a_scale: np.ndarray,
    a_zero_point: np.ndarray,
    b: np.ndarray,
    b_scale: np.ndarray,
    b_zero_point: np.ndarray,
    y_scale: np.ndarray,
    y_zero_point: np.ndarray,
) -> np.ndarray:
    """Multiply quantised matrices; scale and zero point of `a` may be per row, of `b` per column."""
    sums = matmul_integer(a, b, a_zero_point, b_zero_point)
    rows = a_scale[:, None] if a_scale.ndim == 1 and a_scale.size > 1 else a_scale
    return _rescaled(sums, rows * b_scale / y_scale, y_zero_point)


def _saturated(real: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
    """Return floats, which are overwritten, rounded, plus `zero_point`, bounded by its type, in that type."""
    real, limits = np.asarray(real), np.iinfo(zero_point.dtype)
    whole = np.rint(real, out=real)
    if real.dtype != np.float32 or not _narrow(zero_point):
        whole = whole.astype(np.float64)
    if zero_point.ndim or zero_point:
        whole = np.asarray(whole + zero_point)
    np.clip(whole, limits.min, limits.max, out=whole)
    if np.isnan(np.min(whole, initial=limits.max)):
        whole[np.isnan(whole)] = limits.min
    return whole.astype(zero_point.dtype)


def _narrow(integers: np.ndarray) -> bool:
    return integers.itemsize <= NARROW_BYTES


def _rescaled(sums: np.ndarray, factor: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
    return _saturated(sums.astype(np.float32) * factor, zero_point)


def _along(part: np.ndarray, rank: int, axis: int) -> np.ndarray:
    """Shape a vector so that it broadcasts along `axis` of `rank` dimensions; a single element broadcasts
    anyway."""
    if part.size == 1:
        return part.reshape(())
    return part.reshape([-1 if dimension == axis % rank else 1 for dimension in range(rank)])


OPERATORS = {
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize_linear,
}
