"""What a log knows of a target."""

from dataclasses import replace
from math import inf

from tests.compiler.codegen.tuned.records import TARGET, TASK, record, space
from vdla.explore.tune.known import DEFAULT, Known, cost

RECORDS = [
    record(10, 0, seed=3),
    record(20, 1, seed=4),
    record(None, 2, seed=3),
    record(40, 3, version="old", seed=3),
    replace(record(50, 4, seed=3), timing="another"),
    record(60, 5, explorer=DEFAULT),
    record(10, 0, seed=4),
    record(70, choice={"threads": 64}, seed=3),
]


def test_records_of_this_tuning_are_told_from_others_and_those_of_other_targets_left_out():
    resumed, others = Known(RECORDS, TARGET, "random", 3).of(space())
    assert resumed == {0: RECORDS[0], 2: RECORDS[2]}
    assert others == {1: RECORDS[1], 5: RECORDS[5]}
    resumed, others = Known(RECORDS, TARGET, "model", 3).of(space())
    assert resumed == {}
    assert sorted(others) == [0, 1, 2, 5]
    assert Known([], TARGET, "random", 3).of(space()) == ({}, {})


def test_the_default_choice_is_found():
    known = Known(RECORDS, TARGET, "random", 3)
    assert known.default_of(TASK) == RECORDS[5]
    assert Known(RECORDS[:5], TARGET, "random", 3).default_of(TASK) is None


def test_a_record_is_made_of_a_trial():
    known = Known([], TARGET, "random", 3)
    assert known.record(TASK, space().choice(0), 10, "ok", 0 + 8) == replace(RECORDS[0], trial=8)
    default = known.default_record(TASK, space().choice(5), 60, ["conv", "again"])
    assert default == replace(RECORDS[5], trial=0, layers=("conv", "again"))


def test_illegal_choices_cost_infinitely_much():
    assert [cost(record) for record in RECORDS[:3]] == [10.0, 20.0, inf]
