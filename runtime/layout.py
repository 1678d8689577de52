"""The blocked layout in which the accelerator keeps activations: [n / batch, c / block, h, w, batch, block]."""

import numpy as np


def blocked(values: np.ndarray, block: int, batch: int) -> np.ndarray:
    """Return [n, c, h, w] as [n / batch, c / block, h, w, batch, block], filled up with zeros."""
    n, c, height, width = values.shape
    whole = np.pad(values, ((0, -n % batch), (0, -c % block), (0, 0), (0, 0)))
    parts = whole.reshape(whole.shape[0] // batch, batch, whole.shape[1] // block, block, height, width)
    return np.ascontiguousarray(parts.transpose(0, 2, 4, 5, 1, 3))


def unblocked(values: np.ndarray, n: int, c: int) -> np.ndarray:
    """Return [n / batch, c / block, h, w, batch, block] as [n, c, h, w], without what fills it up."""
    outer, inner, height, width, batch, block = values.shape
    return np.ascontiguousarray(values.transpose(0, 4, 1, 5, 2, 3).reshape(outer * batch, inner * block, height, width)[:n, :c])
