"""`scripts/run_exported.py`: what counts as a difference, and its exit status."""

import numpy as np
import pytest
import run_exported
from click.testing import CliRunner

from tests.export.graphs import MOBILE, exported
from vdla.runtime.module.file import save

FLOATS = np.array([1, -4, 0], np.float32)


@pytest.mark.parametrize(
    ("found", "expected", "difference"),
    [
        (np.array([3, -128], np.int8), np.array([3, 127], np.int8), 255),
        (FLOATS, FLOATS, 0),
        (np.nextafter(FLOATS, np.float32(9)), FLOATS, 0.5),
        (FLOATS[:0], FLOATS[:0], 0),
    ],
)
def test_a_difference_counts_integers_or_units_of_the_greatest_float(found, expected, difference):
    assert run_exported.distance(found, expected) == difference


@pytest.mark.parametrize(("worst", "status"), [(0.0, 0), (64.0, 0), (65.0, 1)])
def test_a_difference_beyond_the_limit_gives_status_1(tmp_path, monkeypatch, worst, status):
    save(exported(MOBILE), tmp_path / "net.vdla")
    monkeypatch.setattr(
        run_exported, "compared", lambda *_: ("ran", {next(iter(exported(MOBILE).outputs)): worst})
    )
    result = CliRunner().invoke(run_exported.main, [str(tmp_path / "net.vdla")])
    assert result.exit_code == status
    assert result.output.startswith("net: ran; greatest differences: ")
