"""Layers along a run: each launch with its layers, whose cycles follow on each other."""

import numpy as np
import pytest

from tests.compiler.network.compiled import handmade
from tests.runtime.session.test_report import TITLES, report_of
from vdla.runtime.session.traced import traced


@pytest.mark.parametrize("title", TITLES)
def test_launches_have_the_layers_of_the_report_one_after_the_other(title):
    plan, (report, outcome) = handmade(title)[1], report_of(title)
    launch_traces = list(traced(plan, outcome, report))
    assert [ran for ran, _ in launch_traces] == list(outcome.launches)
    layers = [layer for _, layers in launch_traces for layer in layers]
    reports = [layer for layer in report.layers if layer.on == "accelerator"]
    assert [(layer.name, layer.op, layer.end - layer.begin) for layer in layers] == [
        (layer_report.name, layer_report.op, layer_report.cycles) for layer_report in reports
    ]
    for ran, launch_layers in launch_traces:
        assert [layer.begin for layer in launch_layers] == [0, *(layer.end for layer in launch_layers[:-1])]
        assert launch_layers[-1].end == ran.result.cycles


@pytest.mark.parametrize("title", TITLES)
def test_instructions_belong_to_one_layer(title):
    plan, (report, outcome) = handmade(title)[1], report_of(title)
    for ran, layers in traced(plan, outcome, report):
        instructions = np.concatenate([layer.instructions for layer in layers])
        assert len(instructions) == len(set(instructions.tolist()))
        assert set(instructions.tolist()) <= set(range(len(ran.timing.program)))
