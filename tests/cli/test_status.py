"""The line of progress on a terminal."""

import io
import os

import pytest

from vdla.cli import _networks
from vdla.cli._networks import status

REPLACED = "\r\x1b[K"


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def said(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *texts: str) -> str:
    """Return what is written to standard error while texts are shown, on a terminal of 30 columns."""
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(_networks.shutil, "get_terminal_size", lambda: os.terminal_size((30, 20)))
    with status() as say:
        for text in texts:
            say(text)
    return stream.getvalue()


def test_each_text_replaces_the_one_before_and_the_last_is_wiped(monkeypatch):
    _, first, second, end = said(monkeypatch, Terminal(), "tiles 1 of 9", "tiles 2 of 9").split(REPLACED)
    assert first.endswith(" s  tiles 1 of 9")
    assert second.endswith(" s  tiles 2 of 9")
    assert end == ""


def test_a_text_stays_on_one_line_of_the_terminal(monkeypatch):
    assert len(said(monkeypatch, Terminal(), "x" * 100).split(REPLACED)[1]) == 29


def test_without_a_terminal_nothing_is_shown(monkeypatch):
    assert said(monkeypatch, io.StringIO(), "tiles") == ""
