"""Records: read back, ranked and merged."""

import itertools
import random
from dataclasses import replace

import pytest

from tests.compiler.codegen.tuned.records import record
from vdla.compiler.codegen.tuned.record import best_of, merged, record_from, settled_of

RECORDS = [record(2000 - place, place) for place in range(6)] + [record(None, 7), record(5, 8, task="other")]


@pytest.mark.parametrize("original", RECORDS, ids=range(len(RECORDS)))
def test_a_record_is_read_back(original):
    assert record_from(original.text) == original
    assert b"\n" not in original.text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"cycles":1000', b'"cycles":0'),
        (b'"cycles":1000', b'"cycles":1' + b"0" * 400),
        (b'"cycles":1000', b'"cycles":null'),
        (b'"cycles":1000', b'"cycles":"1000"'),
        (b'"status":"ok"', b'"status":"bad"'),
        (b'"trial":0', b'"trial":-1'),
        (b'"task":', b'"tusk":'),
        (b"{", b"["),
        (b'"choice":{', b'"choice":{"deep":' + b"[" * 5000 + b"]" * 5000 + b","),
    ],
)
def test_what_is_no_record_is_refused(old, new):
    text = record().text
    assert old in text
    with pytest.raises(ValueError):  # noqa: PT011
        record_from(text.replace(old, new))


def test_merging_is_the_same_in_every_order_and_keeps_each_record_once():
    whole = merged(RECORDS)
    assert len(whole) == len(RECORDS)
    for parts in itertools.permutations([RECORDS[:3], RECORDS[2:5], RECORDS[4:]]):
        assert merged(*parts) == whole
        assert merged(*parts, whole) == whole
    shuffled = random.Random(0).sample(RECORDS, len(RECORDS))
    assert merged(shuffled) == whole


def test_a_merged_log_has_the_trials_of_one_tuning_in_order():
    log = merged([record(100 + trial, trial) for trial in (11, 2, 10, 1)])
    assert [entry.trial for entry in log] == [1, 2, 10, 11]


def test_the_best_record_of_each_task_and_target_is_the_legal_one_with_the_fewest_cycles():
    elsewhere = replace(RECORDS[0], timing="another", cycles=1)
    best = best_of([*RECORDS, elsewhere])
    assert best == {
        (RECORDS[5].task, RECORDS[5].timing): RECORDS[5],
        ("other", RECORDS[7].timing): RECORDS[7],
        (elsewhere.task, "another"): elsewhere,
    }
    equal = [record(7, place) for place in (3, 1, 2)]
    assert list(best_of(equal).values()) == [equal[1]]


def test_records_of_networks_are_no_trials():
    settled = record(1, network="net")
    assert best_of([record(7), settled]) == best_of([record(7)])


def test_the_fastest_settlement_of_a_network_is_found_whole():
    slow = [record(500, place, task=task, network="net", trial=1) for place, task in enumerate("abc")]
    fast = [record(400, place, task=task, network="net", trial=2) for place, task in enumerate("abc")]
    other = record(3, network="other")
    settled = settled_of([slow[0], fast[2], record(2), fast[0], slow[1], other, fast[1], slow[2]])
    key = fast[0].network, fast[0].timing
    assert sorted(settled[key], key=lambda entry: entry.task) == fast
    assert settled[other.network, other.timing] == (other,)
