"""Sweeps that tune within each point."""

import json
import os
from dataclasses import replace

import pandas as pd
import pytest

from tests.explore.sweep.sweeps import SPECIFICATION, plan
from vdla.compiler.codegen.tuned.log import TuningLog, read_log, write_log
from vdla.compiler.network.stages import layers_of, parts_of
from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.folder import JOURNAL, LAYERS, POINTS
from vdla.explore.sweep.run import backend_of, sweep
from vdla.explore.sweep.tables import TUNING
from vdla.explore.tune.proposals import making
from vdla.explore.tune.session import Session
from vdla.explore.tune.settings import Settings
from vdla.explore.workers.backends import here
from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.target import TARGETS

LAYER = {"conv": {"size": 14, "channels": 32, "outputs": 16}, "name": "layer"}
SWEEP = {
    "base": SPECIFICATION["base"],
    "parameters": {"memory.latency": [16, 128], "inp_buffer_bytes": ["2KiB", "8KiB"]},
    "workloads": [LAYER],
}
POINTS_OF_SWEEP = 4


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Return a log of the layer on preset small."""
    path = tmp_path_factory.mktemp("log") / "warm.jsonl"
    target, graph = TARGETS["small"], plan(**SWEEP).job.workloads[0].graph()
    opened = TuningLog(path)
    try:
        layers = layers_of(parts_of(graph, target)[1])
        Session(layers, target, opened, Settings("random", 0, 24), making("random")).run(here)
    finally:
        opened.close()
    return path


def tuned(log, **changes):
    """Return the planned sweep with tuning."""
    return plan(**SWEEP, tune={"trials": 8, "log": str(log)} | changes)


@pytest.fixture(scope="module")
def whole(log, tmp_path_factory):
    """Return the folder of a finished sweep with tuning."""
    folder = tmp_path_factory.mktemp("sweep") / "tuned"
    done = sweep(tuned(log), folder, backend_of(2, None))
    assert (done.done, done.failed) == (POINTS_OF_SWEEP, 0)
    return folder


@pytest.fixture(scope="module")
def untuned(tmp_path_factory):
    """Return the folder of the same sweep without tuning."""
    folder = tmp_path_factory.mktemp("sweep") / "untuned"
    sweep(plan(**SWEEP), folder, backend_of(2, None))
    return folder


def tables(folder):
    """Return the bytes of both tables."""
    return [(folder / name).read_bytes() for name in (POINTS, LAYERS)]


def test_cycles_are_those_of_the_best_choices_beside_the_compilers_own(whole, untuned):
    points, before = (pd.read_parquet(folder / POINTS) for folder in (whole, untuned))
    assert list(points.default_cycles) == list(before.cycles)
    assert (points.cycles <= points.default_cycles).all()
    assert (points.cycles < points.default_cycles).any(), "the sweep was chosen so that tuning gains"
    assert ((points.tuned_tasks == 1) == (points.cycles < points.default_cycles)).all()
    assert points.trials.between(1, 8).all()
    assert (points.seconds == points.cycles / 50e6).all()
    layers = pd.read_parquet(whole / LAYERS)
    assert (layers.groupby("point").cycles.sum() == points.set_index("point").cycles).all()
    assert (points.macs == before.macs).all()


def test_without_the_table_nothing_of_tuning_is_kept(untuned):
    columns = list(pd.read_parquet(untuned / POINTS).columns)
    assert not set(TUNING) & set(columns)
    text = "".join(path.read_text() for path in (untuned / JOURNAL, untuned / "sweep.json"))
    assert not [name for name in (*TUNING, "tune") if f'"{name}"' in text]


def test_the_number_of_workers_and_interruptions_do_not_matter(whole, log, tmp_path):
    def interrupt(progress):
        if progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(tuned(log), tmp_path, backend_of(1, None), interrupt)
    done = sweep(tuned(log), tmp_path, backend_of(1, None))
    assert done.resumed == 2
    assert tables(tmp_path) == tables(whole)


def test_points_are_measured_alike_in_any_order(whole, log):
    planned = tuned(log)
    rows = {point.number: planned.job.measure(point).rows for point in planned.space.points()[::-1]}
    points = pd.read_parquet(whole / POINTS)
    for name in ("cycles", *TUNING):
        assert list(points[name]) == [getattr(rows[number][0], name) for number in points.point]


def test_a_sweep_with_another_log_is_refused(whole, log, tmp_path):
    kept = log.read_bytes()
    try:
        write_log(read_log(log).records[:12], log)
        with pytest.raises(SweepError, match=r"holds another sweep: tune_log is .* there and .* here"):
            sweep(tuned(log), whole, backend_of(1, None))
    finally:
        log.write_bytes(kept)
    with pytest.raises(SweepError, match=r"holds another sweep: tune\.trials is 8 there and 9 here"):
        sweep(tuned(log, trials=9), whole, backend_of(1, None))
    (tmp_path / "copy.jsonl").write_bytes(kept)
    assert tuned(tmp_path / "copy.jsonl").identity().warm == tuned(log).identity().warm


def test_a_sweep_without_a_log_tunes_too(untuned, tmp_path):
    sweep(plan(**SWEEP, tune={"trials": 4, "explorer": "random"}), tmp_path, backend_of(2, None))
    points = pd.read_parquet(tmp_path / POINTS)
    assert list(points.default_cycles) == list(pd.read_parquet(untuned / POINTS).cycles)
    assert "tune_log" not in json.loads((tmp_path / "sweep.json").read_text())


def test_a_tuned_network_that_is_no_faster_keeps_the_compilers_own(monkeypatch, log):
    from vdla.explore.sweep import measure

    real = measure.run
    runs = []

    def slower(plan):
        runs.append(real(plan))
        return replace(runs[-1], cycles=runs[-1].cycles * len(runs))

    monkeypatch.setattr(measure, "run", slower)
    planned = tuned(log)
    for point in planned.space.points():
        runs.clear()
        (row,) = planned.job.measure(point).rows
        assert (row.status, row.cycles, row.tuned_tasks) == ("ok", row.default_cycles, 0)


def test_a_log_that_is_missing_damaged_or_of_other_targets_is_one_line(log, tmp_path):
    other = tmp_path / "other.jsonl"
    with pytest.raises(SweepError, match=r"^tune\.log: none\.jsonl does not exist in \. or in the current"):
        tuned("none.jsonl")
    other.write_bytes(b"x\n")
    with pytest.raises(SweepError, match=r"^tune\.log: .*other\.jsonl, line 1 is damaged"):
        tuned(other)
    strange = replace(TARGETS["small"], memory=MemoryParameters(latency=1234)).timing_digest
    write_log([replace(record, timing=strange) for record in read_log(log).records], other)
    with pytest.raises(SweepError, match=r"teaches nothing: no task has 8 of its 25 records"):
        tuned(other)
    write_log([], other)
    with pytest.raises(SweepError, match="of its 0 records on a preset"):
        tuned(other)


def test_a_model_that_learns_needs_its_package(monkeypatch):
    monkeypatch.setattr("vdla.hw.spec.extras.find_spec", lambda package: None)
    with pytest.raises(ToolError, match=r'needs xgboost, .*"vdla\[tune\]", or give another tune\.explorer$'):
        plan(**SWEEP, tune={})
    assert plan(**SWEEP, tune={"explorer": "random"}).job.tuning is not None


def test_the_current_folder_may_hold_the_log(log, monkeypatch):
    monkeypatch.chdir(os.path.dirname(log))
    assert tuned(log.name).job.tuning.warm
