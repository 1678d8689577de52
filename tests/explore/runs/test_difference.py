"""Rows, totals and errors of comparisons of runs."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.explore.runs.records import ENERGY_PJ_PER_CYCLE, PARAMETERS, layer, run
from vdla.explore.runs.difference import compare_runs, difference_values
from vdla.explore.runs.record import TargetRecord
from vdla.explore.runs.rows import LAYER_FIGURES, NO_LAYER, RowKind, ranked
from vdla.hw.spec.errors import FileFormatError

NAMES = ("a.json", "b.json")
FUSED = run([layer("c", 100, "c d"), layer("e", 50), layer("f", None)])
SPLIT = run([layer("c", 90, "c"), layer("d", 30, "d", bound="memory"), layer("e", 40), layer("f", 7)])


def compared(a, b):
    return compare_runs(a, b, NAMES)


def cycles(rows):
    return [(row.name, row.changes["cycles"].a, row.changes["cycles"].b) for row in rows]


def test_a_fused_layer_and_its_parts_are_one_row():
    first, *_ = compared(FUSED, SPLIT).rows
    assert (first.kind, first.name, first.bounds) == (RowKind.GROUP, "c + d", ("compute", "compute, memory"))
    change = first.changes["cycles"]
    assert (change.a, change.b, change.difference, change.ratio) == (100, 120, 20, 1.2)
    assert (first.changes["bytes_moved"].b, first.changes["energy_pj"].b) == (1320, 120 * ENERGY_PJ_PER_CYCLE)
    assert first.changes["seconds"].b == pytest.approx(1.2e-6)


def test_a_layer_on_the_host_has_no_cycles_and_its_difference_counts():
    *_, last = compared(FUSED, SPLIT).rows
    change = last.changes["cycles"]
    assert (last.kind, last.bounds) == (RowKind.LAYER, ("host", "compute"))
    assert (change.a, change.b, change.difference, change.ratio) == (None, 7, 7, None)


@pytest.mark.parametrize(
    ("a", "b", "kinds"),
    [
        ([layer("x"), layer("y")], [layer("x"), layer("z")], ["layer", "only_b", "only_a"]),
        ([layer("x", 1, "x y")], [layer("x"), layer("y")], ["group"]),
        ([layer("x"), layer("y")], [layer("x", 1, "x y")], ["group"]),
    ],
)
def test_the_kind_of_a_row_says_which_run_has_its_layers(a, b, kinds):
    assert [row.kind for row in compared(run(a), run(b)).rows] == kinds


def test_what_belongs_to_no_layer_is_the_last_row():
    rows = compared(run([layer("x", 5)], outside=3), run([layer("x", 6)])).rows
    assert cycles(rows) == [("x", 5, 6), (NO_LAYER, 3, 0)]
    assert (rows[-1].kind, rows[-1].changes["energy_pj"].a) == (RowKind.REST, 3 * ENERGY_PJ_PER_CYCLE)


def test_a_rounding_error_of_a_sum_is_no_row():
    record = run([layer("x", 3, energy_pj=0.1), layer("y", 4, energy_pj=0.2)], energy_pj=0.1 + 0.2 + 1e-12)
    assert [row.name for row in compared(record, record).rows] == ["x", "y"]


def test_long_names_of_groups_are_cut():
    parts = [layer(name) for name in "wxyz"]
    for a, b in (
        (run([layer("w", 9, "w x y z")]), run(parts)),
        (run(parts), run([layer("w", 9, "w x y z")])),
    ):
        assert [row.name for row in compared(a, b).rows] == ["w + x + 2 more"]


def test_the_same_run_does_not_differ():
    for record in (FUSED, SPLIT, run([layer("x", 5, "x y"), layer("z", 5, "y z")], outside=2)):
        difference = compared(record, record)
        assert not difference.differs
        assert not difference.changed


@pytest.mark.parametrize(
    "other",
    [
        run([layer("x", 101)]),
        run([layer("x", bytes_read=1)]),
        run([layer("x", energy_pj=1.0)]),
        run([layer("x", bound="memory")]),
        run([layer("x", op="Int8Add")]),
        run([layer("x")], launches=2),
        run([layer("x")], instructions=10),
        run([layer("x")], preset="small"),
        run([layer("x")], clock_hz=2e8),
        run([layer("x")], device="rtl"),
        run([layer("x")], runs=2),
        run([layer("x")], outside=1),
        run([layer("x"), layer("y", 0)]),
    ],
)
def test_each_difference_is_noticed(other):
    assert compared(run([layer("x")]), other).differs


def test_settings_that_differ_are_named_with_both_values():
    target = TargetRecord("default", "1" * 64, {**PARAMETERS, "block_in": 8, "memory.latency": 64})
    changed = compared(run([layer("x")]), run([layer("x")], target=target)).changed
    assert changed == {"block_in": (16, 8), "memory.latency": (None, 64)}


def test_rows_are_ranked_by_the_difference_of_cycles_and_then_of_bytes():
    a = run([layer("p", 10), layer("q", 10), layer("r", 10), layer("s", 10)], outside=100)
    b = run([layer("p", 11), layer("q", 10, bytes_read=0), layer("r", 2), layer("s", 10)])
    rows = compared(a, b).rows
    assert [row.name for row in ranked(rows, True, None)] == ["r", "p", "q", "s", NO_LAYER]
    assert ranked(rows, False, None) == list(rows)


@pytest.mark.parametrize(
    ("most", "names"),
    [
        (1, ["r", "2 other rows", NO_LAYER]),
        (2, ["r", "p", "1 other row", NO_LAYER]),
        (3, ["r", "p", "q", NO_LAYER]),
    ],
)
def test_rows_that_are_not_listed_are_one_row_with_their_sum(most, names):
    difference = compared(
        run([layer("p", 10), layer("q", 10), layer("r", 10)], outside=1),
        run([layer("p", 11), layer("q", 10), layer("r", 2)]),
    )
    rows = ranked(difference.rows, True, most)
    assert [row.name for row in rows] == names
    assert [sum(row.changes["cycles"].a for row in rows), sum(row.changes["cycles"].b for row in rows)] == [
        31,
        23,
    ]


LAYERS = st.lists(
    st.builds(
        lambda names, cycles, energy: layer(
            min(names), cycles, " ".join(sorted(names)), energy_pj=None if cycles is None else energy
        ),
        st.sets(st.sampled_from("abcdef"), min_size=1, max_size=3),
        st.none() | st.integers(0, 1 << 40),
        st.floats(0, 1e15),
    ),
    max_size=6,
)


@given(LAYERS, LAYERS, st.integers(0, 1 << 20), st.booleans(), st.none() | st.integers(1, 5))
def test_the_sum_of_the_rows_is_the_total(a, b, outside, by_difference, most):
    common = layer("a", 5, "a")  # so that the runs share an operator
    difference = compared(run([common, *a], outside=outside), run([common, *b]))
    rows = ranked(difference.rows, by_difference, most)
    for figure in LAYER_FIGURES:
        total = difference.totals[figure]
        for side in ("a", "b"):
            parts = [getattr(row.changes[figure], side) or 0 for row in rows]
            assert math.isclose(math.fsum(parts), getattr(total, side), rel_tol=1e-9, abs_tol=1e-12)
        differences = [row.changes[figure].difference or 0 for row in rows]
        scale = max(total.a, total.b)
        assert math.isclose(math.fsum(differences), total.difference, abs_tol=1e-9 * scale + 1e-12)
    for side in ("a", "b"):
        assert sum(getattr(row.changes["cycles"], side) or 0 for row in rows) == getattr(
            difference.totals["cycles"], side
        )


def test_values_hold_the_layers_of_both_runs():
    values = difference_values(difference := compared(FUSED, SPLIT), difference.rows)
    row = values["layers"][0]
    assert row["cycles"] == {"a": 100, "b": 120, "difference": 20, "ratio": 1.2}
    assert row["bound"] == {"a": "compute", "b": "compute, memory"}
    assert [[each["name"] for each in row["layers"][side]] for side in "ab"] == [["c"], ["c", "d"]]
    assert values["totals"]["launches"] == {"a": 1, "b": 1, "difference": 0, "ratio": 1.0}
    assert msgspec.json.decode(msgspec.json.encode(values)) == values


@pytest.mark.parametrize(
    ("b", "message"),
    [
        (
            run([layer("x")], network="other", macs=5),
            "a.json is a run of net (1,000 MACs), and b.json of other (5 MACs); layers are compared by name, "
            "so give two runs of one network",
        ),
        (
            run([layer("y")]),
            "a.json and b.json are runs of net without an operator of the same name; layers are compared by "
            "name, so compile both from one file",
        ),
        (
            run([layer("y")], network="other"),
            "a.json and b.json are runs of net and other without an operator of the same name; layers are "
            "compared by name, so compile both from one file",
        ),
    ],
)
def test_runs_of_different_networks_are_refused(b, message):
    with pytest.raises(FileFormatError) as raised:
        compared(run([layer("x")]), b)
    assert str(raised.value) == message


def test_a_network_of_other_shapes_is_compared():
    assert compared(run([layer("x")]), run([layer("x")], macs=7)).changed == {"MACs": (1000, 7)}


def test_a_network_under_another_name_is_compared():
    assert compared(run([layer("x")]), run([layer("x")], network="other")).changed == {
        "network": ("net", "other")
    }
