"""What `vdla sweep` prints."""

import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from vdla.explore.sweep.run import Progress

LEAST_SECONDS = 0.2  # between two lines on a terminal
LOG_SECONDS = 30.0  # between two lines elsewhere


class Line:
    """Progress: one line that is replaced on a terminal, a line now and then elsewhere.

    Args:
        stream: where it is written.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._terminal = stream, stream.isatty()
        self._last = float("-inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def show(self, progress: "Progress") -> None:
        """Show progress, unless the last was shown just now."""
        now = time.monotonic()
        if now - self._last < (LEAST_SECONDS if self._terminal else LOG_SECONDS):
            return
        self._last = now
        text = described(progress)
        self._stream.write(f"\r\x1b[K{text}" if self._terminal else f"{text}\n")
        self._stream.flush()


def described(progress: "Progress") -> str:
    """Return progress as a line."""
    parts = [f"{progress.done:,} of {progress.total:,} points"]
    if progress.failed:
        parts.append(f"{progress.failed:,} without cycles")
    if progress.remaining_seconds is not None:
        parts.append(f"{progress.rate:.2f} points/s, {duration(progress.remaining_seconds)} left")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Return a duration in the two largest units."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def conclusion(output: Path, done: "Progress") -> str:
    """Return what a finished sweep prints."""
    measured = done.done - done.resumed
    lines = [
        f"{output}: {done.total:,} points, {measured:,} of them measured now in {duration(done.seconds)}"
    ]
    if done.failed:
        lines.append(f"{done.failed:,} points lack cycles of some workload: the column status says why")
    lines.append(f"{output / 'points.parquet'}, {output / 'layers.parquet'}")
    return "\n".join(lines)
