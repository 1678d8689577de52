"""`scripts/run_on_core.py`: what counts as a difference, its line, and its exit status."""

from dataclasses import replace

import numpy as np
import pytest
import run_on_core
from click.testing import CliRunner
from exported.core import CoreAnswer

from vdla.runtime.session.session import Outcome

ROW = run_on_core.Row(0, (1001, 999), (1000, 1000), (5000, 5000), 4321)
SCORES = np.array([1, 2], np.float32)


def test_a_line_states_the_cycles_of_accelerator_and_core():
    assert ROW.line("net") == (
        "net: 2 inputs, 0 runs differ; accelerator 999 to 1,001 cycles, 1,000 predicted, at most 0.10 % apart; "
        "whole run 5,000 cycles; program 4,321 bytes"
    )


@pytest.mark.parametrize(
    ("code", "scores", "same"),
    [
        ("VDLA_OK", SCORES, True),
        ("VDLA_OK", np.nextafter(SCORES, np.float32(9)), False),
        ("VDLA_ERROR_TIMEOUT", SCORES, False),
    ],
)
def test_a_run_is_the_same_to_the_bit_and_without_error(code, scores, same):
    answer = CoreAnswer(code, 1000, {"scores": scores}, 5000)
    assert run_on_core._is_same(answer, Outcome({"scores": SCORES}, (), 0.0)) == same


@pytest.mark.parametrize(
    ("changed", "most", "status"),
    [
        ({}, "0.2", 0),
        ({}, "0.05", 1),
        ({"different": 1}, "0.2", 1),
    ],
)
def test_a_difference_gives_status_1(monkeypatch, changed, most, status):
    monkeypatch.setattr(run_on_core, "module_and_inputs", lambda *_: (None, []))
    monkeypatch.setattr(run_on_core, "compare", lambda *_: replace(ROW, **changed))
    result = CliRunner().invoke(run_on_core.main, ["--most", most])
    assert result.exit_code == status, result.output
    assert result.output.startswith("digits on tiny: 2 inputs, ")
