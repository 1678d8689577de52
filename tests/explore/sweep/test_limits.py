"""Limits on results: what is within, what may be, and what is beyond."""

from dataclasses import replace

import pandas as pd
import pytest

from tests.explore.sweep.sweeps import plan
from vdla.cli._sweeps import conclusion
from vdla.explore.silicon.estimate import EstimateError, area_errors, estimated_area
from vdla.explore.silicon.grid import SHOWN
from vdla.explore.silicon.store import current_store
from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.figures import Verdict
from vdla.explore.sweep.folder import POINTS
from vdla.explore.sweep.limits import Limits
from vdla.explore.sweep.run import sweep
from vdla.explore.sweep.tables import PointRow
from vdla.explore.workers.backends import here

ROW = PointRow("w", "ok", cycles=1000, lut=10_000.0, dsp=8.0, mhz=50.0, area_source="estimated")
ERRORS = {"lut": EstimateError(0.1, 5), "dsp": EstimateError(0.0, 5)}
CLOCK = {"seconds": 1.0, "mhz_low": 45.0, "mhz_high": 60.0}
WITHIN, PERHAPS, BEYOND = Verdict


@pytest.mark.parametrize(
    ("values", "changes", "verdict", "why"),
    [
        ({}, {}, WITHIN, ""),
        ({"lut": 11_000}, {}, WITHIN, ""),
        ({"lut": 10_999}, {}, PERHAPS, "lut 10,000 (9,000 to 11,000 by the error of the estimate), at most 10,999"),
        ({"lut": 9_000}, {}, PERHAPS, "lut 10,000 (9,000 to 11,000 by the error of the estimate), at most 9,000"),
        ({"lut": 8_999}, {}, BEYOND, "lut 10,000 (9,000 to 11,000 by the error of the estimate), at most 8,999"),
        ({"lut": 10_000}, {"area_source": "synthesised"}, WITHIN, ""),
        ({"lut": 9_999}, {"area_source": "synthesised"}, BEYOND, "lut 10,000, at most 9,999"),
        ({"dsp": 8}, {}, WITHIN, ""),
        ({"dsp": 7}, {}, BEYOND, "dsp 8, at most 7"),
        ({"ff": 7}, {"ff": 5.0}, PERHAPS, "ff 5 (0 to inf by the error of the estimate), at most 7"),
        ({"ff": 7}, {"area_source": "unknown: no Yosys"}, PERHAPS, "ff is not known, at most 7"),
        ({"mhz": 50}, {}, WITHIN, ""),
        ({"mhz": 50.5}, {}, BEYOND, "mhz 50, at least 50.5"),
        ({"mhz": 52}, CLOCK, PERHAPS, "mhz 50 (45 to 60 by the error of the estimate), at least 52"),
        ({"mhz": 45}, CLOCK, WITHIN, ""),
        ({"mhz": 61}, CLOCK, BEYOND, "mhz 50 (45 to 60 by the error of the estimate), at least 61"),
        ({"seconds": 1.1}, CLOCK, PERHAPS, "seconds 1 (0.8333 to 1.111 by the error of the estimate), at most 1.1"),
        ({"cycles": 1000}, {}, WITHIN, ""),
        ({"cycles": 999, "lut": 10_000}, {}, BEYOND, "cycles 1,000, at most 999; lut 10,000 (9,000 to 11,000 by the error of the estimate), at most 10,000"),
        ({"cycles": 1}, {"status": "too wide"}, None, ""),
    ],
)  # fmt: skip
def test_a_limit_decides_where_the_interval_of_the_figure_lies_on_one_side(values, changes, verdict, why):
    judgement = Limits(values, ERRORS).judged(replace(ROW, **changes))
    assert (judgement.verdict, judgement.why) == (verdict, why)


@pytest.mark.parametrize("family", ["ecp5", "xc7"])
def test_the_errors_of_estimates_hold_every_synthesised_design(family):
    errors, designs = area_errors(family), current_store().designs[family]
    checked = 0
    for config in SHOWN:
        known = designs.get(config.digest, {})
        if "lut" in known:
            row = PointRow("w", "ok", lut=estimated_area(config, family)["lut"], area_source="estimated")
            low, high = Limits({}, errors).interval(row, "lut")
            assert low * (1 - 1e-9) <= known["lut"] <= high * (1 + 1e-9)
            checked += 1
    assert checked == errors["lut"].designs >= 3


def test_a_sweep_marks_its_results_and_changed_limits_measure_nothing_again(tmp_path):
    parameters = {"block_in": [4, 8, 12, 16], "block_out": [8]}
    done = sweep(plan(parameters=parameters, limits={"lut": 6400}), tmp_path, here)
    points = pd.read_parquet(tmp_path / POINTS)
    assert [verdict if isinstance(verdict, str) else None for verdict in points.limits] == [
        WITHIN,
        PERHAPS,
        None,
        BEYOND,
    ]
    assert list(points.columns[-2:]) == ["limits", "limits_why"]
    assert dict(done.verdicts) == {WITHIN: 1, PERHAPS: 1, BEYOND: 1}
    assert "limits: 1 point within, 1 may or may not be, 1 beyond" in conclusion(tmp_path, done)
    again = sweep(plan(parameters=parameters, limits={"lut": 2500}), tmp_path, here)
    assert (again.resumed, dict(again.verdicts)) == (4, {BEYOND: 3})
    sweep(plan(parameters=parameters), tmp_path, here)
    assert "limits" not in pd.read_parquet(tmp_path / POINTS).columns


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"limits": {"luts": 3}}, "limit 'luts' is unknown; did you mean lut. there are cycles"),
        ({"limits": {"lut": 0}}, r"limits.lut = 0.0 is not a number greater than 0"),
        ({"limits": {"lut": float("nan")}}, r"limits.lut = nan is not a number greater than 0"),
        ({"limits": {"cycles": 5, "lut": "many"}}, "^limits.lut = 'many' is not allowed; it takes a number$"),
        ({"limits": {"lut": 5}, "area": "none"}, 'limit lut is not known with area = "none"; leave it out'),
    ],
)
def test_limits_that_decide_nothing_are_refused(changes, message):
    with pytest.raises(SweepError, match=message):
        plan(**changes)
