"""Softmax and layer normalisation from int8 to int8: conversions and sums in few passes over the elements.

Both stay on the host: they divide by what only a sum over a row tells. Results differ by at most one from
those of the operators between conversions in float32.
"""

import numpy as np

LEAST, GREATEST = -128, 127
STEPS = np.arange(256)  # between two values of int8


def int8_softmax(
    x: np.ndarray, scale: np.ndarray, y_scale: np.ndarray, y_zero_point: np.ndarray, *, axis: int
) -> np.ndarray:
    """Return the softmax of x scale along `axis` as int8[...]: (value - y_zero_point) y_scale.

    Powers are read in a table, by how far an element is below the greatest of its row.
    """
    rows = np.moveaxis(x, axis, -1)
    table = np.exp(-scale.astype(np.float64) * STEPS).astype(np.float32)
    below: np.ndarray = np.subtract(rows.max(-1, keepdims=True), rows).view(np.uint8)
    real = table[below]
    real /= np.einsum("...i->...", real)[..., None] * y_scale
    return np.ascontiguousarray(np.moveaxis(_narrowed(real, y_zero_point), -1, axis))


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


OPERATORS = {"Int8LayerNormalization": int8_layer_normalization, "Int8Softmax": int8_softmax}
