"""A small share of the campaign that kills tunings, and that it sees what it looks for."""

import random

import pytest

from tests.compiler.codegen.tuned.records import record
from tests.loading import load_file
from vdla.compiler.codegen.tuned.log import write_log
from vdla.explore.tune.known import DEFAULT


@pytest.fixture(scope="module")
def script():
    return load_file("scripts/kill_tune.py")


@pytest.mark.slow
def test_a_tuning_that_is_killed_and_resumed_has_the_same_log(script, tmp_path):
    bench = script.Bench(tmp_path, 24, 1)
    bench.whole(tmp_path / "whole")
    assert bench.killed(tmp_path / "killed", 1, random.Random(0))[0] < 24 + 10
    bench.whole(tmp_path / "killed")
    assert script.same(tmp_path / "whole", tmp_path / "killed")


def test_a_lost_and_a_doubled_record_are_seen(script, tmp_path):
    records = [record(100 - place, place) for place in range(4)]
    for name, content in {
        "whole": records,
        "other": records[::-1],
        "lost": records[1:],
        "double": [*records, records[0]],
    }.items():
        write_log(content, tmp_path / name)
    whole = tmp_path / "whole"
    assert script.same(whole, tmp_path / "other")
    assert not script.same(whole, tmp_path / "lost")
    assert not script.same(whole, tmp_path / "double")
    assert not script.same(tmp_path / "double", tmp_path / "double")
    assert script.numbers([*records, record(1, 9, explorer=DEFAULT)]) == [0, 1, 2, 3]
