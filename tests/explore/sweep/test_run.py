"""Sweeps that run: their tables, and what becomes of points that fail, workers that die and runs that stop."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import duckdb
import pandas as pd
import pytest

from tests.explore.sweep.sweeps import SPECIFICATION, deadly, no_silicon, plan
from tests.limits import at_most
from vdla.compiler.network.stages import plan_of
from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.folder import JOURNAL, LAYERS, POINTS, opened
from vdla.explore.sweep.measure import run as run_plan
from vdla.explore.sweep.run import backend_of, planned, sweep
from vdla.explore.sweep.specification import from_values
from vdla.explore.sweep.tables import ENERGY
from vdla.explore.workers.backends import here
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.presets import SMALL, TINY
from vdla.hw.spec.target import MemoryParameters, Target
from vdla.hw.spec.target_files import to_toml


def identified():
    """Return what opens the folder of the sweep."""
    planned = plan()
    return planned.identity(), planned.space.key


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the folder of a finished sweep of eight points."""
    folder = tmp_path_factory.mktemp("sweep") / "whole"
    done = sweep(plan(), folder, backend_of(2, None))
    assert (done.done, done.total, done.failed, done.resumed) == (8, 8, 0, 0)
    return folder


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """Return the folder of a sweep that had two points, then another point, then the first alone."""
    folder = tmp_path_factory.mktemp("sweep") / "grown"
    first = {"memory.latency": [16, 64], "inp_buffer_bytes": ["16KiB"]}
    other = {"memory.latency": [32], "inp_buffer_bytes": ["8KiB"]}
    for changes in ({"parameters": first}, {"parameters": other}):
        sweep(plan(**changes), folder, here)
    done = sweep(plan(parameters=first, constraints=["memory.latency < 32"]), folder, here)
    assert (done.done, done.total, done.resumed, done.left_out) == (1, 1, 1, 2)
    return folder


def tables(folder):
    """Return the bytes of both tables."""
    return [(folder / name).read_bytes() for name in (POINTS, LAYERS)]


def test_the_table_of_points_has_parameters_figures_and_sources(whole):
    points = pd.read_parquet(whole / POINTS)
    assert list(points.columns) == [
        "point", "memory.latency", "inp_buffer_bytes", "workload", "cycles", "seconds", "utilisation", "macs",
        "bytes_read", "bytes_written", "energy_pj", "lut", "ff", "dsp", "block_ram", "mhz", "mhz_low",
        "mhz_high", "mhz_limited_by", "area_source", "clock_source", "digest", *ENERGY, "status",
    ]  # fmt: skip
    assert list(points.point) == list(range(8))
    assert set(points.status) == {"ok"}
    assert set(points.clock_source) == {"estimated"}
    assert set(zip(points.mhz_low, points.mhz_high, points.mhz_limited_by, strict=True)) == {
        (45, 60, "loader")
    }
    assert (points.seconds == points.cycles / 50e6).all()
    assert (points.macs == 4 * 4 * 8 * 8).all()
    assert (points.energy_pj > 0).all()
    parts = points[[name for name in points.columns if name.startswith("energy_") and name != "energy_pj"]]
    assert parts.sum(axis=1).to_numpy() == pytest.approx(points.energy_pj.to_numpy())
    assert (parts[["energy_dram_pj", "energy_wgt_pj", "energy_multipliers_pj"]] > 0).all(axis=None)
    assert points.digest.nunique() == 8
    assert (points.groupby("memory.latency").cycles.mean().diff().dropna() > 0).all()


def test_the_table_of_layers_adds_up_to_the_points(whole):
    points, layers = (pd.read_parquet(whole / name) for name in (POINTS, LAYERS))
    assert (layers.groupby("point").cycles.sum() == points.set_index("point").cycles).all()
    assert list(layers.name.unique()) == ["layer"]


def test_the_base_is_a_file_beside_the_specification_or_a_preset(tmp_path, monkeypatch):
    (tmp_path / "mine.toml").write_text(to_toml(Target(TINY, memory=MemoryParameters(latency=7))))
    (tmp_path / "small").write_text("this is no target")
    changes = SPECIFICATION | {"parameters": {"memory.depth": [4, 8]}}
    monkeypatch.chdir("/")
    for name, config, latency in (("mine.toml", TINY, 7), ("small", SMALL, MemoryParameters().latency)):
        base = planned(from_values(changes | {"base": {"config": name}}), tmp_path, None).job.base
        assert (base.config, base.memory.latency) == (config, latency)
    with pytest.raises(SweepError, match=r"base: .*other\.toml"):
        planned(from_values(changes | {"base": {"config": "other.toml"}}), tmp_path, None)


def test_duckdb_reads_the_tables(whole):
    query = f"select min(cycles), count(*) from '{whole / POINTS}' where status = 'ok'"
    ((cycles, count),) = duckdb.sql(query).fetchall()
    assert count == 8
    assert cycles == pd.read_parquet(whole / POINTS).cycles.min()


def test_cycles_are_those_of_a_run_of_the_plan(whole):
    planned = plan()
    row = pd.read_parquet(whole / POINTS).iloc[5]
    from vdla.explore.sweep.parameters import with_values

    target = with_values(planned.job.base, dict(planned.space.points()[5].values))
    report = run_plan(plan_of(planned.job.workloads[0].graph(), target))
    assert (report.cycles, report.energy_pj) == (row.cycles, row.energy_pj)


def test_a_finished_sweep_measures_nothing_again(whole):
    before = tables(whole)
    assert sweep(plan(), whole, backend_of(1, None)).resumed == 8
    assert tables(whole) == before


def test_a_sweep_that_is_killed_again_and_again_ends_with_the_same_tables(whole, tmp_path):
    code = (
        "from pathlib import Path; from tests.explore.sweep.sweeps import plan\n"
        "from vdla.explore.sweep.run import backend_of, sweep\n"
        f"sweep(plan(), Path({str(tmp_path)!r}), backend_of(2, None))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for lines in (1, 3):  # in the journal when the sweep is killed
        process = subprocess.Popen([sys.executable, "-c", code], env=environment)
        journal = tmp_path / JOURNAL
        while not (journal.exists() and journal.read_bytes().count(b"\n") >= lines):
            assert process.poll() is None, "the sweep ended before it could be killed"
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(b'0123456789abcdef {"point"')  # what a write that was cut off leaves
    done = sweep(plan(), tmp_path, backend_of(2, None))
    assert 3 <= done.resumed < 8
    assert tables(tmp_path) == tables(whole)


def test_a_worker_that_dies_twice_at_a_point_is_a_row_with_the_reason(tmp_path):
    done = sweep(
        plan(deadly, parameters={"inp_buffer_bytes": ["8KiB", "16KiB"]}), tmp_path, backend_of(1, None)
    )
    points = pd.read_parquet(tmp_path / POINTS)
    assert done.failed == 1
    assert list(points.status) == [
        "the worker process died 2 times: SIGKILL, perhaps for lack of memory",
        "ok",
    ]


def test_a_configuration_that_cannot_be_is_a_row_with_the_reason(tmp_path):
    changes = {"parameters": {"block_in": [8, 12], "block_out": 8}}
    sweep(plan(**changes), tmp_path, backend_of(1, None))
    points = pd.read_parquet(tmp_path / POINTS)
    assert list(points.status) == ["ok", "block_in = 12 is not a power of two; the nearest are 8 and 16"]
    assert points.cycles.isna().tolist() == [False, True]


def test_work_that_a_target_leaves_to_the_host_is_a_row_with_the_reason(tmp_path):
    sweep(plan(parameters={"extensions": ["none"]}), tmp_path, backend_of(1, None))
    row = pd.read_parquet(tmp_path / POINTS).iloc[0]
    assert row.status.startswith(
        "Int8Conv layer is left to the host: configuration small with the extensions"
    )
    assert pd.isna(row.cycles)


def test_an_area_that_is_not_known_leaves_the_cycles(tmp_path):
    sweep(plan(no_silicon, parameters={"memory.latency": 16}), tmp_path, backend_of(1, None))
    row = pd.read_parquet(tmp_path / POINTS).iloc[0]
    assert (row.status, row.area_source, row.clock_source, row.mhz) == (
        "ok",
        "unknown: no Yosys here",
        "target",
        100,
    )
    assert pd.isna(row.lut)


def test_a_clock_that_is_a_parameter_decides_the_seconds(tmp_path):
    sweep(plan(parameters={"clock_mhz": [20]}), tmp_path, backend_of(1, None))
    row = pd.read_parquet(tmp_path / POINTS).iloc[0]
    assert (row.mhz, row.clock_source, row.seconds) == (20, "target", row.cycles / 20e6)
    assert pd.isna(row.mhz_low)
    assert pd.isna(row.mhz_high)
    assert row.mhz_limited_by == ""


def test_a_second_sweep_in_a_folder_is_refused(tmp_path):
    with opened(tmp_path, *identified()), pytest.raises(SweepError, match="is in use by another sweep"):
        sweep(plan(), tmp_path, backend_of(1, None))


@pytest.mark.parametrize(
    ("changes", "resumed", "total", "left_out"),
    [
        ({"parameters": {"memory.latency": [16, 64, 256], "inp_buffer_bytes": ["16KiB"]}}, 2, 3, 1),
        ({"parameters": {"memory.latency": [32], "inp_buffer_bytes": ["8KiB", "16KiB"]}}, 1, 2, 2),
        ({"parameters": {"memory.latency": [16, 64], "bus_bits": [64, 128]}}, 2, 4, 1),
        ({"parameters": {"inp_buffer_bytes": ["16KiB", "4KiB"]}}, 1, 2, 2),
        ({"parameters": {"memory.latency": [16], "clock_mhz": [100]}}, 0, 1, 3),
        ({"constraints": ["memory.latency <= 16"]}, 1, 2, 2),
        ({"objectives": ["energy_pj"]}, 3, 8, 0),
        ({"budget": 100}, 3, 8, 0),
    ],
)  # fmt: skip
def test_a_folder_takes_other_points_and_keeps_what_both_sweeps_have(
    grown, tmp_path, changes, resumed, total, left_out
):
    folder = shutil.copytree(grown, tmp_path / "grown")
    done = sweep(plan(**changes), folder, here)
    assert (done.done, done.total, done.resumed, done.left_out) == (total, total, resumed, left_out)
    sweep(plan(**changes), tmp_path / "fresh", here)
    assert tables(folder) == tables(tmp_path / "fresh")
    identities = [json.loads((path / "sweep.json").read_text()) for path in (folder, tmp_path / "fresh")]
    assert identities[0] | {"created": ""} == identities[1] | {"created": ""}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"area": "none"}, "holds another sweep: area is None there and 'none' here"),
        ({"base": {"config": "tiny"}}, "holds another sweep: base.config is 'small' there and 'tiny' here"),
        ({"seed": 1}, "holds another sweep: seed is None there and 1 here"),
    ],
)  # fmt: skip
def test_the_folder_of_another_sweep_is_refused(whole, changes, message):
    with pytest.raises(SweepError, match=message):
        sweep(plan(**changes), whole, backend_of(1, None))


def test_a_folder_of_other_sources_is_refused(tmp_path):
    with opened(tmp_path, *identified()):
        pass
    values = json.loads((tmp_path / "sweep.json").read_text())
    (tmp_path / "sweep.json").write_text(json.dumps(values | {"sources": "other"}))
    with pytest.raises(SweepError, match=r"was measured with other sources of the kit \(other, now"):
        sweep(plan(), tmp_path, backend_of(1, None))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("sweep.json", b"{", "sweep.json is damaged: it is no JSON; sweep into another folder"),
        (JOURNAL, b"x\n", "journal.jsonl, line 1 is damaged; delete that line"),
    ],
)
def test_damaged_files_are_named(tmp_path, name, text, message):
    with opened(tmp_path, *identified()):
        pass
    (tmp_path / name).write_bytes(text)
    with pytest.raises(SweepError, match=message):
        sweep(plan(), tmp_path, backend_of(1, None))


def test_the_end_of_a_pool_ends_its_workers():
    planned = plan()
    with backend_of(2, None)(planned.job) as pool:
        next(pool.measure(planned.space.points()))
        workers = [worker.process for worker in pool._workers.values()]
        assert [worker.poll() for worker in workers] == [None, None]
    assert [worker.poll() for worker in workers] == [-signal.SIGKILL] * 2


def test_a_full_disk_is_one_line_and_what_was_measured_is_kept(whole, tmp_path):
    size = len((whole / JOURNAL).read_bytes())
    with (
        at_most(size // 2),
        pytest.raises(VdlaError, match="cannot be written: File too large"),
    ):
        sweep(plan(), tmp_path, backend_of(1, None))
    assert sweep(plan(), tmp_path, backend_of(1, None)).resumed >= 2
    assert tables(tmp_path) == tables(whole)


def test_a_damaged_table_is_made_again(whole):
    before = tables(whole)
    (whole / POINTS).write_bytes(b"damaged")
    sweep(plan(), whole, backend_of(1, None))
    assert tables(whole) == before


def test_a_worker_makes_way_for_a_new_one_after_some_points(monkeypatch):
    monkeypatch.setattr("vdla.explore.sweep.run.POINTS_PER_WORKER", 3)
    planned, started = plan(), set()
    with backend_of(1, None)(planned.job) as pool:
        for _ in pool.measure(planned.space.points()):
            started |= {worker.process.pid for worker in pool._workers.values()}
    assert len(started) == 3
