"""Journals: whole lines are kept, a torn line is cut off, a damaged line refused."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.limits import at_most
from vdla.hw.spec.errors import VdlaError
from vdla.runtime.journal import Appender, Kind, Texts, line_of

KIND = Kind(VdlaError, "delete it", "make room", "wait for it")
TEXTS = [b'{"a": 1}', b"[]", b'"x y"']


@pytest.fixture
def path(tmp_path):
    return tmp_path / "j.jsonl"


def append(path, texts, **options):
    """Append texts; return the texts that were there."""
    journal = Appender(path, KIND, **options)
    assert not journal.torn
    earlier_texts = list(journal.texts())
    journal.append(texts)
    journal.close()
    return earlier_texts


def read(path):
    """Return texts, the bytes of whole lines, and whether the last was torn."""
    with path.open("rb") as file:
        texts = Texts(file, path, KIND)
        return list(texts), texts.whole, texts.torn


def test_what_is_appended_is_read_back(path):
    assert append(path, TEXTS[:2]) == []
    assert append(path, TEXTS[2:]) == TEXTS[:2]
    assert path.read_bytes() == b"".join(map(line_of, TEXTS))
    assert read(path) == (TEXTS, path.stat().st_size, False)


@pytest.mark.parametrize("cut", range(1, len(line_of(TEXTS[1]))))
def test_a_torn_last_line_is_left_out_by_readers_and_cut_off_by_the_next_that_appends(path, cut):
    first, second = map(line_of, TEXTS[:2])
    path.write_bytes(first + second[:-cut])
    assert read(path) == (TEXTS[:1], len(first), True)
    journal = Appender(path, KIND)
    assert (list(journal.texts()), journal.torn) == (TEXTS[:1], True)
    journal.append([TEXTS[2]])
    journal.close()
    assert path.read_bytes() == first + line_of(TEXTS[2])


@pytest.mark.parametrize("place", range(len(line_of(TEXTS[0])) - 1))
def test_any_altered_byte_of_a_whole_line_is_a_damaged_line(path, place):
    data = bytearray(line_of(TEXTS[1]) + line_of(TEXTS[0]))
    data[len(line_of(TEXTS[1])) + place] ^= 1
    path.write_bytes(data)
    with pytest.raises(VdlaError, match=r"j\.jsonl, line 2 is damaged; delete it"):
        read(path)
    journal = Appender(path, KIND)
    with pytest.raises(VdlaError, match="line 2 is damaged"):
        list(journal.texts())
    journal.close()


def test_one_process_appends_at_a_time_where_it_is_locked(path):
    first = Appender(path, KIND, locks=True)
    files = os.listdir("/proc/self/fd")
    with pytest.raises(VdlaError, match="is in use by another process; wait for it"):
        Appender(path, KIND, locks=True)
    assert os.listdir("/proc/self/fd") == files
    first.close()
    assert len(os.listdir("/proc/self/fd")) == len(files) - 1
    assert append(path, TEXTS, locks=True) == []


def test_a_full_disk_leaves_it_as_before(path):
    append(path, TEXTS)
    before = path.read_bytes()
    journal = Appender(path, KIND)
    assert list(journal.texts()) == TEXTS
    with at_most(len(before) + 10), pytest.raises(VdlaError, match="File too large; make room"):
        journal.append([b'"long enough to be cut"'])
    journal.close()
    assert path.read_bytes() == before


def test_a_line_without_end_is_not_read_as_a_whole(path, monkeypatch):
    monkeypatch.setattr("vdla.runtime.journal.LONGEST_LINE", 100)
    path.write_bytes(line_of(TEXTS[0]) + b"x" * 200)
    with pytest.raises(VdlaError, match="line 2 is damaged"):
        read(path)


def test_a_folder_is_no_journal(tmp_path):
    with pytest.raises(VdlaError, match="cannot be opened: Is a directory"):
        Appender(tmp_path, KIND)


def test_several_may_append_where_it_is_not_locked(path):
    first, second = Appender(path, KIND), Appender(path, KIND)
    for journal, text in ((first, TEXTS[0]), (second, TEXTS[1])):
        list(journal.texts())
        journal.append([text])
        journal.close()
    assert read(path)[0] == TEXTS[:2]


def test_a_journal_that_was_replaced_is_in_use(path, monkeypatch):
    first = Appender(path, KIND, locks=True)
    path.unlink()
    with pytest.raises(VdlaError, match=r"is in use by another process; wait for it$"):
        first._lock()
    path.write_bytes(b"")
    with pytest.raises(VdlaError, match="is in use by another process"):
        first._lock()
    first.close()


@pytest.mark.parametrize(("length", "is_read"), [(99, True), (100, True), (101, False)])
def test_a_whole_line_may_have_the_greatest_length(path, monkeypatch, length, is_read):
    text = b"x" * (length - 18)  # behind 16 digits and a space, before the line's end
    path.write_bytes(line_of(text))
    assert path.stat().st_size == length
    monkeypatch.setattr("vdla.runtime.journal.LONGEST_LINE", 100)
    if is_read:
        assert read(path) == ([text], length, False)
    else:
        with pytest.raises(VdlaError, match=r"j\.jsonl, line 1 is damaged; delete it$"):
            read(path)


def test_nothing_is_appended_before_what_is_there_was_read(path):
    journal = Appender(path, KIND)
    with pytest.raises(AssertionError, match="are read first"):
        journal.append([TEXTS[0]])
    journal.close()
    assert path.read_bytes() == b""


def test_at_most_64_mebibytes_are_read_at_a_time():
    asked = []
    file = SimpleNamespace(readline=lambda size: asked.append(size) or b"")
    assert list(Texts(file, Path("j"), KIND)) == []
    assert asked == [64 * 1024 * 1024]


def test_a_journal_without_a_torn_line_is_not_cut(path, monkeypatch):
    path.write_bytes(line_of(TEXTS[0]))
    monkeypatch.setattr(
        os, "ftruncate", lambda *_: pytest.fail("another process may have appended meanwhile")
    )
    assert append(path, [TEXTS[1]]) == TEXTS[:1]


def test_a_journal_is_made_for_everybody_whom_the_umask_lets(path):
    before = os.umask(0o022)
    try:
        Appender(path, KIND).close()
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_journal_that_was_deleted_cannot_be_read(path):
    journal = Appender(path, KIND)
    path.unlink()
    with pytest.raises(VdlaError, match=r"j\.jsonl cannot be read: No such file or directory$"):
        list(journal.texts())
    journal.close()
