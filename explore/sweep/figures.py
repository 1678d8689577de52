"""The figures of a point that sweeps compare, their mean, and where they stand to limits."""

import math
from collections.abc import Sequence
from enum import StrEnum

FIGURES = ("cycles", "seconds", "energy_pj", "lut", "ff", "dsp", "block_ram", "mhz")
"""Columns of the table of points that are compared."""


class Verdict(StrEnum):
    """Where a result stands to the limits of a sweep, the best first."""

    WITHIN = "within"
    PERHAPS = "perhaps"
    BEYOND = "beyond"


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers, at least one."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))
