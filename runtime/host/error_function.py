"""The error function, by its Taylor series around the nearest of many points.

The next term that is left out is below 1e-13, so float32 results are those of float64 arithmetic, rounded.

Source: Abramowitz and Stegun, Handbook of mathematical functions, 7.1.1 and 7.1.19.
"""

import math
from functools import cache

import numpy as np

FINENESS = 1 << 10  # points to one
FARTHEST = 4.0  # from where on float32 holds nothing nearer to the result than 1
BLOCK = 1 << 14  # elements at a time, so that what is computed of them stays in the processor's cache

_exact = np.frompyfunc(math.erf, 1, 1)


def erf(x: np.ndarray) -> np.ndarray:
    """Return the error function of each element, in the type of x; of NaN it is NaN."""
    if x.dtype != np.float32:
        return np.asarray(_exact(x.astype(np.float64))).astype(x.dtype)
    found = np.empty(x.shape, np.float32)
    elements, results = np.ascontiguousarray(x).reshape(-1), found.reshape(-1)
    for start in range(0, elements.size, BLOCK):
        block = elements[start : start + BLOCK]
        results[start : start + BLOCK] = np.copysign(_of_magnitudes(np.abs(block)), block)
    return found


def _of_magnitudes(magnitudes: np.ndarray) -> np.ndarray:
    """Return the error function of float32[n] that are not negative, float64[n]."""
    values, slopes = _points()
    places = np.rint(np.fmin(magnitudes, FARTHEST) * FINENESS).astype(np.intp)
    near = places / FINENESS
    rest = np.minimum(magnitudes, FARTHEST) - near
    series = rest * (1 - rest * (near - rest * (2 * near * near - 1) / 3))
    found: np.ndarray = values[places] + slopes[places] * series
    return found


@cache
def _points() -> tuple[np.ndarray, np.ndarray]:
    """Return the function and its first derivative at the points, float64[points] each."""
    points = np.arange(int(FARTHEST * FINENESS) + 1) / FINENESS
    slopes = 2 / math.sqrt(math.pi) * np.exp(-np.square(points))
    return np.array([math.erf(point) for point in points]), slopes
