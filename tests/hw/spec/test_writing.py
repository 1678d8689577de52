"""A file is written whole, or stays as it was; a killed writer leaves nothing that stays."""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading

import pytest

from tests.limits import at_most
from vdla.hw.spec import writing
from vdla.hw.spec.errors import OutputError
from vdla.hw.spec.writing import ADVICE, check_writable, whole_file, write_bytes, write_text, write_together


@pytest.fixture(params=["unnamed drafts", "named drafts"])
def drafts(request, monkeypatch):
    """Run a test with files that have no name at first, and as on file systems without such files."""
    if request.param == "named drafts":
        monkeypatch.setattr(writing, "_unnamed", lambda folder: None)
    return request.param


@pytest.mark.usefixtures("drafts")
def test_a_file_appears_with_its_contents_and_nothing_else_is_left(tmp_path):
    with whole_file(tmp_path / "new") as file:
        file.write("text")
        assert not (tmp_path / "new").exists()
    assert (tmp_path / "new").read_text() == "text"
    assert os.listdir(tmp_path) == ["new"]


@pytest.mark.usefixtures("drafts")
def test_a_file_is_replaced_and_keeps_its_permissions(tmp_path):
    (tmp_path / "old").write_text("before")
    (tmp_path / "old").chmod(0o640)
    write_text(tmp_path / "old", "after")
    assert (tmp_path / "old").read_text() == "after"
    assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["old"]


@pytest.mark.usefixtures("drafts")
def test_when_the_writer_fails_the_file_is_as_it_was(tmp_path):
    (tmp_path / "old").write_text("before")
    with pytest.raises(TypeError), whole_file(tmp_path / "old") as file:
        file.writelines(["half", None])
    assert (tmp_path / "old").read_text() == "before"
    assert os.listdir(tmp_path) == ["old"]


@pytest.mark.usefixtures("drafts")
@pytest.mark.parametrize("size", [2_000, 100_000])
@pytest.mark.parametrize("place", ["old", "new", "made/for/it"])
def test_when_the_disk_is_full_everything_is_as_it_was(tmp_path, place, size):
    (tmp_path / "old").write_text("before")
    with at_most(1000), pytest.raises(OutputError) as error:
        write_bytes(tmp_path / place, bytes(size))
    assert str(error.value) == f"{tmp_path / place} cannot be written: File too large; {ADVICE}"
    assert (tmp_path / "old").read_text() == "before"
    assert os.listdir(tmp_path) == ["old"]


@pytest.mark.usefixtures("drafts")
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_an_error_of_the_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch, call):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "old").write_text("before")
    monkeypatch.setattr(writing.os, call, full)
    with pytest.raises(OutputError, match="old cannot be written: No space left on device; name a file"):
        write_text(tmp_path / "old", "after")
    assert (tmp_path / "old").read_text() == "before"
    assert os.listdir(tmp_path) == ["old"]


def test_contents_are_on_the_disk_before_the_file_takes_its_place(tmp_path, monkeypatch):
    seen = []
    real = os.fsync
    monkeypatch.setattr(
        writing.os, "fsync", lambda file: (real(file), seen.append((tmp_path / "new").exists()))
    )
    write_text(tmp_path / "new", "text")
    assert seen == [False]


@pytest.mark.usefixtures("drafts")
@pytest.mark.parametrize("size", [2_000, 100_000])  # the stream's buffer holds the smaller whole
def test_files_that_belong_together_take_their_places_after_all_are_complete(tmp_path, size):
    first, second, last = (tmp_path / name for name in ("one", "two", "last"))
    write_together({first: "1", second: "2", last: "3"})
    with at_most(1000), pytest.raises(OutputError, match="last cannot be written: File too large"):
        write_together({first: "other", second: "other", last: "x" * size})
    assert [path.read_text() for path in (first, second, last)] == ["1", "2", "3"]
    assert len(os.listdir(tmp_path)) == 3


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "target").write_text("before")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_text(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "after"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    """Else `-o /dev/null`, by a user who may, would put a file in its place."""
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_text(tmp_path / "pipe", "text")
    reader.join(timeout=10)
    assert read == ["text"]
    assert (tmp_path / "pipe").is_fifo()


def test_a_device_that_is_full_is_named():
    with pytest.raises(
        OutputError, match=r"^/dev/full cannot be written: No space left on device; name a file"
    ):
        write_text("/dev/full", "text")


def test_missing_folders_are_made(tmp_path):
    write_text(tmp_path / "a" / "b" / "new", "text")
    assert (tmp_path / "a" / "b" / "new").read_text() == "text"


@pytest.mark.parametrize("writing_to", [check_writable, lambda path: write_text(path, "text")])
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (".", "Is a directory"),
        ("file/new", "{}/file is not a folder"),
        ("file/a/new", "{}/file is not a folder"),
        ("n" * 300, "File name too long"),
    ],
)
def test_what_cannot_be_written_is_named_with_the_reason(tmp_path, writing_to, name, reason):
    (tmp_path / "file").write_text("before")
    with pytest.raises(OutputError) as error:
        writing_to(tmp_path / name)
    assert str(error.value) == f"{tmp_path / name} cannot be written: {reason.format(tmp_path)}; {ADVICE}"
    assert (tmp_path / "file").read_text() == "before"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("flags", "reason"), [(0, "Permission denied"), (os.ST_RDONLY, "Read-only file system")]
)
def test_a_place_that_may_not_be_written_to_is_refused_before_any_work(tmp_path, monkeypatch, flags, reason):
    """Root may write everywhere, so the system's answers are given here."""
    real = os.statvfs(tmp_path)
    monkeypatch.setattr(writing.os, "access", lambda place, mode: False)
    monkeypatch.setattr(writing.os, "statvfs", lambda place: os.statvfs_result((*real[:8], flags, *real[9:])))
    with pytest.raises(OutputError, match=f"new cannot be written: {reason}; name a file"):
        check_writable(None, tmp_path / "new")


def test_a_check_makes_nothing(tmp_path):
    check_writable(tmp_path / "a" / "new")
    assert os.listdir(tmp_path) == []


WRITER = """
import os, sys
from pathlib import Path
from vdla.hw.spec import writing
if sys.argv[2] == "named drafts":
    writing._unnamed = lambda folder: None
with writing.whole_file(Path(sys.argv[1]) / "new") as file:
    file.write("half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def writer(tmp_path, drafts):
    """Start a process that has written half of a file."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, tmp_path, drafts], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"writing\n"
        yield process


def test_a_killed_writer_leaves_nothing_behind_the_next_write(tmp_path, writer, drafts):
    writer.send_signal(signal.SIGKILL)
    writer.wait(timeout=10)
    left = os.listdir(tmp_path)
    assert len(left) == (drafts == "named drafts")
    assert all(writing.DRAFT_NAME.fullmatch(name) for name in left)
    write_text(tmp_path / "other", "text")
    assert os.listdir(tmp_path) == ["other"]


def test_a_writer_that_lives_is_not_disturbed(tmp_path, writer):
    write_text(tmp_path / "other", "text")
    writer.communicate(timeout=10)
    assert writer.returncode == 0
    assert (tmp_path / "new").read_text() == "half"
    assert sorted(os.listdir(tmp_path)) == ["new", "other"]


def test_a_draft_that_another_process_took_for_abandoned_is_made_anew(tmp_path, monkeypatch):
    """It was not locked yet, and is deleted; its descriptor is given back."""
    real, taken = writing.fcntl.flock, []

    def locked(file: int, how: int) -> None:
        if not taken:
            (name,) = tmp_path.iterdir()
            taken.append(name)
            name.unlink()
        real(file, how)

    monkeypatch.setattr(writing, "_unnamed", lambda folder: None)
    monkeypatch.setattr(writing.fcntl, "flock", locked)
    before = os.listdir("/proc/self/fd")
    write_text(tmp_path / "new", "text")
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert len(taken) == 1
    assert os.listdir(tmp_path) == ["new"]
    assert (tmp_path / "new").read_text() == "text"
