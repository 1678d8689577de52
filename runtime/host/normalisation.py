"""Normalisation, and softmax, which makes a distribution; on floats, and from int8 to int8.

Functions from int8 to int8 join conversions and sums in few passes over the elements. They stay on the host:
they divide by what only a sum over a row tells. Results differ by at most one from the results of the
operators between conversions in float32.

Source: ONNX operator specification, BatchNormalization, InstanceNormalization, LayerNormalization, LRN,
Softmax, LogSoftmax.
"""

import numpy as np

LEAST, GREATEST = -128, 127
STEPS = np.arange(256)  # between two values of int8
FRACTION_BITS = 40
"""Of a power in the sum of a softmax with float results: a sum of 2**23 powers is exact in int64."""
NARROW_FRACTION_BITS = 30
"""Of a power in a softmax with int8 results: a power takes an int32."""


def batch_normalization(
    x: np.ndarray, scale: np.ndarray, b: np.ndarray, mean: np.ndarray, var: np.ndarray, *, epsilon: float
) -> np.ndarray:
    """Return (x - mean) / sqrt(var + epsilon) scale + b, each of which is float32[C], for x[N, C, ...]."""
    scale, b, mean, var = (part.reshape(-1, *[1] * (x.ndim - 2)) for part in (scale, b, mean, var))
    return (x - mean) / np.sqrt(var + x.dtype.type(epsilon)) * scale + b


def instance_normalization(x: np.ndarray, scale: np.ndarray, b: np.ndarray, *, epsilon: float) -> np.ndarray:
    """Normalise each channel of each image by its own mean and variance."""
    axes = tuple(range(2, x.ndim))
    scale, b = (part.reshape(-1, *[1] * len(axes)) for part in (scale, b))
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(
        x.var(axes, keepdims=True) + x.dtype.type(epsilon)
    ) * scale + b


def layer_normalization(
    x: np.ndarray, scale: np.ndarray, b: np.ndarray | None = None, *, axis: int, epsilon: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normalise over the dimensions from `axis` on.

    Returns:
        The result, the means, and the reciprocals of the standard deviations.
    """
    axes = tuple(range(axis % x.ndim, x.ndim))
    mean = x.mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(np.square(x - mean).mean(axes, keepdims=True) + x.dtype.type(epsilon))
    out = (x - mean) * inverse * scale
    return out if b is None else out + b, mean, inverse


def lrn(x: np.ndarray, *, alpha: float, beta: float, bias: float, size: int) -> np.ndarray:
    """Divide each element of x[N, C, ...] by (bias + alpha / size · sum of squares of `size` channels around
    it) ** beta."""
    squares, channels = np.square(x), x.shape[1]
    sums = np.zeros_like(squares)
    for offset in range(max(-((size - 1) // 2), 1 - channels), min(size // 2, channels - 1) + 1):
        begin, end = max(-offset, 0), min(channels - offset, channels)
        sums[:, begin:end] += squares[:, begin + offset : end + offset]
    return x / np.power(bias + alpha / size * sums, x.dtype.type(beta))


def softmax(x: np.ndarray, *, axis: int) -> np.ndarray:
    """Return exp(x) divided by its sum along `axis`."""
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def log_softmax(x: np.ndarray, *, axis: int) -> np.ndarray:
    """Return the logarithm of softmax, without the overflow."""
    below = x - x.max(axis=axis, keepdims=True)
    return below - np.log(np.exp(below).sum(axis=axis, keepdims=True))


def softmax_powers(scale: np.ndarray) -> np.ndarray:
    """Return exp(-scale d) for each difference d of 0 to 255 between two values of int8, as float32[256]."""
    return np.exp(-scale.astype(np.float64).reshape(()) * STEPS).astype(np.float32)


def dequantised_softmax(x: np.ndarray, powers: np.ndarray, *, axis: int) -> np.ndarray:
    """Return the softmax of int8[...] along `axis` as float32[...], by a table of `softmax_powers`.

    An element is its power, divided by the sum of all powers. The sum is in fixed point, with
    `FRACTION_BITS` fraction bits, so that it depends neither on the order of additions nor on the machine.
    """
    below = _below_greatest(x, axis)
    total = _in_fixed_point(powers, FRACTION_BITS)[below].sum(-1, keepdims=True)
    real = powers[below] / np.ldexp(total.astype(np.float64), -FRACTION_BITS).astype(np.float32)
    return np.ascontiguousarray(np.moveaxis(real, -1, axis))


def int8_softmax(
    x: np.ndarray, powers: np.ndarray, y_scale: np.ndarray, y_zero_point: np.ndarray, *, axis: int
) -> np.ndarray:
    """Return the softmax of int8[...] along `axis` as int8[...]: (value - y_zero_point) y_scale.

    Powers and their sum are in fixed point, with `NARROW_FRACTION_BITS` fraction bits.
    """
    fixed = _in_fixed_point(powers, NARROW_FRACTION_BITS).astype(np.int32)[_below_greatest(x, axis)]
    real = fixed.astype(np.float32)
    real /= fixed.sum(-1, keepdims=True, dtype=np.int64).astype(np.float32) * y_scale
    return np.ascontiguousarray(np.moveaxis(_narrowed(real, y_zero_point), -1, axis))


def _below_greatest(x: np.ndarray, axis: int) -> np.ndarray:
    """Return how far each element is below the greatest of its row along `axis`, as uint8; `axis` is last."""
    rows = np.moveaxis(x, axis, -1)
    below: np.ndarray = np.subtract(rows.max(-1, keepdims=True), rows).view(np.uint8)
    return below


def _in_fixed_point(powers: np.ndarray, fraction_bits: int) -> np.ndarray:
    """Return powers as int64[256], rounded to nearest even."""
    return np.rint(np.ldexp(powers.astype(np.float64), fraction_bits)).astype(np.int64)


def int8_layer_normalization(
    x: np.ndarray,
    scale: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray | None,
    y_scale: np.ndarray,
    y_zero_point: np.ndarray,
    *,
    epsilon: float,
) -> np.ndarray:
    """Normalise int8[..., c], which stands for multiples of `scale`, over its last dimension; return (weights
    normal + bias) as int8[..., c]: (value - y_zero_point) y_scale. Zero points of x make no difference."""
    channels = x.shape[-1]
    means = x.sum(-1, keepdims=True, dtype=np.int64) / channels
    real = x.astype(np.float32)
    real -= means.astype(np.float32)
    variances = np.einsum("...i,...i->...", real, real)[..., None] / np.float32(channels)
    real *= scale / np.sqrt(variances * scale**2 + np.float32(epsilon))
    real *= weights / y_scale
    if bias is not None:
        real += bias / y_scale
    return _narrowed(real, y_zero_point)


def _narrowed(real: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
    """Return floats, which are overwritten, rounded, plus `zero_point`, bounded, as int8."""
    np.rint(real, out=real)
    if zero_point:
        real += zero_point
    np.clip(real, LEAST, GREATEST, out=real)
    return real.astype(np.int8)


OPERATORS = {
    "BatchNormalization": batch_normalization,
    "DequantizedSoftmax": dequantised_softmax,
    "InstanceNormalization": instance_normalization,
    "Int8LayerNormalization": int8_layer_normalization,
    "Int8Softmax": int8_softmax,
    "LRN": lrn,
    "LayerNormalization": layer_normalization,
    "LogSoftmax": log_softmax,
    "Softmax": softmax,
}
