"""Calibration: the magnitudes of a graph's values on sample inputs."""

from collections.abc import Iterable, Mapping

import numpy as np

from vdla.compiler.graph.interpret import check_inputs, interpret
from vdla.compiler.graph.nodes import Graph, GraphError


def calibrate(
    graph: Graph, samples: Iterable[Mapping[str, np.ndarray]], percentile: float = 100.0
) -> dict[str, float]:
    """Return the magnitude of every float value: inputs and outputs of nodes. It is infinite where a value
    holds infinite numbers, as masks do.

    Args:
        samples: inputs for the graph, one set for each run.
        percentile: the share of a value's elements, in percent, that are no larger; 100 takes the largest.
            The greatest over all samples counts.

    Raises:
        GraphError: there are no samples, the percentile is outside 0 to 100, an input is not finite, or a
            value is NaN.
    """
    if not 0 < percentile <= 100:
        raise GraphError(f"percentile {percentile} is outside 0..100")
    magnitudes: dict[str, float] = {}
    for sample in samples:
        check_inputs(graph, sample)
        for name, array in sample.items():
            if not np.isfinite(array).all():
                raise GraphError(f"value {name!r} is not finite on a sample")
        _enlarge(magnitudes, sample, percentile)
        interpret(graph, sample, lambda _, made: _enlarge(magnitudes, made, percentile))
    if not magnitudes:
        raise GraphError(f"graph {graph.name} cannot be calibrated without samples")
    return magnitudes


def _enlarge(magnitudes: dict[str, float], values: Mapping[str, np.ndarray], percentile: float) -> None:
    for name, array in values.items():
        if array.dtype == np.float32:
            sizes = np.abs(array)
            largest = sizes.max(initial=0.0)
            if np.isnan(largest):
                raise GraphError(f"value {name!r} is not a number (NaN) on a sample")
            exact = percentile == 100 or np.isinf(largest) or not sizes.size
            found = largest if exact else np.percentile(sizes, percentile)
            magnitudes[name] = max(float(found), magnitudes.get(name, 0.0))
