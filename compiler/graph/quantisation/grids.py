"""Grids: scales and zero points of int8 tensors, chosen by what the error on the samples costs.

Source: Nagel et al., A white paper on neural network quantization, 2021, section 3.1; Migacz, 8-bit inference
with TensorRT, GTC 2017 (entropy).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from vdla.compiler.graph.integers import GREATEST, LEAST
from vdla.compiler.graph.quantisation.observe import Observed
from vdla.compiler.graph.quantise_weights import scale_for

STEPS = GREATEST - LEAST
FARTHEST = 2.0**-7  # of the range that may be left after clipping
FINENESS = 6  # candidates for each halving of the range
WORTH = 0.75  # of the error of a symmetric grid, that any other zero point must stay below

Function = Callable[[np.ndarray], Sequence[np.ndarray]]


class Criterion(StrEnum):
    """How the range of a tensor is chosen; first those that most networks do well with, as work may not allow
    to judge all."""

    SQUARED_ERROR = "squared error"
    PERCENTILE_99999 = "percentile 99.999"
    PERCENTILE_9999 = "percentile 99.99"
    EXTREMES = "extremes"
    ENTROPY = "entropy"


PERCENTILES = {Criterion.PERCENTILE_9999: 99.99, Criterion.PERCENTILE_99999: 99.999}


@dataclass(frozen=True, slots=True)
class Grid:
    """The numbers that an int8 tensor can stand for: (value - zero) * scale.

    Attributes:
        scale: float32, of one element.
        zero: its zero point.
    """

    scale: np.ndarray
    zero: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """A tensor whose grid is to be chosen.

    Attributes:
        observed: on the samples.
        function: what its readers compute of each element, where the errors count; None: the elements.
        symmetric: readers take the zero point 0, or do more work.
        lowest: the zero point of values that are all positive.
    """

    observed: Observed
    function: Function | None = None
    symmetric: bool = False
    lowest: int = LEAST


def grid_of(case: Case, criterion: Criterion) -> Grid:
    """Return the grid of a tensor by a criterion."""
    seen = case.observed
    if criterion in PERCENTILES:
        return within_percentile(case, PERCENTILES[criterion])
    if criterion is Criterion.EXTREMES:
        return covering(seen.least, seen.greatest, case.symmetric, case.lowest)
    if criterion is Criterion.ENTROPY:
        return _least_divergence(case)
    return _least_error(case)


def within_percentile(case: Case, percentile: float) -> Grid:
    """Return the grid that reaches the magnitude which `percentile` percent of the elements do not exceed."""
    seen = case.observed
    if percentile == 100:
        return covering(seen.least, seen.greatest, case.symmetric, case.lowest)
    values, counts, _ = seen.points()
    order = np.argsort(np.abs(values))
    shares = np.cumsum(counts[order]) / counts.sum()
    place = min(int(np.searchsorted(shares, percentile / 100)), len(values) - 1)
    reach = float(np.abs(values[order[place]]))
    return covering(max(seen.least, -reach), min(seen.greatest, reach), case.symmetric, case.lowest)


def covering(least: float, greatest: float, symmetric: bool, lowest: int = LEAST) -> Grid:
    """Return the grid that reaches from `least` to `greatest` and holds 0 exactly. Values of one sign use all
    integers from `lowest` on; others are symmetric unless their sides differ much."""
    low, high = min(least, 0.0), max(greatest, 0.0)
    if symmetric or not _lopsided(low, high):
        return Grid(scale_for(max(-low, high)))
    scale = np.float32((high - low) / (GREATEST - lowest))
    if not scale > np.finfo(np.float32).tiny:
        return Grid(scale_for(max(-low, high)))
    return Grid(np.asarray(scale), int(np.clip(np.rint(lowest - low / scale), lowest, GREATEST)))


def _lopsided(low: float, high: float) -> bool:
    """Whether a zero point other than 0 lowers the power of rounding errors enough."""
    return ((high - low) / STEPS) ** 2 < WORTH * (max(-low, high) / GREATEST) ** 2


def _errors(case: Case, grids: Sequence[Grid]) -> np.ndarray:
    """Return the weighted squared error of each grid, float64[n]."""
    values, _, weights = case.observed.points()
    scales = np.array([float(grid.scale) for grid in grids])[:, None]
    zeros = np.array([grid.zero for grid in grids], np.float64)[:, None]
    found = (np.clip(np.rint(values / scales) + zeros, LEAST, GREATEST) - zeros) * scales
    if case.function is None:
        pairs = [(found, values)]
    else:
        pairs = list(zip(case.function(found), case.function(values), strict=True))
    total: np.ndarray = np.sum([np.square(one - other) @ weights for one, other in pairs], axis=0)
    return total


def _best(case: Case, ranges: Sequence[tuple[float, float]]) -> tuple[float, tuple[float, float], Grid]:
    """Return the least error, its range and its grid."""
    grids = [covering(low, high, case.symmetric, case.lowest) for low, high in ranges]
    errors = _errors(case, grids)
    place = int(np.argmin(errors))
    return float(errors[place]), ranges[place], grids[place]


def _least_error(case: Case) -> Grid:
    """Return the grid of the least error: first both sides are clipped alike, then each for itself."""
    low, high = min(case.observed.least, 0.0), max(case.observed.greatest, 0.0)
    reach, shares = max(-low, high), _shares()
    error, best, grid = _best(
        case, [(max(low, -reach * share), min(high, reach * share)) for share in shares]
    )
    for _ in range(2):
        sides = [(max(low, low * share), best[1]) for share in shares] if low < 0 else []
        sides += [(best[0], high * share) for share in shares] if high > 0 else []
        found = _best(case, [*sides, best])
        if not found[0] < error:
            break
        error, best, grid = found
    return grid


def _shares() -> np.ndarray:
    """Return parts of a range, 1 first."""
    return 2.0 ** -np.arange(0, -np.log2(FARTHEST) + 0.5 / FINENESS, 1 / FINENESS)


def _least_divergence(case: Case) -> Grid:
    """Return the grid whose steps tell most of how elements are distributed."""
    low, high = min(case.observed.least, 0.0), max(case.observed.greatest, 0.0)
    reach = max(-low, high)
    ranges = [(max(low, -reach * share), min(high, reach * share)) for share in _shares()]
    grids = [covering(*each, case.symmetric, case.lowest) for each in ranges]
    values, counts, _ = case.observed.points()
    return min(grids, key=lambda grid: _divergence(values, counts, grid))


def _divergence(values: np.ndarray, counts: np.ndarray, grid: Grid) -> float:
    """Return the divergence of the distribution that a grid leaves from that of the elements, those beyond
    the grid counted at its ends: within a step, all widths between points are alike."""
    steps = np.rint(values / float(grid.scale)) + grid.zero
    inside = (steps >= LEAST) & (steps <= GREATEST)
    if not inside.any():
        return np.inf
    widths = np.gradient(values)[inside] if len(values) > 1 else np.ones(1)
    places = (steps[inside] - LEAST).astype(np.int64)
    mass = np.bincount(places, counts[inside], minlength=STEPS + 1)
    extent = np.bincount(places, widths, minlength=STEPS + 1)
    kept = mass[places] * widths / np.where(extent[places] > 0, extent[places], 1)
    wanted = counts[inside].copy()
    first, last = np.flatnonzero(inside)[[0, -1]]
    wanted[0] += counts[:first].sum()
    wanted[-1] += counts[last + 1 :].sum()
    if not kept.sum() > 0:
        return np.inf
    wanted, kept = wanted / wanted.sum(), kept / kept.sum()
    there = wanted > 0
    return float((wanted[there] * np.log(wanted[there] / np.maximum(kept[there], 1e-30))).sum())
