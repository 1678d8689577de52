"""A file is written whole, or stays as it was."""

import os
import threading

import pytest

from vdla.hw.spec.errors import OutputError
from vdla.sim.trace.files import whole_file


def test_a_file_appears_with_its_contents_and_nothing_else_is_left(tmp_path):
    with whole_file(tmp_path / "new") as file:
        file.write("text")
        assert not (tmp_path / "new").exists()
    assert (tmp_path / "new").read_text() == "text"
    assert os.listdir(tmp_path) == ["new"]


def test_when_writing_fails_the_file_is_as_it_was(tmp_path):
    (tmp_path / "old").write_text("before")
    with pytest.raises(TypeError), whole_file(tmp_path / "old") as file:
        file.writelines(["half", None])
    assert (tmp_path / "old").read_text() == "before"
    assert os.listdir(tmp_path) == ["old"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "target").write_text("before")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with whole_file(tmp_path / "link") as file:
        file.write("after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "after"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    """Else `-o /dev/null`, by a user who may, would put a file in its place."""
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    with whole_file(tmp_path / "pipe") as file:
        file.write("text")
    reader.join(timeout=10)
    assert read == ["text"]
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(("name", "reason"), [("missing/new", "No such file or directory"), (".", "Is a directory")])
def test_what_cannot_be_written_is_named(tmp_path, name, reason):
    path = tmp_path / name
    with pytest.raises(OutputError) as error, whole_file(path):
        pass
    assert str(error.value) == f"{path} cannot be written: {reason}; name a file in a folder that exists, has room and may be written to"
    assert os.listdir(tmp_path) == []
