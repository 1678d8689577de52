"""Signal-to-noise ratios of the outputs of a quantised graph.

The signal of an output is its variance over all elements and samples, so a constant output carries no signal.
If the float output is constant, its power counts instead.
"""

from collections.abc import Sequence
from math import inf, isinf, log10

import numpy as np

from vdla.runtime.module.plan import OutputNoise

LIMIT_DB = 400.0  # ratios are clipped to +-LIMIT_DB
LEAST_VARIATION = 1e-4  # a constant output is a fault if the float output varies by more than this share


def noise_of(output: str, expected: Sequence[np.ndarray], actual: Sequence[np.ndarray]) -> OutputNoise:
    """Return the noise of an output.

    Args:
        output: its name.
        expected: the float output on each sample.
        actual: the quantised output on each sample.
    """
    if any(array.shape != expected[0].shape for array in (*expected, *actual)):
        return OutputNoise(output, None, measure="none")
    if expected[0].dtype.kind != "f":
        return OutputNoise(output, _differing_db(expected, actual), measure="equal")
    decibels = _decibels(_concatenated(expected), _concatenated(actual))
    return OutputNoise(output, decibels, _is_stuck(expected, actual))


def _concatenated(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([array.reshape(-1) for array in arrays])


def ratio_db(signal: float, noise: float) -> float:
    """Return the ratio of two powers in decibels.

    The ratio is infinite without noise. It is negative infinity if only the signal is 0, or if the noise is
    infinite.
    """
    if noise == 0:
        return inf
    if signal == 0 or noise == inf:
        return -inf
    return 10 * (log10(signal) - log10(noise))


def _kept_db(signal: float, noise: float) -> float | None:
    """Return a ratio as records store it: None without noise, else clipped to +-`LIMIT_DB`."""
    ratio = ratio_db(signal, noise)
    return None if isinf(ratio) and ratio > 0 else float(np.clip(ratio, -LIMIT_DB, LIMIT_DB))


def _decibels(expected: np.ndarray, actual: np.ndarray) -> float | None:
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(actual)):
        return -LIMIT_DB
    signal, other = expected[finite].astype(np.float64), actual[finite].astype(np.float64)
    power = float(np.square(signal - signal.mean()).sum()) if signal.size else 0.0
    return _kept_db(power or float(np.square(signal).sum()), float(np.square(other - signal).sum()))


def _differing_db(expected: Sequence[np.ndarray], actual: Sequence[np.ndarray]) -> float | None:
    """Return the ratio of the number of elements to the number of differing elements, in decibels."""
    pairs = zip(expected, actual, strict=True)
    differ = sum(int((before != after).sum()) for before, after in pairs)
    return _kept_db(float(sum(array.size for array in expected)), float(differ))


def _is_stuck(expected: Sequence[np.ndarray], actual: Sequence[np.ndarray]) -> bool:
    """Whether a quantised output is equal on all samples although the float output varies."""
    if len(expected) < 2 or any((array != actual[0]).any() for array in actual):
        return False
    values = np.stack(expected).astype(np.float64)
    return bool(values.var(axis=0).sum() > LEAST_VARIATION * np.square(values).mean(axis=0).sum())
