"""The stream by which the benchmark of the simulator shows growth."""

import importlib
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture(scope="module")
def bench():
    """Return scripts/bench_sim.py, which sets the threads of libraries that are imported already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        for library in ("OMP", "OPENBLAS", "MKL"):
            patch.setenv(f"{library}_NUM_THREADS", "1")
        yield importlib.import_module("bench_sim")


def test_growth_is_measured_on_streams_that_run_to_their_end(bench, monkeypatch):
    monkeypatch.setattr(bench, "LENGTHS", (8, 400))
    short, long = bench.bench_growth(runs=1)
    assert (short["instructions"], long["instructions"]) == (9, 401)
    assert long["cycles"] > 10 * short["cycles"]
