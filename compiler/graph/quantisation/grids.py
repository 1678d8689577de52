"""Grids: scales and zero points of int8 tensors, chosen by the cost of the error on samples.

The error of a tensor costs the squared error of the results of its readers.

Source: Nagel et al., A white paper on neural network quantization, 2021, section 3.1; Migacz, 8-bit inference
with TensorRT, GTC 2017 (entropy).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from vdla.compiler.graph.integer_forms.normalisation import NORMALISATIONS, finest_scales
from vdla.compiler.graph.integers import GREATEST, LEAST
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.quantisation.observe import Observed
from vdla.compiler.graph.quantisation.roles import Roles
from vdla.compiler.graph.quantise_weights import product_parts, scale_for
from vdla.runtime.host.evaluate import evaluate

STEPS = GREATEST - LEAST
FARTHEST = 2.0**-7  # the least share of the range that clipping may leave
FINENESS = 6  # candidates for each halving of the range
WORTH = 0.75  # a zero point other than 0 must lower the error of the symmetric grid to less than this share
SYMMETRIC_READERS = ("ConvTranspose", "RMSNormalization")
"""Products that take twice the work if the zero point of their input is not 0, and operators without an
integer form then.

Products of two activations take any zero point, but each nonzero zero point doubles their work.
"""
FACTORS = ("Mul",)
"""Operators that multiply by the negative zero point of each factor, at twice the work if it is not int8."""

MASKED = -50.0
"""Elements of a sum of scores and a mask that are lower have the power 0."""
MASKED_SHARE = 2.0**-9
"""What the powers of the masked elements of a row may add to the sum of all powers, as a share of it."""
MASK_REACH = 1.25
"""How far a mask reaches, as a multiple of the range of the scores: rounding may take a part of it."""

ReaderFunction = Callable[[np.ndarray], Sequence[np.ndarray]]
"""The results that the readers of a tensor compute from its elements."""


class Criterion(StrEnum):
    """The ways to choose the range of a tensor, the most successful first: the budget may not allow all."""

    SQUARED_ERROR = "squared error"
    PERCENTILE_99999 = "percentile 99.999"
    PERCENTILE_9999 = "percentile 99.99"
    EXTREMES = "extremes"
    ENTROPY = "entropy"


PERCENTILES = {Criterion.PERCENTILE_9999: 99.99, Criterion.PERCENTILE_99999: 99.999}


@dataclass(frozen=True, slots=True)
class Grid:
    """The real numbers that an int8 tensor can represent: (value - zero) * scale.

    Attributes:
        scale: a float32 scalar.
        zero: the zero point.
    """

    scale: np.ndarray
    zero: int = 0


@dataclass(frozen=True, slots=True)
class Calibration:
    """The data from which a tensor's grid is chosen.

    Attributes:
        observed: the tensor's elements on the samples.
        function: the function of each element whose error counts; None: the element itself.
        symmetric: the zero point must be 0; readers would do more work otherwise.
        lowest: the zero point of values that are all positive.
        bounds: the range that the grid covers by every criterion; None: a criterion chooses the range.
        finest: the least scale, below which the operator that makes the values has no integer form.
    """

    observed: Observed
    function: ReaderFunction | None = None
    symmetric: bool = False
    lowest: int = LEAST
    bounds: tuple[float, float] | None = None
    finest: float = 0.0

    def covering(self, least: float, greatest: float) -> Grid:
        """Return the grid that covers `least`..`greatest`."""
        grid = covering(least, greatest, self.symmetric, self.lowest)
        if grid.scale >= self.finest:
            return grid
        return replace(grid, scale=np.asarray(self.finest, np.float32))


def grid_of(calibration: Calibration, criterion: Criterion) -> Grid:
    """Return the grid of a tensor by a criterion."""
    seen = calibration.observed
    if calibration.bounds is not None:
        return calibration.covering(*calibration.bounds)
    if criterion in PERCENTILES:
        return within_percentile(calibration, PERCENTILES[criterion])
    if criterion is Criterion.EXTREMES:
        return calibration.covering(seen.least, seen.greatest)
    if criterion is Criterion.ENTROPY:
        return _least_divergence(calibration)
    return _least_error(calibration)


def within_percentile(calibration: Calibration, percentile: float) -> Grid:
    """Return the grid that covers the magnitude not exceeded by `percentile` percent of the elements."""
    seen = calibration.observed
    if calibration.bounds is not None or percentile == 100:
        return calibration.covering(*(calibration.bounds or (seen.least, seen.greatest)))
    values, counts, _ = seen.points()
    order = np.argsort(np.abs(values))
    shares = np.cumsum(counts[order]) / counts.sum()
    place = min(int(np.searchsorted(shares, percentile / 100)), len(values) - 1)
    reach = float(np.abs(values[order[place]]))
    return calibration.covering(max(seen.least, -reach), min(seen.greatest, reach))


def covering(least: float, greatest: float, symmetric: bool, lowest: int = LEAST) -> Grid:
    """Return the grid that covers `least`..`greatest` and represents 0 exactly.

    Values of a single sign use all integers from `lowest` on. Other grids are symmetric, unless `least` and
    `greatest` differ much in magnitude.
    """
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


def _errors(calibration: Calibration, grids: Sequence[Grid]) -> np.ndarray:
    """Return the weighted squared error of each grid, float64[n]."""
    values, _, weights = calibration.observed.points()
    scales = np.array([float(grid.scale) for grid in grids])[:, None]
    zeros = np.array([grid.zero for grid in grids], np.float64)[:, None]
    rounded = (np.clip(np.rint(values / scales) + zeros, LEAST, GREATEST) - zeros) * scales
    if calibration.function is None:
        pairs = [(rounded, values)]
    else:
        pairs = list(zip(calibration.function(rounded), calibration.function(values), strict=True))
    total: np.ndarray = np.sum([np.square(result - expected) @ weights for result, expected in pairs], axis=0)
    return total


def _best(
    calibration: Calibration, ranges: Sequence[tuple[float, float]]
) -> tuple[float, tuple[float, float], Grid]:
    """Return the least error, its range and its grid."""
    grids = [calibration.covering(low, high) for low, high in ranges]
    errors = _errors(calibration, grids)
    place = int(np.argmin(errors))
    return float(errors[place]), ranges[place], grids[place]


def _least_error(calibration: Calibration) -> Grid:
    """Return the grid of least error, searched with both ends clipped alike, then with each end alone."""
    low, high = min(calibration.observed.least, 0.0), max(calibration.observed.greatest, 0.0)
    reach, shares = max(-low, high), _shares()
    error, best, grid = _best(
        calibration, [(max(low, -reach * share), min(high, reach * share)) for share in shares]
    )
    for _ in range(2):
        sides = [(max(low, low * share), best[1]) for share in shares] if low < 0 else []
        sides += [(best[0], high * share) for share in shares] if high > 0 else []
        candidate = _best(calibration, [*sides, best])
        if not candidate[0] < error:
            break
        error, best, grid = candidate
    return grid


def _shares() -> np.ndarray:
    """Return the candidate shares of a range, in descending order from 1."""
    return 2.0 ** -np.arange(0, -np.log2(FARTHEST) + 0.5 / FINENESS, 1 / FINENESS)


def _least_divergence(calibration: Calibration) -> Grid:
    """Return the grid with the least divergence from the distribution of the elements."""
    low, high = min(calibration.observed.least, 0.0), max(calibration.observed.greatest, 0.0)
    reach = max(-low, high)
    ranges = [(max(low, -reach * share), min(high, reach * share)) for share in _shares()]
    grids = [calibration.covering(*each) for each in ranges]
    values, counts, _ = calibration.observed.points()
    return min(grids, key=lambda grid: _divergence(values, counts, grid))


def _divergence(values: np.ndarray, counts: np.ndarray, grid: Grid) -> float:
    """Return the Kullback-Leibler divergence of the quantised distribution from the distribution of elements.

    Elements beyond the grid count at its ends. Within a step, the quantised distribution is uniform.
    """
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


# Calibration by the readers of a tensor


def error_weights(roles: Roles) -> dict[str, np.ndarray | None]:
    """Return the weight of the squared error of an element, for each origin of int8 values.

    The weight is the sum of the squares of the weights that multiply the element. It is None unless all
    readers of the tensor, and of every origin that shares its scale, are products.
    """
    weights = {name: _error_weight(roles, name) for name in dict.fromkeys(roles.origins.values())}
    equal = {roles.leaders[name] for name, weight in weights.items() if weight is None}
    return {name: None if roles.leaders[name] in equal else weight for name, weight in weights.items()}


def calibrations_of(roles: Roles, observed: Mapping[str, Observed]) -> dict[str, Calibration]:
    """Return the calibration data of each leader of int8 values.

    Args:
        observed: observations of each leader on the samples.
    """
    symmetric = {
        roles.leaders[name]
        for node in roles.graph.nodes
        if (node.op in SYMMETRIC_READERS and roles.is_integer(node)) or node.result in roles.pairs
        for name in roles.activations(node)
    }
    factors = {
        roles.leaders[name]
        for node in roles.graph.nodes
        if node.op in FACTORS and node.result in roles.others
        for name in roles.activations(node)
    }
    lowest = {name: -GREATEST if name in factors else LEAST for name in observed}
    bounds, finest = _bounds_of_masked(roles, observed), _finest_scales(roles)
    return {
        name: Calibration(
            seen,
            _reader_function(roles, name),
            name in symmetric,
            lowest[name],
            bounds.get(name),
            finest.get(name, 0.0),
        )
        for name, seen in observed.items()
    }


def _bounds_of_masked(roles: Roles, observed: Mapping[str, Observed]) -> dict[str, tuple[float, float]]:
    """Return the ranges of scores with masked elements, and of the masks, by the leader of each value.

    A masked element is the least number of its grid. The range reaches so far below the median of the other
    scores that the powers of masked elements are nothing against the power of a row's greatest value. Scores
    of which none is masked have a range like other values.
    """
    bounds = dict[str, tuple[float, float]]()
    for name, mask in roles.scores.items():
        leader, seen = roles.leaders[name], observed[roles.leaders[name]]
        if seen.least > MASKED or not seen.greatest > MASKED:
            continue
        values, counts, _ = seen.points()
        values, counts = values[values > MASKED], counts[values > MASKED]
        median = float(values[np.searchsorted(np.cumsum(counts) / counts.sum(), 0.5)])
        low = median - float(np.log(roles.graph.types[name].shape[-1] / MASKED_SHARE))
        bounds[leader] = low, seen.greatest
        if mask:
            other = roles.leaders[mask]
            least, _ = bounds.get(other, (0.0, 0.0))
            reach = MASK_REACH * (low - max(seen.greatest, 0.0))
            bounds[other] = min(least, reach), observed[other].greatest
    return bounds


def _finest_scales(roles: Roles) -> dict[str, float]:
    """Return the least scale of each leader whose values a normalisation makes."""
    finest = dict[str, float]()
    for node in roles.graph.nodes:
        if node.op in NORMALISATIONS and node.result in roles.others:
            leader, count = roles.leaders[node.result], roles.graph.types[node.result].shape[-1]
            weights = np.broadcast_to(roles.graph.constants[node.inputs[1]], count)
            finest[leader] = max(finest.get(leader, 0.0), float(finest_scales(weights).max()))
    return finest


def input_power(graph: Graph, node: Node) -> np.ndarray | None:
    """Return the sum of the squares of the weights of each input channel of a product.

    The result broadcasts to the product's input. It is None for a grouped convolution that is not depthwise.
    """
    weights, axis, _ = product_parts(graph, node)
    shape = graph.types[node.inputs[0]].shape
    squares: np.ndarray = np.square(weights, dtype=np.float64)
    power: np.ndarray
    if node.op in ("Gemm", "MatMul"):
        power = squares.sum(axis)
        return power
    channels, groups = shape[1], node.integer("group")
    if groups not in (1, channels):
        return None
    if groups == 1:
        power = squares.sum(axis=tuple(place for place in range(squares.ndim) if place != 1 - axis))
    else:
        power = squares.reshape(channels, -1).sum(1)
    return power.reshape(-1, *[1] * (len(shape) - 2))


def _error_weight(roles: Roles, name: str) -> np.ndarray | None:
    readers = roles.readers(name)
    if not readers or name in roles.graph.outputs:
        return None
    total: np.ndarray | None = None
    for reader in readers:
        power = input_power(roles.graph, reader) if reader.result in roles.products else None
        if power is None:
            return None
        total = power if total is None else total + power
    return total if total is not None and total.any() else None


def _reader_function(roles: Roles, name: str) -> ReaderFunction | None:
    """Return the function that the readers of a tensor compute; None unless all readers are elementwise."""
    readers = roles.readers(name)
    inside = [node for node in roles.graph.nodes if roles.roots.get(node.result) == name]
    results = {node.result for node in inside}
    if not readers or name in roles.graph.outputs or any(node.result not in results for node in readers):
        return None
    leaves = [
        out
        for out in results
        if out in roles.graph.outputs or any(node.result not in results for node in roles.readers(out))
    ]
    return lambda values: _evaluated(roles.graph, name, inside, sorted(leaves), values)


def _evaluated(
    graph: Graph, name: str, nodes: Sequence[Node], leaves: Sequence[str], values: np.ndarray
) -> list[np.ndarray]:
    """Return the values of `leaves`, float64[n], that `nodes` compute from the elements `values` of a
    tensor."""
    rank = len(graph.types[name].shape)
    known = {name: values.astype(np.float32).reshape(-1, *[1] * (rank - 1))}
    for node in nodes:
        arrays = [known[part] if part in known else graph.constants[part] for part in node.inputs if part]
        (known[node.result],) = evaluate(node.op, arrays, node.attributes)
    return [known[leaf].astype(np.float64).reshape(values.shape) for leaf in leaves]
