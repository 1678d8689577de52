"""Layers along a run: each launch with its layers, whose cycles follow on each other."""

import numpy as np
import pytest

from tests.compiler.network.compiled import handmade
from tests.runtime.session.test_report import TITLES, report_of
from vdla.runtime.session.traced import traced


@pytest.mark.parametrize("title", TITLES)
def test_launches_have_the_layers_of_the_report_one_after_the_other(title):
    plan, (report, outcome) = handmade(title)[1], report_of(title)
    found = list(traced(plan, outcome, report))
    assert [ran for ran, _ in found] == list(outcome.launches)
    layers = [layer for _, layers in found for layer in layers]
    reports = [layer for layer in report.layers if layer.on == "accelerator"]
    assert [(layer.name, layer.op, layer.end - layer.begin) for layer in layers] == [
        (one.name, one.op, one.cycles) for one in reports
    ]
    for ran, own in found:
        assert [layer.begin for layer in own] == [0, *(layer.end for layer in own[:-1])]
        assert own[-1].end == ran.result.cycles


@pytest.mark.parametrize("title", TITLES)
def test_instructions_belong_to_one_layer(title):
    plan, (report, outcome) = handmade(title)[1], report_of(title)
    for ran, layers in traced(plan, outcome, report):
        own = np.concatenate([layer.instructions for layer in layers])
        assert len(own) == len(set(own.tolist()))
        assert set(own.tolist()) <= set(range(len(ran.timing.program)))
