"""The stream by which the benchmark of the simulator shows growth."""

import pytest


@pytest.fixture(scope="module")
def bench(script, on_one_thread):
    """Return scripts/bench_sim.py."""
    return script("bench_sim")


def test_growth_is_measured_on_streams_that_run_to_their_end(bench, monkeypatch):
    monkeypatch.setattr(bench, "LENGTHS", (8, 400))
    short, long = bench.bench_growth(runs=1)
    assert (short["instructions"], long["instructions"]) == (9, 401)
    assert long["cycles"] > 10 * short["cycles"]
