"""Progress of long work: lines that are replaced on a terminal, a line now and then elsewhere."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TextIO, TypeVar

LEAST_SECONDS = 0.2  # between two texts on a terminal
LOG_SECONDS = 30.0  # between two lines elsewhere
ERASE = "\r\x1b[K"  # the line in which the cursor is
ERASE_ABOVE = "\x1b[A\x1b[K"

State = TypeVar("State")


class Live(Generic[State]):
    """Shows how far work is.

    Args:
        stream: where it is written.
        described: returns a state as a line.
        details: returns more lines for a terminal, which stand before that line; as many as fit are shown.
    """

    def __init__(
        self,
        stream: TextIO,
        described: Callable[[State], str],
        details: Callable[[State], list[str]] = lambda state: [],
    ) -> None:
        self._stream, self._terminal = stream, stream.isatty()
        self._described, self._details = described, details
        self._last, self._lines = float("-inf"), 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._terminal:
            self._stream.write(self._erased())
            self._stream.flush()

    def show(self, state: State) -> None:
        """Show a state, unless the last was shown just now."""
        now = time.monotonic()
        if now - self._last < (LEAST_SECONDS if self._terminal else LOG_SECONDS):
            return
        self._last = now
        if self._terminal:
            size = shutil.get_terminal_size()
            lines = [*self._details(state)[: size.lines - 2], self._described(state)]
            self._stream.write(self._erased() + "\n".join(line[: size.columns - 1] for line in lines))
            self._lines = len(lines)
        else:
            self._stream.write(f"{self._described(state)}\n")
        self._stream.flush()

    def _erased(self) -> str:
        """Return what erases the lines that were shown."""
        above, self._lines = max(self._lines - 1, 0), 0
        return ERASE + ERASE_ABOVE * above


def interrupted(place: Path, count: int, things: str) -> str:
    """Return what interrupted work prints, which the same command goes on with: where it keeps how many
    things."""
    return f"{place} keeps {count:,} {things}; the same command goes on from there"


def duration(seconds: float) -> str:
    """Return a duration in the two largest units."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
