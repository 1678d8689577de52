"""Progress on a terminal and elsewhere, and what `vdla tune` shows of it."""

import io
import os

import pytest

from vdla.cli import _live
from vdla.cli._live import Live, duration
from vdla.cli._tuning import described, table
from vdla.explore.tune.gain import Standing
from vdla.explore.tune.session import Progress


class Terminal(io.StringIO):
    """A terminal, which shows what is written to it."""

    def isatty(self):
        return True

    @property
    def lines(self):
        """The lines that stand there."""
        lines = [""]
        for part in self.getvalue().replace("\x1b[A", "\x00").replace("\x1b[K", "\x01"):
            match part:
                case "\n":
                    lines.append("")
                case "\x00":
                    lines.pop()
                case "\x01":
                    lines[-1] = ""
                case "\r":
                    pass
                case _:
                    lines[-1] += part
        return lines


@pytest.fixture
def clock(monkeypatch):
    """Return the time, which tests set."""
    now = [0.0]
    monkeypatch.setattr(_live.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(_live.shutil, "get_terminal_size", lambda: os.terminal_size((12, 5)))
    return now


def test_a_terminal_shows_the_last_state_alone_and_nothing_at_the_end(clock):
    terminal = Terminal()
    with Live(terminal, lambda state: f"state {state}", lambda state: ["row"] * state) as live:
        for state in (3, 1, 2):
            live.show(state)
            assert terminal.lines == ["row"] * state + [f"state {state}"]
            clock[0] += 1
        live.show(9)
        assert terminal.lines == ["row"] * 3 + ["state 9"], "as many as fit"
        live.show(1)
        assert terminal.lines[-1] == "state 9", "it was shown just now"
    assert terminal.lines == [""]


def test_long_lines_are_cut(clock):
    terminal = Terminal()
    Live(terminal, lambda state: "0123456789abcdef").show(None)
    assert terminal.lines == ["0123456789a"]


def test_elsewhere_there_is_a_line_now_and_then(clock):
    stream = io.StringIO()
    with Live(stream, str, lambda state: ["never"]) as live:
        for state in range(4):
            live.show(state)
            clock[0] += 20
    assert stream.getvalue() == "0\n2\n"


@pytest.mark.parametrize(("seconds", "text"), [(5.4, "5 s"), (65, "1 min 5 s"), (7260, "2 h 1 min")])
def test_durations_in_the_two_largest_units(seconds, text):
    assert duration(seconds) == text


STANDINGS = (
    Standing(["a"], 100, 50, 90, trials=3),
    Standing(["b", "c"], 1000, 400, 1000, trials=8),
)


def progress(**changes):
    values = {
        "trials": 11, "total": 40, "resumed": 1, "measured": 10, "failed": 2, "seconds": 4.0,
        "remaining_seconds": 61.0, "standings": STANDINGS, "searched": 0, "parts": (1.0, 2.0, 3.0),
    }  # fmt: skip
    return Progress(**(values | changes))


def test_the_progress_of_a_tuning_is_a_line():
    text = "11 of 40 trials, -0.48% cycles, 2 illegal, 2.5 trials/s, 1 min 1 s left"
    assert described(progress()) == text
    begin = progress(trials=0, total=None, measured=0, failed=0, remaining_seconds=None, standings=())
    assert described(begin) == "0 trials, +0.00% cycles"


def test_the_layers_of_a_tuning_are_rows_with_most_cycles_first():
    assert table(progress()) == [
        "  layer         default   best   change  bound  trials",
        "  b and 1 more    1,000  1,000   +0.00%    400       8",
        "> a                 100     90  -10.00%     50       3",
    ]
    assert table(progress(standings=(), searched=None)) == []
