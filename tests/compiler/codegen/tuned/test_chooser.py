"""Records that are applied, measured again, or not used."""

from dataclasses import replace
from random import Random

import pytest
from fuzzing.values import changed_tree

from tests.compiler.codegen.tuned.records import TARGET, TASK, choice, record, space
from vdla.compiler.codegen import choose
from vdla.compiler.codegen.choose import by_simulator, simulated_cycles
from vdla.compiler.codegen.tuned import chooser
from vdla.compiler.codegen.tuned.best_records import NO_RECORDS, best_records
from vdla.compiler.codegen.tuned.chooser import RecordChooser, RecordUse, legal_choice
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import TINY


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))


@pytest.fixture(scope="module")
def ranked():
    """Return places of choices, the slowest first."""
    places = range(0, 60, 5)
    return sorted(places, key=lambda place: -simulated_cycles(TASK, choice(place), TARGET))


def chosen(records, default, target=TARGET):
    """Return what is chosen beside a default, and how records served."""
    using = RecordChooser(best_records("log", records), lambda space: default)
    return using(space(target)), using.uses[str(TASK)]


def no_simulation(*arguments):
    raise AssertionError("nothing is to be simulated")


def test_a_record_of_this_target_and_version_is_applied_as_it_stands(monkeypatch, ranked):
    monkeypatch.setattr(chooser, "simulated_cycles", no_simulation)
    slow, fast = ranked[0], ranked[-1]
    assert chosen([record(10, slow)], choice(fast)) == (choice(slow), RecordUse.APPLIED)


@pytest.mark.parametrize(
    "change",
    [
        {"memory": MemoryParameters(65)},
        {"config": TINY.with_changes(wgt_buffer_bytes=2 * TINY.wgt_buffer_bytes)},
    ],
)
def test_a_record_of_another_target_is_not_used(monkeypatch, change):
    monkeypatch.setattr(chooser, "simulated_cycles", no_simulation)
    other = replace(TARGET, **change)
    default = space(other).choice(1)
    assert chosen([record(1, 0)], default, other) == (default, RecordUse.NONE)


def test_a_record_of_another_version_is_measured_beside_the_default(ranked):
    slow, fast = ranked[0], ranked[-1]
    assert simulated_cycles(TASK, choice(slow), TARGET) > simulated_cycles(TASK, choice(fast), TARGET)
    older = [record(1, fast, version="old")]
    assert chosen(older, choice(slow)) == (choice(fast), RecordUse.REMEASURED)
    assert chosen([record(1, slow, version="old")], choice(fast)) == (choice(fast), RecordUse.WORSE)


def test_a_better_record_of_another_version_is_measured_beside_that_of_this_one(ranked):
    slow, middle, fast = ranked[0], ranked[len(ranked) // 2], ranked[-1]
    current = record(1000, middle)
    assert chosen([current, record(1, fast, version="old")], choice(slow)) == (
        choice(fast),
        RecordUse.REMEASURED,
    )
    assert chosen([current, record(1, slow, version="old")], choice(fast)) == (
        choice(middle),
        RecordUse.APPLIED,
    )


def test_what_was_measured_again_is_kept(monkeypatch, ranked):
    slow, fast = ranked[0], ranked[-1]
    older = [record(1, fast, version="old")]
    first = chosen(older, choice(slow))
    monkeypatch.setattr(chooser, "simulated_cycles", no_simulation)
    assert chosen(older, choice(slow)) == first


def test_a_choice_that_is_none_any_more_is_not_used(ranked):
    values = record(1).choice
    beyond = values | {"threads": 64}
    for wrong in (beyond, {}, values | {"threads": "2"}, values | {"tiles": {"rows": 3}}):
        for version in ("old", record().version):
            given = record(1, choice=wrong, version=version)
            assert legal_choice(given, space()) is None
            assert chosen([given], choice(0)) == (choice(0), RecordUse.NONE)


def test_no_damaged_choice_is_an_error():
    seeds = [record(place=place).choice for place in (0, 5, len(space()) - 1)]
    verdicts = []
    for seed in range(2000):
        rng = Random(seed)
        changed = changed_tree(rng.choice(seeds), rng)
        if isinstance(changed, dict):
            verdicts.append(legal_choice(record(choice=changed), space()) is not None)
    assert 100 < sum(verdicts) < len(verdicts) // 2


def test_without_records_the_default_chooses():
    using = RecordChooser(NO_RECORDS, by_simulator)
    assert using(space()) == choose.by_simulator(space())
    assert using.uses == {str(TASK): RecordUse.NONE}
