"""The quantisation error of each value of a quantised graph relative to the float graph."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isinf

import numpy as np

from vdla.compiler.graph.interpret import all_values
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.quantisation.judge import ratio_db
from vdla.compiler.graph.quantisation.sensitivity import Contribution

MOST_SHOWN = 5  # layers in the table of the costliest


@dataclass(frozen=True, slots=True)
class LayerError:
    """The quantisation error of a value.

    Attributes:
        value: its name in the float graph.
        op: the operator that computes it.
        signal_to_noise_db: ratio of the power of the float values to the power of the difference, in dB.
            Infinite if there is no difference. Negative infinity if the float values are all 0, or if an
            element is infinite or NaN in only one graph.
    """

    value: str
    op: str
    signal_to_noise_db: float


def layer_errors(
    graph: Graph, quantised: Graph, samples: Iterable[Mapping[str, np.ndarray]]
) -> tuple[LayerError, ...]:
    """Run both graphs and compare every value that the quantised graph still computes; errors accumulate.

    Args:
        graph: the float graph that was quantised.
        quantised: the quantised graph.
        samples: a set of inputs for each run.
    """
    counterparts = _counterparts(graph, quantised)
    signal, noise = dict.fromkeys(counterparts, 0.0), dict.fromkeys(counterparts, 0.0)
    for sample in samples:
        float_values, quantised_values = all_values(graph, sample), all_values(quantised, sample)
        for name, counterpart in counterparts.items():
            powers = _powers(
                float_values[name].astype(np.float64), quantised_values[counterpart].astype(np.float64)
            )
            signal[name], noise[name] = signal[name] + powers[0], noise[name] + powers[1]
    return tuple(
        LayerError(node.result, node.op, ratio_db(signal[node.result], noise[node.result]))
        for node in graph.nodes
        if node.result in counterparts
    )


def _powers(expected: np.ndarray, actual: np.ndarray) -> tuple[float, float]:
    """Return the power of the finite expected values and the power of the differences.

    The latter is infinite if an element is finite on only one side, or infinite with opposite signs.
    """
    same = (expected == actual) | (np.isnan(expected) & np.isnan(actual))
    finite = np.isfinite(expected)
    signal = float(np.square(expected[finite]).sum())
    if not (same | (finite & np.isfinite(actual))).all():
        return signal, inf
    return signal, float(np.square(expected[~same] - actual[~same]).sum())


def print_errors(errors: Iterable[LayerError]) -> str:
    """Return a table with a line for each value; "exact" means no noise, "lost" means no signal."""
    return "".join(
        f"{_decibels(error.signal_to_noise_db):>11}  {error.op:20} {error.value}\n" for error in errors
    )


def _decibels(ratio: float) -> str:
    if isinf(ratio):
        return "exact" if ratio > 0 else "lost"
    return f"{ratio:.1f} dB"


def print_contributions(layers: Sequence[Contribution]) -> str:
    """Return a table of the costliest layers; "" if no layer causes an error.

    A line shows a layer's share of the summed errors of all layers, each quantised alone, and its share of
    the multiply-accumulates.
    """
    total, macs = sum(layer.error for layer in layers), max(1, sum(layer.macs for layer in layers))
    if not total:
        return ""
    lines = [
        f"error of the results, by layers alone ({MOST_SHOWN} at most); --float-layers keeps them in float:"
    ]
    for layer in layers[:MOST_SHOWN]:
        share = 1.0 if isinf(layer.error) else 0.0 if isinf(total) else layer.error / total
        lines.append(f"{share:8.1%}  {layer.macs / macs:6.1%} of the MACs  {layer.layer}")
    return "\n".join(lines) + "\n"


def _counterparts(graph: Graph, quantised: Graph) -> dict[str, str]:
    """Return the value of the quantised graph for each float value: the dequantised value if it is
    quantised."""
    narrow = {node.inputs[0]: node.result for node in quantised.nodes if node.op == "QuantizeLinear"}
    again = {node.inputs[0]: node.result for node in quantised.nodes if node.op == "DequantizeLinear"}
    reals = [node.result for node in graph.nodes if graph.types[node.result].dtype == "float32"]
    kept = [name for name in reals if name in quantised.types]
    return {name: again[narrow[name]] if name in narrow else name for name in kept}
