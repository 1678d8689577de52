"""Files kept between processes: whole, each under its key, and no more than there is room for."""

import os
from pathlib import Path

import pytest

from tests.limits import at_most
from vdla.hw.spec import shelf
from vdla.hw.spec.shelf import DIGEST_BYTES, Shelf

SHELF = Shelf("things", 3 * (DIGEST_BYTES + 5))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    return tmp_path / "things"


def names() -> set[str]:
    return set(os.listdir(SHELF.folder))


def test_entries_are_read_back():
    assert SHELF.read("key") is None
    SHELF.write("key", b"entry")
    assert SHELF.read("key") == b"entry"
    assert names() == {"key"}


def flipped(data: bytes) -> bytes:
    return data[:-2] + bytes([data[-2] ^ 1]) + data[-1:]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], flipped, lambda data: b"", lambda data: data + b"x"]
)
def test_damaged_entries_are_not_used_and_can_be_written_again(folder, damage):
    SHELF.write("key", b"entry")
    (folder / "key").write_bytes(damage((folder / "key").read_bytes()))
    assert SHELF.read("key") is None
    SHELF.write("key", b"entry")
    assert SHELF.read("key") == b"entry"


def test_an_entry_under_another_key_is_not_used(folder):
    SHELF.write("key", b"entry")
    (folder / "key").rename(folder / "other")
    assert SHELF.read("other") is None


def test_the_entries_used_least_recently_make_way(folder):
    for age, key in enumerate("abc"):
        SHELF.write(key, b"entry")
        os.utime(folder / key, (age, age))
    assert SHELF.read("a") == b"entry"
    SHELF.write("d", b"entry")
    assert names() == {"a", "c", "d"}


def test_what_takes_more_than_all_the_room_is_not_kept():
    most = bytes(SHELF.most_bytes - DIGEST_BYTES)
    SHELF.write("key", most)
    assert SHELF.read("key") == most
    SHELF.write("more", most + b"x")
    assert names() == {"key"}


@pytest.mark.parametrize(("last", "kept"), [(b"entry", {"a", "b", "c"}), (b"entry.", {"b", "c"})])
def test_all_entries_together_take_as_much_as_there_is_room(folder, last, kept):
    for age, (key, data) in enumerate({"a": b"entry", "b": b"entry", "c": last}.items()):
        SHELF.write(key, data)
        os.utime(folder / key, (age, age))
    assert names() == kept


def test_entries_that_another_process_deletes_meanwhile_do_not_count(folder, monkeypatch):
    for age, key in enumerate("abc"):
        SHELF.write(key, b"entry")
        os.utime(folder / key, (age, age))
    listed, real = [], Path.iterdir
    monkeypatch.setattr(
        Path,
        "iterdir",
        lambda folder: listed or (listed.extend(real(folder)), (folder / "b").unlink(), listed)[-1],
    )
    SHELF.write("d", b"entry")
    assert names() == {"a", "c", "d"}


def test_a_full_disk_leaves_no_half_of_an_entry():
    SHELF.write("key", b"entry")
    with at_most(1000):
        Shelf("things", 1 << 20).write("big", bytes(100_000))
    assert names() == {"key"}


def test_a_cache_that_cannot_be_written_to_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("a file where the folder should be")
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path / "file"))
    SHELF.write("key", b"entry")
    assert SHELF.read("key") is None


def test_entries_that_are_gone_before_they_make_way_are_no_error(folder, monkeypatch):
    for age, key in enumerate("abcd", 1):
        (folder / key).parent.mkdir(exist_ok=True)
        (folder / key).write_bytes(bytes(DIGEST_BYTES + 5))
        os.utime(folder / key, (age, age))
    monkeypatch.setattr(shelf, "_used", lambda file: (0, 1 << 20) if file.name == "gone" else used(file))
    told: list[Exception] = []
    used, real = (lambda file: (file.stat().st_mtime, file.stat().st_size)), Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda folder: [*real(folder), folder / "gone"])
    monkeypatch.setattr(shelf, "tell_unusable", told.append)
    SHELF.write("e", b"entry")
    assert set(os.listdir(SHELF.folder)) == {"c", "d", "e"}
    assert not told


def test_entries_that_just_fit_are_kept():
    SHELF.write("key", bytes(SHELF.most_bytes - DIGEST_BYTES))
    assert SHELF.read("key") == bytes(SHELF.most_bytes - DIGEST_BYTES)
    SHELF.write("other", bytes(SHELF.most_bytes - DIGEST_BYTES + 1))
    assert names() == {"key"}


def test_room_is_made_for_many_small_entries_once_for_all(folder, monkeypatch):
    """Not at each of them, which would list the folder each time."""
    small = Shelf("small", 1000 * (DIGEST_BYTES + 1))
    listed, real = [], Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda folder: (listed.append(folder), real(folder))[1])
    for number in range(1200):
        small.write(f"{number:04}", b"x")
        os.utime(small.folder / f"{number:04}", (number, number))
    kept = sorted(os.listdir(small.folder))
    assert 1000 <= len(kept) <= 1000 * 65 / 64
    assert kept[-1] == "1199"
    assert kept == [f"{number:04}" for number in range(1200 - len(kept), 1200)]
    assert len(listed) < 100
