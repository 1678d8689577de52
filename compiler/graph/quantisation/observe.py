"""What samples show of a graph's values: extremes and histograms.

The bins of a histogram are those of the first bits of a float32: sign, exponent and six bits of the mantissa.
So they need no range, and are 1.6 % wide at most.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from vdla.compiler.graph.interpret import check_inputs, interpret
from vdla.compiler.graph.nodes import Graph, GraphError, Node

DROPPED_BITS = 17
BINS = 1 << 32 - DROPPED_BITS
INSIDE = (0.25, 0.75)  # where points stand in their bin


@dataclass
class Observed:
    """The elements of a value on all samples.

    Attributes:
        least, greatest: of all.
        counts: float64[BINS], of elements in each bin.
        weights: float64[BINS], their weights: what the error of an element counts.
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
        """Add elements, each with its weight, which broadcasts; without one it is 1."""
        bits = np.ascontiguousarray(array).view(np.uint32) >> DROPPED_BITS
        places = bits.reshape(-1).astype(np.intp)  # which bincount would do each time
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
        """Return points in ascending order that stand for the elements, how many, and their weight:
        float64[n] each."""
        (places,) = np.nonzero(self.counts)
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
    graph: Graph, samples: Iterable[Mapping[str, np.ndarray]], weights: Mapping[str, np.ndarray | None]
) -> dict[str, Observed]:
    """Run a graph on samples; return what they show of values.

    Args:
        weights: for each value to look at, what the error of an element counts, broadcast to the value; None:
            all count alike.

    Raises:
        GraphError: there are no samples, an input is not finite, or one of the values is NaN.
    """
    found = {name: Observed() for name in weights}
    given = False
    for place, sample in enumerate(samples):
        given = True
        check_inputs(graph, sample)
        for name, array in sample.items():
            if not np.isfinite(array).all():
                raise GraphError(f"value {name!r} is not finite on sample {place}")
        _add(found, weights, sample)
        interpret(graph, sample, partial(_watch, found, weights, place))
    if not given:
        raise GraphError(f"graph {graph.name} cannot be calibrated without samples")
    return found


def _watch(
    observed: Mapping[str, Observed],
    weights: Mapping[str, np.ndarray | None],
    place: int,
    node: Node,
    values: Mapping[str, np.ndarray],
) -> None:
    """Add the values of a node on the sample at `place`; refuse NaN."""
    for name, array in values.items():
        if name in observed and array.size and np.isnan(array.max()):
            raise GraphError(
                f"{node}: value {name!r} is NaN (not a number) on sample {place}, in float, before "
                "quantisation; leave this sample out, or give samples like those of the training"
            )
    _add(observed, weights, values)


def _add(
    found: Mapping[str, Observed], weights: Mapping[str, np.ndarray | None], values: Mapping[str, np.ndarray]
) -> None:
    for name, array in values.items():
        if name in found and array.size:
            found[name].add(array, weights[name])
