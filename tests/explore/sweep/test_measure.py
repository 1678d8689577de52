"""Rows of a point: its area and clock, its layers, its fastest plan, and why there are no cycles."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest

from tests.compiler.network.compiled import handmade
from tests.explore.sweep.sweeps import no_silicon, plan, silicon
from tests.runtime.session.test_report import report_of
from vdla.compiler.codegen.choice_cache import cached
from vdla.compiler.network.stages import plan_of
from vdla.explore.silicon.result import ROUTED, SYNTHESISED, Silicon
from vdla.explore.sweep import measure
from vdla.explore.sweep.measure import Best, layer_rows, one_line, run_best, why_unfit
from vdla.explore.sweep.parameters import with_values
from vdla.explore.sweep.space import Point
from vdla.explore.sweep.tables import LayerRow
from vdla.runtime.module.plan import HostStep
from vdla.runtime.session.report import Report

FIGURES = Silicon(9.0, 8.0, 7.0, 6.0, 50.0, 45.0, 60.0, "loader", SYNTHESISED, ROUTED)
CLOCK = {"mhz": 50.0, "mhz_low": 45.0, "mhz_high": 60.0, "mhz_limited_by": "loader", "clock_source": "routed"}
TARGETS = {"mhz_low": None, "mhz_high": None, "mhz_limited_by": "", "clock_source": "target"}
AREA = {"lut": 9.0, "ff": 8.0, "dsp": 7.0, "block_ram": 6.0, "area_source": "synthesised"}
NO_AREA = {"lut": None, "ff": None, "dsp": None, "block_ram": None}


@cache
def run_before() -> Report:
    return report_of("residual")[0]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Return the report of an earlier run instead of running the plan."""
    monkeypatch.setattr(measure, "run", lambda plan: run_before())


def row_of(silicon, **values):
    job = plan(silicon).job
    point = Point(3, {"inp_buffer_bytes": 8192, **values})
    done = job.measure(point)
    (row,) = done.rows
    assert done.point == point
    assert done.seconds > 0
    return row, with_values(job.base, dict(point.values)), done


def no_clock(config):
    return replace(FIGURES, mhz=None)


@pytest.mark.parametrize(
    ("silicon", "values", "expected"),
    [
        (lambda config: FIGURES, {}, {**AREA, **CLOCK}),
        (lambda config: FIGURES, {"clock_mhz": 20.0}, {**AREA, **TARGETS, "mhz": 20.0}),
        (no_clock, {}, {**AREA, **TARGETS, "mhz": 100.0}),
        (no_silicon, {}, {**NO_AREA, **TARGETS, "mhz": 100.0, "area_source": "unknown: no Yosys here"}),
        (no_silicon, {"clock_mhz": 20.0}, {**NO_AREA, **TARGETS, "mhz": 20.0}),
        (None, {}, {**NO_AREA, **TARGETS, "mhz": 100.0, "area_source": "none"}),
        (None, {"clock_mhz": 20.0}, {**NO_AREA, **TARGETS, "mhz": 20.0, "area_source": "none"}),
    ],
)
def test_a_row_has_the_clock_of_the_silicon_unless_the_sweep_or_nothing_gives_it(silicon, values, expected):
    row, target, _ = row_of(silicon, **values)
    report = run_before()
    assert {name: getattr(row, name) for name in expected} == expected
    assert (row.status, row.cycles, row.digest) == ("ok", report.cycles, target.digest)
    assert row.seconds == report.cycles / (expected["mhz"] * 1e6)
    assert (row.macs, row.energy_pj, row.energy) == (report.macs, report.energy_pj, report.energy)
    assert row.bytes_read == sum(layer.bytes_read for layer in report.layers)
    assert row.bytes_written == sum(layer.bytes_written for layer in report.layers)
    assert (row.default_cycles, row.tuned_tasks, row.trials) == (None, None, None)


def test_a_target_that_cannot_be_and_a_dead_worker_are_rows_without_figures():
    job = plan().job
    point = Point(0, {"inp_buffer_bytes": 8193})
    wrong = job.measure(point)
    assert [row.workload for row in wrong.rows] == [workload.name for workload in job.workloads]
    assert wrong.rows[0].status.startswith("inp_buffer_bytes = 8193")
    assert (wrong.layers, wrong.rows[0].mhz) == ((), None)
    dead = job.failed(point, "it died")
    assert [(row.workload, row.status) for row in dead.rows] == [("layer", "it died")]
    assert (dead.layers, dead.seconds) == ((), 0.0)


@pytest.mark.parametrize("error", [MemoryError("far too\n  large"), ZeroDivisionError("no\nnumber")])
def test_what_goes_wrong_at_a_point_is_its_status(monkeypatch, error):
    def fail(plan):
        raise error

    monkeypatch.setattr(measure, "run", fail)
    row, _, done = row_of(silicon)
    kind = "internal error: " if isinstance(error, ZeroDivisionError) else ""
    assert row.status == kind + one_line(error)
    assert (row.cycles, row.mhz_limited_by, done.layers) == (None, "loader", ())


def test_a_message_is_one_line_and_never_empty():
    assert one_line(ValueError("a\n  b")) == "a b"
    assert one_line(MemoryError()) == "MemoryError"


def test_layers_have_their_numbers_and_figures():
    report = report_of("with the host between")[0]
    rows = layer_rows("w", report)
    assert [row.layer for row in rows] == list(range(len(report.layers)))
    for row, layer in zip(rows, report.layers, strict=True):
        named = {"workload": "w", "layer": row.layer}
        shared = {name: getattr(layer, name) for name in LayerRow.__dataclass_fields__ if name not in named}
        assert row == LayerRow(**named, **shared)
    assert len({row.name for row in rows}) > 1


class Tuned:
    """A tuning that tells what it found."""

    def __init__(self, tasks: int) -> None:
        self.tasks, self.trials = tasks, 30

    def tuned(self, layers, target):
        return self

    def chooser(self):
        return cached()


@pytest.mark.parametrize(
    ("tasks", "cycles", "expected"),
    [(0, [], (100, 100, 0)), (2, [90], (90, 100, 2)), (2, [100], (100, 100, 0)), (2, [101], (100, 100, 0))],
)
def test_the_faster_of_the_default_and_the_tuned_plan_counts(monkeypatch, tasks, cycles, expected):
    reports = iter([replace(run_before(), cycles=number) for number in (100, *cycles)])
    monkeypatch.setattr(measure, "run", lambda plan: next(reports))
    planned = plan()
    workload, target = planned.job.workloads[0], planned.job.base
    best = run_best(workload, target, plan_of(workload.graph(), target), Tuned(tasks))
    assert (best.cycles, best.default_cycles, best.tuned_tasks) == expected
    assert best.trials == 30


def test_without_tuning_there_is_one_run_and_nothing_to_compare():
    planned = plan()
    workload = planned.job.workloads[0]
    compiled_plan = plan_of(workload.graph(), planned.job.base)
    best = run_best(workload, planned.job.base, compiled_plan, None)
    assert best == Best(compiled_plan, run_before())


def host(name: str) -> HostStep:
    return HostStep(name, "Int8Conv", (), (name,), {}, f"{name} is too large")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), ""),
        (("usual",), ""),
        (("a",), "Int8Conv a is left to the host: a is too large"),
        (("usual", "a", "b"), "Int8Conv a is left to the host, and 1 more: a is too large"),
        (("a", "b", "c"), "Int8Conv a is left to the host, and 2 more: a is too large"),
    ],
)
def test_work_that_the_usual_target_executes_may_not_be_left_to_the_host(monkeypatch, names, expected):
    monkeypatch.setattr(measure, "_usually_on_host", lambda workload: frozenset({"usual"}))
    host_plan = replace(handmade("residual")[1], steps=(*handmade("residual")[1].steps, *map(host, names)))
    assert why_unfit(plan().job.workloads[0], host_plan) == expected


@pytest.mark.parametrize("size", [8192, 8193])
def test_the_seconds_of_a_point_are_those_that_measuring_took(monkeypatch, size):
    clock = iter([10.0, 12.5])
    monkeypatch.setattr(measure, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert plan().job.measure(Point(0, {"inp_buffer_bytes": size})).seconds == 2.5
