"""The figures of a point that sweeps compare, and their mean."""

import math
from collections.abc import Sequence

FIGURES = ("cycles", "seconds", "energy_pj", "lut", "ff", "dsp", "block_ram", "mhz")
"""Columns of the table of points that are compared."""


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers, at least one."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))
