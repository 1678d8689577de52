"""The cache's folder, and what is said where it cannot be used."""

import logging
from pathlib import Path

import pytest

from vdla.hw.spec import cache


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch):
    monkeypatch.setattr(cache, "_told", set())
    for name in ("VDLA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("settings", "folder"),
    [
        ({"VDLA_CACHE_DIR": "/a/../b"}, "/b"),
        ({"VDLA_CACHE_DIR": "~/b", "HOME": "/h"}, "/h/b"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/vdla"),
        ({"HOME": "/h"}, "/h/.cache/vdla"),
        ({"HOME": "/h", "VDLA_CACHE_DIR": ""}, "/h/.cache/vdla"),
    ],
)
def test_the_folder_is_where_the_environment_says(monkeypatch, settings, folder):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert cache.cache_folder() == Path(folder)


def test_the_home_of_nobody_is_no_folder(monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", "~nouser/x")
    with pytest.raises(FileNotFoundError, match=r"'~nouser/x' is in the home of a user who does not exist"):
        cache.cache_folder()


def test_a_user_without_a_home_has_no_folder(monkeypatch):
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(FileNotFoundError, match="this user has no home"):
        cache.cache_folder()


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        (
            "/c",
            "the cache folder /c cannot be used (Read-only file system), so nothing is kept for the next ",
        ),
        ("~nouser/x", "the cache folder cannot be used (Read-only file system), so nothing is kept for the "),
        ("/c\nd" + "e" * 5000, "the cache folder "),
    ],
)
def test_a_cache_that_cannot_be_used_is_told_once_on_one_line(monkeypatch, caplog, setting, told):
    monkeypatch.setenv("VDLA_CACHE_DIR", setting)
    with caplog.at_level(logging.WARNING, "vdla"):
        for _ in range(3):
            cache.tell_unusable(OSError(30, "Read-only file system"))
    (message,) = caplog.messages
    assert message.startswith(told)
    assert message.endswith("name another folder with VDLA_CACHE_DIR")
    assert "\n" not in message
    assert len(message) < 500


@pytest.mark.parametrize(("length", "cut"), [(200, ""), (201, "...")])
def test_long_names_and_reasons_are_cut_to_200_characters(monkeypatch, caplog, length, cut):
    name, reason = "/" + "n" * (length - 1), "r" * length
    monkeypatch.setenv("VDLA_CACHE_DIR", name)
    with caplog.at_level(logging.WARNING, "vdla"):
        cache.tell_unusable(ValueError(reason))
    kept = 200 - len(cut)
    assert caplog.messages == [
        f"the cache folder {name[:kept]}{cut} cannot be used ({reason[:kept]}{cut}), so nothing is kept for the "
        "next command; name another folder with VDLA_CACHE_DIR"
    ]


def test_the_error_of_the_system_that_caused_another_is_told(caplog):
    error = ValueError("not this")
    error.__cause__ = OSError(28, "No space left on device")
    with caplog.at_level(logging.WARNING, "vdla"):
        cache.tell_unusable(error)
    assert "cannot be used (No space left on device), so" in caplog.text
    other = ValueError("this")
    other.__cause__ = KeyError("not this")
    cache._told.clear()
    with caplog.at_level(logging.WARNING, "vdla"):
        cache.tell_unusable(other)
    assert "cannot be used (this), so" in caplog.text


def test_a_digest_tells_where_parts_end_and_is_that_of_stored_keys():
    assert cache.digest_of(["ab", "c"]) == cache.digest_of([b"ab", "c"])
    parts = (["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""], ["c", "ab"], [])
    assert len({cache.digest_of(texts) for texts in parts}) == len(parts)
    assert cache.digest_of(["ab", b"c"]).startswith("43ee655579de01ca")


def test_a_digest_of_files_is_of_names_and_contents_below_a_folder(tmp_path):
    def digest() -> str:
        return cache.digest_of_files(tmp_path, "*.py")

    digests = [digest()]
    for name, text in (("a.py", "1"), ("a.py", "2"), ("b.py", "2"), ("inner/a.py", "1")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        digests.append(digest())
    (tmp_path / "b.py").rename(tmp_path / "c.py")
    digests.append(digest())
    assert len(set(digests)) == len(digests)
    (tmp_path / "other.txt").write_text("not of the pattern")
    assert digest() == digests[-1]
