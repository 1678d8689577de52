"""The figures of a point that sweeps compare, where they stand to limits, and why there are none."""

import math
import re
from collections.abc import Sequence
from enum import StrEnum

FIGURES = ("cycles", "seconds", "energy_pj", "lut", "ff", "dsp", "block_ram", "mhz")
"""Columns of the table of points that are compared."""


class Verdict(StrEnum):
    """Where a result stands to the limits of a sweep, the best first."""

    WITHIN = "within"
    PERHAPS = "perhaps"
    BEYOND = "beyond"


ON_HOST = " is left to the host"
"""What follows the name of an operator in a status."""
NUMBER = re.compile(r"\d[\d,.]*")


def alike(status: str) -> str:
    """Return what statuses for one reason have in common: the text without its numbers."""
    return NUMBER.sub("#", status)


def in_short(status: str) -> str:
    """Return why there is no result, without the names of operators."""
    return status.partition(": ")[2] if ON_HOST in status else status


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers, at least one."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))
