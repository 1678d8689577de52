"""Which records a compilation uses."""

from random import Random

import pytest

from tests.compiler.codegen.tuned.records import TARGET, TASK, record
from vdla.compiler.codegen.tuned.best_records import (
    KIT,
    NO_RECORDS,
    SHIPPED,
    best_records,
    candidates_for_best,
    records_of,
    shipped_records,
)
from vdla.compiler.codegen.tuned.log import read_log, write_log
from vdla.compiler.codegen.tuned.record import TuneError
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target

KEY = str(TASK), TARGET.timing_digest


def test_records_of_another_version_count_where_they_are_better():
    current, worse, better = record(100), record(200, 1, version="old"), record(50, 2, version="old")
    best = best_records("log", [current, worse])
    assert (best.current, best.older) == ({KEY: current}, {})
    best = best_records("log", [current, worse, better])
    assert (best.current, best.older) == ({KEY: current}, {KEY: better})
    assert best_records("log", [worse]).older == {KEY: worse}


def test_the_digest_changes_with_the_best_records_of_the_target_alone():
    other = Target(TINY, MemoryParameters(65))
    base = best_records("log", [record(100)])
    same = best_records(
        "another name", [record(100), record(101, 1), record(9, target=other), record(None, 3)]
    )
    assert base.digest(TARGET) == same.digest(TARGET)
    assert base.digest(TARGET) != best_records("log", [record(99)]).digest(TARGET)
    assert base.digest(TARGET) != best_records("log", [record(100, version="old")]).digest(TARGET)
    assert base.digest(other) == NO_RECORDS.digest(other) == NO_RECORDS.digest(TARGET)


def test_the_useful_records_of_a_log_serve_as_all_of_them():
    rng = Random(0)
    other = Target(TINY, MemoryParameters(65))
    changes = [{"version": "old"}, {"target": other}, {"network": "n", "trial": 5}, {"network": "m"}, {}]
    for _ in range(30):
        records = [
            record(rng.choice((None, 5, 6, 7)), rng.randrange(3), **rng.choice(changes)) for _ in "a" * 20
        ]
        records = [entry for entry in records if not (entry.network and entry.cycles is None)]
        best, every = best_records("log", candidates_for_best(records)), best_records("log", records)
        assert (best.current, best.older, best.settled) == (every.current, every.older, every.settled)


def test_a_long_log_serves_a_compilation_and_is_not_held_in_memory(tmp_path, monkeypatch):
    write_log([record(100), record(90, 1)], tmp_path / "log")
    monkeypatch.setattr("vdla.compiler.codegen.tuned.log.TABLE_BYTES", 300)
    assert records_of(tmp_path / "log").current[KEY].cycles == 90
    with pytest.raises(TuneError, match=r"log has records of .* bytes, and the limit is 300"):
        read_log(tmp_path / "log")


def test_a_log_none_and_the_kit(tmp_path):
    write_log([record(100)], tmp_path / "log")
    (tmp_path / "log").open("ab").write(b"torn")
    best = records_of(tmp_path / "log")
    assert (best.source, best.torn, list(best.current)) == (str(tmp_path / "log"), True, [KEY])
    assert records_of("none") is NO_RECORDS
    assert records_of(None) is shipped_records()
    assert shipped_records().source == KIT


def test_what_ships_is_legal_on_some_preset_and_small():
    every = [*shipped_records().current.values(), *shipped_records().older.values()]
    assert all(entry.cycles is not None for entry in every)
    assert sum(file.stat().st_size for file in SHIPPED.glob("*.jsonl")) < 1 << 20
