"""Signal to noise of the outputs of a quantised graph.

The signal of an output is how far it deviates from its mean over all elements and samples. So an output that
says the same of everything has none. Where the float output is the same everywhere, its own power counts.
"""

from collections.abc import Sequence
from math import inf, isinf, log10

import numpy as np

from vdla.runtime.module.plan import OutputNoise

LIMIT_DB = 400.0  # that ratios of powers are cut to
LEAST_VARIATION = 1e-4  # of an output's power, that must vary with the samples before a constant is a fault


def noise_of(output: str, wanted: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> OutputNoise:
    """Return what an output has lost.

    Args:
        wanted, found: the output on each sample, in float and quantised.
    """
    if any(one.shape != wanted[0].shape for one in (*wanted, *found)):
        return OutputNoise(output, None, measure="none")
    if wanted[0].dtype.kind != "f":
        return OutputNoise(output, _differing(wanted, found), measure="equal")
    one, other = (np.concatenate([part.reshape(-1) for part in parts]) for parts in (wanted, found))
    return OutputNoise(output, _decibels(one, other), _is_stuck(wanted, found))


def ratio_db(signal: float, noise: float) -> float:
    """Return the ratio of two powers in decibels: infinite without noise, negative infinity where only the
    signal is 0 or the noise is infinite."""
    if noise == 0:
        return inf
    if signal == 0 or noise == inf:
        return -inf
    return 10 * (log10(signal) - log10(noise))


def _kept_db(signal: float, noise: float) -> float | None:
    """Return a ratio as records keep it: None without noise, and never infinite."""
    ratio = ratio_db(signal, noise)
    return None if isinf(ratio) and ratio > 0 else float(np.clip(ratio, -LIMIT_DB, LIMIT_DB))


def _decibels(wanted: np.ndarray, found: np.ndarray) -> float | None:
    finite = np.isfinite(wanted)
    if not np.array_equal(finite, np.isfinite(found)):
        return -LIMIT_DB
    signal, other = wanted[finite].astype(np.float64), found[finite].astype(np.float64)
    power = float(np.square(signal - signal.mean()).sum()) if signal.size else 0.0
    return _kept_db(power or float(np.square(signal).sum()), float(np.square(other - signal).sum()))


def _differing(wanted: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> float | None:
    """Return how many elements there are by how many differ."""
    differ = sum(int((one != other).sum()) for one, other in zip(wanted, found, strict=True))
    return _kept_db(float(sum(one.size for one in wanted)), float(differ))


def _is_stuck(wanted: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> bool:
    """Whether an output is the same on all samples, and varies in float."""
    if len(wanted) < 2 or any((one != found[0]).any() for one in found):
        return False
    values = np.stack(wanted).astype(np.float64)
    return bool(values.var(axis=0).sum() > LEAST_VARIATION * np.square(values).mean(axis=0).sum())
