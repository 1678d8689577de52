"""Tuning logs: appended to, torn, damaged, in use, merged."""

import itertools

import pytest

from tests.compiler.codegen.tuned.records import record
from vdla.compiler.codegen.tuned.log import TuningLog, merge, read_log, write_log
from vdla.compiler.codegen.tuned.record import TuneError, merged
from vdla.hw.spec.errors import OutputError
from vdla.runtime.journal import line_of

RECORDS = [record(2000 - place, place) for place in range(6)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "log.jsonl"


def fill(path, records):
    """Append records; return the records that were there."""
    log = TuningLog(path)
    before = list(log.records)
    log.append(records)
    log.close()
    return before


def test_records_are_read_back_in_the_order_in_which_they_were_appended(path):
    assert fill(path, RECORDS[3:]) == []
    assert fill(path, RECORDS[:3]) == RECORDS[3:]
    contents = read_log(path)
    assert (list(contents.records), contents.torn) == (RECORDS[3:] + RECORDS[:3], False)


def test_a_torn_last_line_is_told_by_readers_and_cut_off_by_the_next_that_appends(path):
    fill(path, RECORDS[:2])
    path.write_bytes(path.read_bytes() + line_of(RECORDS[2].text)[:-1])
    contents = read_log(path)
    assert (list(contents.records), contents.torn) == (RECORDS[:2], True)
    log = TuningLog(path)
    assert (log.records, log.torn) == (RECORDS[:2], True)
    log.append(RECORDS[2:3])
    log.close()
    assert list(read_log(path).records) == RECORDS[:3]


@pytest.mark.parametrize(
    "text", [b"x\n", line_of(b"{}"), line_of(RECORDS[0].text.replace(b'"seed":0', b'"seed":1'))[:5] + b"\n"]
)
def test_a_damaged_line_is_named(path, text):
    fill(path, RECORDS[:1])
    path.write_bytes(path.read_bytes() + text + line_of(RECORDS[1].text))
    for use in (read_log, TuningLog):
        with pytest.raises(TuneError, match=r"log\.jsonl, line 2 is damaged; delete that line"):
            use(path)


def test_one_process_appends_at_a_time(path):
    log = TuningLog(path)
    with pytest.raises(TuneError, match="is in use by another process; wait for it, or name another log"):
        TuningLog(path)
    with pytest.raises(TuneError, match="is in use"):
        merge([path], path)
    log.close()


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(TuneError, match="cannot be read: No such file"):
        read_log(tmp_path / "none")
    with pytest.raises(OutputError, match="cannot be written: Is a directory"):
        TuningLog(tmp_path)


def test_merged_logs_hold_every_record_once_whatever_their_order(tmp_path):
    parts = [tmp_path / name for name in "abc"]
    for part, records in zip(parts, (RECORDS[:4], RECORDS[2:5], RECORDS[5:]), strict=True):
        fill(part, records)
    contents = set()
    for number, order in enumerate(itertools.permutations(parts)):
        assert merge(order, tmp_path / f"out{number}") == merged(RECORDS)
        contents.add((tmp_path / f"out{number}").read_bytes())
    assert len(contents) == 1
    assert list(read_log(tmp_path / "out0").records) == merged(RECORDS)


def test_a_file_that_would_be_lost_is_not_merged_into(tmp_path):
    source, target = tmp_path / "one", tmp_path / "other"
    fill(source, RECORDS[:1])
    fill(target, RECORDS[1:])
    with pytest.raises(TuneError, match="other exists; name it among the logs"):
        merge([source], target)
    assert merge([source, target], target) == merged(RECORDS)
    assert list(read_log(target).records) == merged(RECORDS)
    write_log(RECORDS[:2], source)
    assert list(read_log(source).records) == RECORDS[:2]
