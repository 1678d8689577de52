"""Observation of a graph's values on samples: extremes and histograms.

The bins of a histogram are the leading bits of a float32: sign, exponent and six bits of the mantissa. They
need no range in advance, and are at most 1.6 % wide.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from vdla.compiler.graph.interpret import check_inputs, interpret
from vdla.compiler.graph.nodes import Graph, GraphError, Node

DROPPED_BITS = 17
BINS = 1 << 32 - DROPPED_BITS
INFINITE = int(np.float32(-np.inf).view(np.uint32)) >> DROPPED_BITS
"""The bin of -infinity, as of elements that a mask excludes."""
INSIDE = (0.25, 0.75)  # relative positions of the points that represent a bin


@dataclass
class Observed:
    """The elements of a value on all samples.

    Attributes:
        least, greatest: the extremes.
        counts: float64[BINS], the number of elements in each bin.
        weights: float64[BINS], the summed weights of the errors of these elements.
    """

    least: float = np.inf
    greatest: float = -np.inf
    counts: np.ndarray = field(default_factory=lambda: np.zeros(BINS))
    weights: np.ndarray = field(default_factory=lambda: np.zeros(BINS))

    @property
    def is_finite(self) -> bool:
        """Whether no element is infinite."""
        return bool(np.isfinite(self.least) and np.isfinite(self.greatest))

    def add(self, array: np.ndarray, weight: np.ndarray | None) -> None:
        """Add the elements of a float32 array.

        Args:
            weight: the weight of each element's error, broadcast to `array`; None: 1.
        """
        bits = np.ascontiguousarray(array).view(np.uint32) >> DROPPED_BITS
        places = bits.reshape(-1).astype(np.intp)  # else both calls of bincount would convert
        counts = np.bincount(places, minlength=BINS)
        self.counts += counts
        if weight is None:
            self.weights += counts
        else:
            wide = np.broadcast_to(weight, array.shape).reshape(-1)
            self.weights += np.bincount(places, wide, minlength=BINS)
        self.least = min(self.least, float(array.min()))
        self.greatest = max(self.greatest, float(array.max()))

    def points(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return points that represent the finite elements, in ascending order, with counts and weights.

        Each of the three arrays is float64[n].
        """
        (places,) = np.nonzero(self.counts)
        places = places[places != INFINITE]
        low = (places.astype(np.uint32) << DROPPED_BITS).view(np.float32).astype(np.float64)
        high = ((places + 1).astype(np.uint32) << DROPPED_BITS).view(np.float32).astype(np.float64)
        high = np.where(np.isfinite(high), high, low)
        values = np.concatenate([low + (high - low) * share for share in INSIDE])
        order = np.argsort(values)
        counts, weights = (
            np.tile(each[places] / len(INSIDE), len(INSIDE))[order] for each in (self.counts, self.weights)
        )
        return np.clip(values[order], self.least, self.greatest), counts, weights


def observe(
    graph: Graph,
    samples: Iterable[Mapping[str, np.ndarray]],
    weights: Mapping[str, np.ndarray | None],
    leaders: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Observed]:
    """Run a graph on samples; return the observations of values by name.

    Args:
        weights: for each value to observe, the weights of its elements' errors, broadcast to the value; None:
            equal weights.
        leaders: for values that are observed together with another value, that value.

    Raises:
        GraphError: there are no samples, an input is not finite, or an observed value is NaN.
    """
    observed, place = {leaders.get(name, name): Observed() for name in weights}, -1

    def add(values: Mapping[str, np.ndarray]) -> None:
        for name, array in values.items():
            if name in weights and array.size:
                observed[leaders.get(name, name)].add(array, weights[name])

    def watch(node: Node, values: Mapping[str, np.ndarray]) -> None:
        for name, array in values.items():
            if name in weights and array.size and np.isnan(array.max()):
                raise GraphError(
                    f"{node}: value {name!r} is NaN (not a number) on sample {place}, in float, before "
                    "quantisation; leave this sample out, or give samples like the training data"
                )
        add(values)

    add({name: array for name, array in graph.constants.items() if name in weights})
    for place, sample in enumerate(samples):
        check_inputs(graph, sample)
        _check_finite(sample, place)
        add(sample)
        interpret(graph, sample, watch)
    if place < 0:
        raise GraphError(f"graph {graph.name} cannot be calibrated without samples")
    return observed


def _check_finite(sample: Mapping[str, np.ndarray], place: int) -> None:
    """Refuse a sample that has an infinite element or a NaN."""
    for name, array in sample.items():
        if not np.isfinite(array).all():
            raise GraphError(f"value {name!r} is not finite on sample {place}")
