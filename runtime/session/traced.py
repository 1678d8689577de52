"""The layers of each launch of a run, with their cycles and instructions: for pages and timelines."""

from collections.abc import Iterator, Sequence

import numpy as np

from vdla.runtime.module.plan import HostStep, Layer, Plan
from vdla.runtime.session.report import LayerReport, Report
from vdla.runtime.session.session import Outcome, Ran
from vdla.sim.trace.layers import TracedLayer


def traced(plan: Plan, outcome: Outcome, report: Report) -> Iterator[tuple[Ran, tuple[TracedLayer, ...]]]:
    """Yield each launch of a run on the cycle device with its layers.

    Args:
        plan: of the network.
        outcome: of its run.
        report: the report of that run.
    """
    launches, first = iter(outcome.launches), 0
    for step in plan.steps:
        count = 1 if isinstance(step, HostStep) else len(step.layers)
        if not isinstance(step, HostStep):
            ran = next(launches)
            yield ran, tuple(_layers(ran, step.layers, report.layers[first : first + count]))
        first += count


def _layers(ran: Ran, layers: Sequence[Layer], reports: Sequence[LayerReport]) -> Iterator[TracedLayer]:
    begin = 0
    for layer, report in zip(layers, reports, strict=True):
        end, labels = begin + (report.cycles or 0), ran.launch.stream.labels
        instructions = labels[layer.label] if layer.label else np.zeros(0, np.int64)
        yield TracedLayer(layer.name, layer.op, begin, end, instructions)
        begin = end
