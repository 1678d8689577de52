"""Calibration: the magnitudes of a graph's values on sample inputs."""

from collections.abc import Iterable, Mapping

import numpy as np

from vdla.compiler.graph.interpret import check_inputs, interpret
from vdla.compiler.graph.nodes import Graph, GraphError


def calibrate(
    graph: Graph, samples: Iterable[Mapping[str, np.ndarray]], percentile: float = 100.0
) -> dict[str, float]:
    """Return the magnitude of every float value: inputs and outputs of nodes.

    Args:
        samples: inputs for the graph, one set for each run.
        percentile: the share of a value's elements, in percent, that are no larger; 100 takes the largest.
            The greatest over all samples counts.

    Raises:
        GraphError: there are no samples, the percentile is outside 0 to 100, or a value is not finite.
    """
    if not 0 < percentile <= 100:
        raise GraphError(f"percentile {percentile} is outside 0..100")
    magnitudes: dict[str, float] = {}
    for sample in samples:
        check_inputs(graph, sample)
        _enlarge(magnitudes, sample, percentile)
        interpret(graph, sample, lambda _, made: _enlarge(magnitudes, made, percentile))
    if not magnitudes:
        raise GraphError(f"graph {graph.name} cannot be calibrated without samples")
    return magnitudes


def _enlarge(magnitudes: dict[str, float], values: Mapping[str, np.ndarray], percentile: float) -> None:
    for name, array in values.items():
        if array.dtype == np.float32:
            sizes = np.abs(array)
            if not np.isfinite(sizes.max()):
                raise GraphError(f"value {name!r} is not finite on a sample")
            found = sizes.max() if percentile == 100 else np.percentile(sizes, percentile)
            magnitudes[name] = max(float(found), magnitudes.get(name, 0.0))
