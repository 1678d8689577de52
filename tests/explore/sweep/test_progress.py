"""How far a sweep is: its rate, the time that is left, and its reasons."""

import pytest

from tests.explore.sweep.sweeps import plan
from vdla.explore.sweep import run
from vdla.explore.sweep.measure import Measured
from vdla.explore.sweep.run import Progress
from vdla.explore.sweep.space import Point
from vdla.explore.sweep.tables import PointRow
from vdla.explore.workers.backends import here


@pytest.mark.parametrize(
    ("done", "resumed", "seconds", "rate", "remaining"),
    [(6, 2, 8.0, 0.5, 28.0), (2, 2, 8.0, 0.0, None), (6, 2, 0.0, 0.0, None), (20, 0, 4.0, 5.0, 0.0)],
)
def test_the_rate_counts_the_points_of_this_run(done, resumed, seconds, rate, remaining):
    progress = Progress(done, 20, 0, resumed, 0, seconds)
    assert (progress.rate, progress.remaining_seconds) == (rate, remaining)


class Failing:
    """Measures points, of which most fail for one of two reasons."""

    def measure(self, point: Point) -> Measured:
        latency = point.values["memory.latency"]
        status = "ok" if latency == 16 else "too slow" if latency == 32 else f"{latency} is too much"
        rows = (PointRow("layer", status, 7 if status == "ok" else None), PointRow("other", status))
        return Measured(point, rows, (), 0.1)

    def failed(self, point: Point, reason: str) -> Measured:
        raise AssertionError


def test_reasons_are_counted_by_kind_the_most_frequent_first(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "write_sweep_report", lambda folder: None)
    seen = []
    done = run.sweep(plan(), tmp_path, lambda job: here(Failing()), seen.append)
    assert [progress.done for progress in seen] == list(range(9))
    assert (done.done, done.total, done.failed) == (8, 8, 6)
    assert done.reasons == {"64 is too much": 4, "too slow": 2}
    assert [*done.reasons] == ["64 is too much", "too slow"]
    assert done.seconds >= max(progress.seconds for progress in seen) >= 0
    again = run.sweep(plan(), tmp_path, lambda job: here(Failing()))
    assert (again.resumed, again.failed, again.reasons) == (8, 6, done.reasons)


@pytest.mark.parametrize(("pause", "written"), [(0.0, 9), (1e9, 1)])
def test_tables_are_written_on_the_way_where_the_last_time_is_long_ago(tmp_path, monkeypatch, pause, written):
    monkeypatch.setattr(run, "write_sweep_report", lambda folder: None)
    monkeypatch.setattr(run, "LEAST_SECONDS_BETWEEN_TABLES", pause)
    monkeypatch.setattr(run, "SHARE_OF_TABLES", 0)
    times = []
    monkeypatch.setattr(run.Folder, "write_tables", lambda folder: times.append(len(folder.measured)))
    run.sweep(plan(), tmp_path, lambda job: here(Failing()))
    assert times == ([*range(1, 9), 8] if written == 9 else [8])
