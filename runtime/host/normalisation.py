"""Normalisation, and softmax, which makes a distribution, of floats; softmax of int8 as floats.

Source: ONNX operator specification, BatchNormalization, InstanceNormalization, LayerNormalization, LRN,
RMSNormalization, Softmax, LogSoftmax.
"""

import numpy as np

STEPS = np.arange(256)  # between two values of int8
FRACTION_BITS = 40
"""Of a power in the sum of a softmax with float results: a sum of 2**23 powers is exact in int64."""


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


def rms_normalization(x: np.ndarray, scale: np.ndarray, *, axis: int, epsilon: float) -> np.ndarray:
    """Divide x by the root of the mean of its squares over the dimensions from `axis` on, times `scale`."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    squares = np.square(x).mean(axes, keepdims=True)
    normal: np.ndarray = x * (1 / np.sqrt(squares + x.dtype.type(epsilon))) * scale
    return normal


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
    below = below_greatest(x, axis)
    total = _in_fixed_point(powers, FRACTION_BITS)[below].sum(-1, keepdims=True)
    real = powers[below] / np.ldexp(total.astype(np.float64), -FRACTION_BITS).astype(np.float32)
    return np.ascontiguousarray(np.moveaxis(real, -1, axis))


def below_greatest(x: np.ndarray, axis: int) -> np.ndarray:
    """Return how far each element is below the greatest of its row along `axis`, as uint8; `axis` is last."""
    rows = np.moveaxis(x, axis, -1)
    below: np.ndarray = np.subtract(rows.max(-1, keepdims=True), rows).view(np.uint8)
    return below


def _in_fixed_point(powers: np.ndarray, fraction_bits: int) -> np.ndarray:
    """Return powers as int64[256], rounded to nearest even."""
    return np.rint(np.ldexp(powers.astype(np.float64), fraction_bits)).astype(np.int64)


OPERATORS = {
    "BatchNormalization": batch_normalization,
    "DequantizedSoftmax": dequantised_softmax,
    "InstanceNormalization": instance_normalization,
    "LRN": lrn,
    "LayerNormalization": layer_normalization,
    "LogSoftmax": log_softmax,
    "RMSNormalization": rms_normalization,
    "Softmax": softmax,
}
