"""The journal of a sweep: points by their key, as they were appended, and damage that is named by its line."""

from dataclasses import replace

import pytest

from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.folder import KIND, LARGEST, Journal
from vdla.explore.sweep.measure import Measured
from vdla.explore.sweep.space import Point
from vdla.explore.sweep.tables import TUNING, LayerRow, PointRow
from vdla.runtime.journal import Appender


def key(values) -> tuple:
    return (values["a"],)


def measured(a: int, cycles: int | None = 7, macs: int = 5, **tuned: int) -> Measured:
    layer = LayerRow("w", 0, "l", "Int8Conv", "accelerator", cycles, macs, 0.5, 1, 2, 3.0, "memory")
    return Measured(Point(a, {"a": a}), (PointRow("w", "ok", cycles, **tuned),), (layer,), 0.25)


def test_points_are_known_by_their_key_at_once_and_when_it_is_opened_again(tmp_path):
    journal = Journal(tmp_path / "j", key)
    points = [measured(1), measured(2, default_cycles=9, tuned_tasks=0, trials=3), measured(3, None)]
    for point in points:
        journal.append(point)
    expected = {key(point.point.values): point for point in points}
    assert journal.measured == expected
    journal.append(replace(points[0], seconds=1.0))
    journal.close()
    again = Journal(tmp_path / "j", key)
    assert again.measured == expected | {(1,): replace(points[0], seconds=1.0)}
    again.close()


def test_what_only_tuning_measures_is_left_out_where_there_was_none(tmp_path):
    journal = Journal(tmp_path / "j", key)
    journal.append(measured(1))
    journal.append(measured(2, default_cycles=9, tuned_tasks=0, trials=3))
    journal.close()
    plain, tuned = (tmp_path / "j").read_bytes().splitlines()
    assert [name.encode() in plain for name in TUNING] == [False] * len(TUNING)
    assert [name.encode() in tuned for name in TUNING] == [True] * len(TUNING)


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        ({"cycles": LARGEST - 1}, True),
        ({"cycles": -LARGEST}, True),
        ({"cycles": LARGEST}, False),
        ({"cycles": -LARGEST - 1}, False),
        ({"macs": LARGEST}, False),  # of a layer
    ],
)
def test_numbers_that_fit_no_table_are_damage(tmp_path, change, holds):
    journal = Journal(tmp_path / "j", key)
    journal.append(measured(1))
    journal.append(measured(2, **change))
    journal.close()
    if holds:
        Journal(tmp_path / "j", key).close()
    else:
        with pytest.raises(SweepError, match="line 2 is damaged"):
            Journal(tmp_path / "j", key)


@pytest.mark.parametrize("text", [b"{}", b"[]", b'{"point": 1}', b"[" * 10_000])
def test_a_line_that_is_no_point_is_named(tmp_path, text):
    appender = Appender(tmp_path / "j", KIND)
    assert not list(appender.texts())
    appender.append([text])
    appender.close()
    with pytest.raises(SweepError, match="line 1 is damaged; delete that line"):
        Journal(tmp_path / "j", key)


def test_a_point_without_the_parameters_of_the_sweep_is_damage(tmp_path):
    journal = Journal(tmp_path / "j", lambda values: tuple(values))
    journal.append(measured(1))
    journal.close()
    with pytest.raises(SweepError, match="line 1 is damaged"):
        Journal(tmp_path / "j", lambda values: (values["b"],))
