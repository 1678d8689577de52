"""The quantisation error of each value of a quantised graph, compared with the float graph."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, log10

import numpy as np

from vdla.compiler.graph.interpret import all_values
from vdla.compiler.graph.nodes import Graph


@dataclass(frozen=True, slots=True)
class LayerError:
    """The error of one value.

    Attributes:
        value: its name in the float graph.
        op: the operator that makes it.
        signal_to_noise_db: power of the float values by that of the difference; infinite where there is none.
    """

    value: str
    op: str
    signal_to_noise_db: float


def layer_errors(
    graph: Graph, quantised: Graph, samples: Iterable[Mapping[str, np.ndarray]]
) -> tuple[LayerError, ...]:
    """Run both graphs and compare every value that the quantised graph still has; errors accumulate.

    Args:
        graph: the float graph that was given to `quantise`, which returned `quantised`.
        samples: inputs, one set for each run.
    """
    counterparts = _counterparts(graph, quantised)
    signal, noise = dict.fromkeys(counterparts, 0.0), dict.fromkeys(counterparts, 0.0)
    for sample in samples:
        wanted, found = all_values(graph, sample), all_values(quantised, sample)
        for name, other in counterparts.items():
            exact = wanted[name].astype(np.float64)
            signal[name] += float(np.square(exact).sum())
            noise[name] += float(np.square(exact - found[other]).sum())
    return tuple(
        LayerError(node.outputs[0], node.op, ratio_db(signal[node.outputs[0]], noise[node.outputs[0]]))
        for node in graph.nodes
        if node.outputs[0] in counterparts
    )


def ratio_db(signal: float, noise: float) -> float:
    """Return the ratio of two powers in decibels."""
    if not noise:
        return inf
    return 10 * log10(signal / noise) if signal else -inf


def print_errors(errors: Iterable[LayerError]) -> str:
    """Return a table, one line for each value."""
    return "".join(f"{error.signal_to_noise_db:8.1f} dB  {error.op:20} {error.value}\n" for error in errors)


def _counterparts(graph: Graph, quantised: Graph) -> dict[str, str]:
    """Return what stands in the quantised graph for each float value: behind its pair where there is one."""
    narrow = {node.inputs[0]: node.outputs[0] for node in quantised.nodes if node.op == "QuantizeLinear"}
    again = {node.inputs[0]: node.outputs[0] for node in quantised.nodes if node.op == "DequantizeLinear"}
    made = [node.outputs[0] for node in graph.nodes if graph.types[node.outputs[0]].dtype == "float32"]
    return {name: again[narrow[name]] if name in narrow else name for name in made if name in quantised.types}
