"""How far estimates of area were off: the measure of what a limit on an estimate decides."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from vdla.explore.silicon.estimate import estimated_area
from vdla.explore.silicon.families import RESOURCES
from vdla.explore.silicon.grid import SHOWN
from vdla.explore.silicon.store import current_store


@dataclass(frozen=True, slots=True)
class EstimateError:
    """The error of an estimated figure.

    Attributes:
        worst: the largest difference of a measured figure to its estimate, in parts of the estimate.
        designs: that were measured.
    """

    worst: float
    designs: int


@cache
def area_errors(family: str) -> Mapping[str, EstimateError]:
    """Return the errors of estimated areas by resource, over the synthesised designs of the store; empty
    where it has none.

    Args:
        family: one of `FAMILIES`.
    """
    known = current_store().designs.get(family, {})
    designs = [(config, known[config.digest]) for config in SHOWN if "lut" in known.get(config.digest, {})]
    pairs = [(estimated_area(config, family), entry) for config, entry in designs]
    return {
        name: EstimateError(_worst([(guess[name], float(entry[name])) for guess, entry in pairs]), len(pairs))
        for name in RESOURCES
        if pairs
    }


def _worst(pairs: list[tuple[float, float]]) -> float:
    """Return the largest error of pairs of estimate and measurement."""
    return max(abs(real / guess - 1) if guess else 0.0 for guess, real in pairs)
