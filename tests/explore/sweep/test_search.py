"""Search: determinism, budgets, constraints, and a front that is near that of the grid."""

from dataclasses import replace

import pandas as pd
import pytest

from tests.explore.sweep.sweeps import plan
from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.folder import POINTS
from vdla.explore.sweep.hypervolume import hypervolume
from vdla.explore.sweep.run import backend_of, sweep
from vdla.explore.sweep.search import SAMPLERS, Search, objectives_of
from vdla.explore.sweep.tables import PointRow

PARAMETERS = {
    "block_in": [4, 8, 16, 32],
    "block_out": [4, 8, 16, 32],
    "wgt_buffer_bytes": [32768, 65536, 131072, 262144, 524288],
    "memory.latency": [16, 32, 64, 128, 256],
}


def rows(point):
    """Return what a point would measure: a model with a trade-off, so that searching is quick."""
    values = point.values
    macs = values["block_in"] * values["block_out"]
    cycles = 1e6 / macs + 2e4 * values["memory.latency"] ** 0.5 / (values["wgt_buffer_bytes"] / 32768)
    row = PointRow("w", "ok", cycles=int(cycles), lut=50.0 * macs + values["wgt_buffer_bytes"] / 100)
    return (row,) if values["block_in"] * 4 >= values["block_out"] else (PointRow("w", "too narrow"),)


def search(budget, sampler="tpe", seed=0, constraints=()):
    """Run a search on the model; return its points."""
    planned = plan(
        parameters=PARAMETERS, budget=budget, sampler=sampler, seed=seed, constraints=list(constraints)
    )
    searching, points = Search(planned.space, planned.specification), []
    while batch := searching.ask():
        for point in batch:
            searching.tell(point, rows(point))
        points += batch
    return points


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_search_is_decided_by_its_seed(sampler):
    first, again, other = (search(24, sampler, seed) for seed in (1, 1, 2))
    assert first == again
    assert [point.values for point in first] != [point.values for point in other]


@pytest.mark.parametrize("budget", [1, 10, 41])
def test_a_search_spends_its_budget_on_different_points_that_satisfy_the_constraints(budget):
    points = search(budget, constraints=["block_in <= block_out"])
    assert [point.number for point in points] == list(range(budget))
    assert len({tuple(point.values.values()) for point in points}) == budget
    assert all(point.values["block_in"] <= point.values["block_out"] for point in points)


def test_a_search_with_a_budget_beyond_the_space_finds_all_of_it():
    constraints = ["block_in == block_out", "wgt_buffer_bytes < 100000"]
    assert len(search(1000, constraints=constraints)) == 4 * 2 * 5


def test_a_search_gets_most_of_the_hypervolume_with_a_tenth_of_the_budget():
    grid = [
        objectives_of(rows(point), ("cycles", "lut")) for point in plan(parameters=PARAMETERS).space.points()
    ]
    known = [objectives for objectives in grid if objectives]
    reference = [max(objectives[number] for objectives in known) for number in range(2)]
    shares = []
    for seed in range(2):
        searched = [objectives_of(rows(point), ("cycles", "lut")) for point in search(40, seed=seed)]
        shares.append(
            hypervolume([objectives for objectives in searched if objectives], reference)
            / hypervolume(known, reference)
        )
    assert sum(shares) / 2 > 0.9


def test_objectives_add_up_over_workloads_and_areas_do_not():
    two = (PointRow("a", "ok", cycles=3, lut=7.0), PointRow("b", "ok", cycles=4, lut=7.0))
    assert objectives_of(two, ("cycles", "lut")) == (7, 7)
    assert objectives_of(two, ("ff",)) is None
    assert objectives_of((two[0], replace(two[1], status="no")), ("cycles",)) is None


def test_an_interrupted_search_goes_on_where_it_stopped(tmp_path):
    changes = {"budget": 6, "objectives": ["cycles", "block_ram"]}
    sweep(plan(**changes), tmp_path / "whole", backend_of(2, None))
    done = sweep(plan(**changes), tmp_path / "whole", backend_of(1, None))
    whole = (tmp_path / "whole" / POINTS).read_bytes()
    assert (done.resumed, done.total) == (6, 6)
    journal = tmp_path / "whole" / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:2]))
    assert sweep(plan(**changes), tmp_path / "whole", backend_of(1, None)).resumed == 2
    assert (tmp_path / "whole" / POINTS).read_bytes() == whole
    assert pd.read_parquet(tmp_path / "whole" / POINTS).point.nunique() == 6


def test_a_search_without_a_possible_point_is_an_error(tmp_path):
    with pytest.raises(SweepError, match="no combination of 8 satisfies the constraints"):
        sweep(plan(budget=3, constraints=["batch > 1"]), tmp_path, backend_of(1, None))


def test_a_search_for_an_area_that_is_not_measured_is_refused():
    with pytest.raises(SweepError, match='objective lut is not known with area = "none"'):
        plan(budget=3, area="none", objectives=["lut"])
