"""The quantisation error of each value of a quantised graph, compared with the float graph."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isinf

import numpy as np

from vdla.compiler.graph.interpret import all_values
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.quantisation.noise import ratio_db
from vdla.compiler.graph.quantisation.sensitivity import Contribution

MOST_SHOWN = 5  # of the layers that cost most


@dataclass(frozen=True, slots=True)
class LayerError:
    """The error of one value.

    Attributes:
        value: its name in the float graph.
        op: the operator that makes it.
        signal_to_noise_db: power of the float values by that of the difference; infinite where there is no
            difference, negative infinity where there is no signal, or a value is infinite or no number on one
            side only.
    """

    value: str
    op: str
    signal_to_noise_db: float


def layer_errors(
    graph: Graph, quantised: Graph, samples: Iterable[Mapping[str, np.ndarray]]
) -> tuple[LayerError, ...]:
    """Run both graphs and compare every value that the quantised graph still has; errors accumulate.

    Args:
        graph: the float graph that was `quantised` was made of.
        samples: inputs, one set for each run.
    """
    counterparts = _counterparts(graph, quantised)
    signal, noise = dict.fromkeys(counterparts, 0.0), dict.fromkeys(counterparts, 0.0)
    for sample in samples:
        wanted, found = all_values(graph, sample), all_values(quantised, sample)
        for name, other in counterparts.items():
            powers = _powers(wanted[name].astype(np.float64), found[other].astype(np.float64))
            signal[name], noise[name] = signal[name] + powers[0], noise[name] + powers[1]
    return tuple(
        LayerError(node.outputs[0], node.op, ratio_db(signal[node.outputs[0]], noise[node.outputs[0]]))
        for node in graph.nodes
        if node.outputs[0] in counterparts
    )


def _powers(wanted: np.ndarray, found: np.ndarray) -> tuple[float, float]:
    """Return the power of the finite wanted values, and that of the differences: infinite where a value is
    finite on one side only, or infinite of another sign."""
    same = (wanted == found) | (np.isnan(wanted) & np.isnan(found))
    finite = np.isfinite(wanted)
    signal = float(np.square(wanted[finite]).sum())
    if not (same | (finite & np.isfinite(found))).all():
        return signal, inf
    return signal, float(np.square(wanted[~same] - found[~same]).sum())


def print_errors(errors: Iterable[LayerError]) -> str:
    """Return a table, one line for each value; "exact" where there is no noise, "lost" where there is nothing
    but noise."""
    return "".join(
        f"{_decibels(error.signal_to_noise_db):>11}  {error.op:20} {error.value}\n" for error in errors
    )


def _decibels(ratio: float) -> str:
    if isinf(ratio):
        return "exact" if ratio > 0 else "lost"
    return f"{ratio:.1f} dB"


def print_contributions(found: Sequence[Contribution]) -> str:
    """Return the layers that cost most, one line for each: its share of the errors that all layers make
    alone, and of the multiply-accumulates; "" where no layer makes one."""
    total, macs = sum(one.error for one in found), max(1, sum(one.macs for one in found))
    if not total:
        return ""
    lines = [
        f"error of the results, by layers alone ({MOST_SHOWN} at most); --float-layers keeps them in float:"
    ]
    for one in found[:MOST_SHOWN]:
        share = 1.0 if isinf(one.error) else 0.0 if isinf(total) else one.error / total
        lines.append(f"{share:8.1%}  {one.macs / macs:6.1%} of the MACs  {one.layer}")
    return "\n".join(lines) + "\n"


def _counterparts(graph: Graph, quantised: Graph) -> dict[str, str]:
    """Return what stands in the quantised graph for each float value: behind its pair where there is one."""
    narrow = {node.inputs[0]: node.outputs[0] for node in quantised.nodes if node.op == "QuantizeLinear"}
    again = {node.inputs[0]: node.outputs[0] for node in quantised.nodes if node.op == "DequantizeLinear"}
    made = [node.outputs[0] for node in graph.nodes if graph.types[node.outputs[0]].dtype == "float32"]
    return {name: again[narrow[name]] if name in narrow else name for name in made if name in quantised.types}
