"""Tuning logs: append-only files with a record per line; see `vdla.runtime.journal`."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vdla.compiler.codegen.tuned.record import TuneError, TuningRecord, merged, record_from
from vdla.hw.spec.limits import TABLE_BYTES, require_room
from vdla.hw.spec.writing import check_writable, write_bytes
from vdla.runtime.journal import Appender, Kind, Texts, line_of

KIND = Kind(
    TuneError,
    "delete that line; its measurements are repeated if they are needed",
    "make room and run the same command again, which continues from here",
    "wait for it, or name another log and merge the two later",
)


SHARED = ("task", "timing", "target", "version", "explorer", "status", "network")
"""Fields whose values many records of a log have in common."""


Keep = Callable[[Iterable[TuningRecord]], Iterable[TuningRecord]]


@dataclass(frozen=True, slots=True)
class LogContents:
    """The contents of a log, or the records of them that were kept.

    Attributes:
        torn: the last line is incomplete, because a process was killed during a write; it is ignored.
    """

    path: Path
    records: tuple[TuningRecord, ...]
    torn: bool


def read_log(path: Path, keep: Keep | None = None) -> LogContents:
    """Read a log without changing the file.

    Args:
        keep: returns the records to keep, of a log of any length; None: all are kept.

    Raises:
        TuneError: the file cannot be read, a line before the last is damaged, or all records are kept and
            exceed TABLE_BYTES.
    """
    try:
        with path.open("rb") as file:
            texts = Texts(file, path, KIND)
            records = keep(_records(texts, path)) if keep is not None else _records_that_fit(texts, path)
            return LogContents(path, tuple(records), texts.torn)
    except OSError as error:
        raise TuneError(f"{path} cannot be read: {error.strerror or error}") from error


def _records_that_fit(texts: Texts, path: Path) -> list[TuningRecord]:
    records = []
    for record in _records(texts, path):
        require_room(texts.whole, TABLE_BYTES, f"{path} has records of", TuneError)
        records.append(record)
    return records


class TuningLog:
    """A log that is open for appending; other processes are locked out.

    Args:
        path: path of the file, which is created with its folder if it does not exist.

    Attributes:
        records: all records, in the order of the file.
        torn: whether an incomplete last line was removed.

    Raises:
        TuneError: the file cannot be opened, another process appends to it, or a line before the last is
            damaged.
        OutputError: the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        check_writable(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._appender = Appender(path, KIND, locks=True)
        try:
            self.records = list(_records(self._appender.texts(), path))
        except TuneError:
            self.close()
            raise
        self.torn = self._appender.torn

    def append(self, records: Sequence[TuningRecord]) -> None:
        """Append records.

        Raises:
            TuneError: the records cannot be written; the log is unchanged.
        """
        self._appender.append(record.text for record in records)
        self.records += records

    def close(self) -> None:
        """Close the file."""
        self._appender.close()


def merge(logs: Sequence[Path], output: Path) -> list[TuningRecord]:
    """Write the merged records of several logs to a file, see `merged`; return the records.

    Args:
        output: a log of `logs`, or a file that does not exist.

    Raises:
        TuneError: a log cannot be read or is in use, or `output` exists and is not in `logs`.
        OutputError: the file cannot be written.
    """
    if output.exists() and not any(_same(output, log) for log in logs):
        raise TuneError(f"{output} exists; name it among the logs to keep its records, or name another file")
    records = merged(*(read_log(path).records for path in logs))
    if not output.exists():
        write_log(records, output)
        return records
    lock = Appender(output, KIND, locks=True)  # no process may append during the replacement
    try:
        write_log(records, output)
    finally:
        lock.close()
    return records


def write_log(records: Iterable[TuningRecord], output: Path) -> None:
    """Write records to a file as a log; raises the errors of `write_bytes`."""
    write_bytes(output, b"".join(line_of(record.text) for record in records))


def _records(texts: Iterable[bytes], path: Path) -> Iterator[TuningRecord]:
    """Parse records; equal values of the fields in SHARED are stored in memory once."""
    values: dict[str, str] = {}
    for number, text in enumerate(texts, 1):
        record = _record(number, text, path)
        for name in SHARED:
            value = getattr(record, name)
            object.__setattr__(record, name, values.setdefault(value, value))
        yield record


def _record(number: int, text: bytes, path: Path) -> TuningRecord:
    try:
        return record_from(text)
    except ValueError:  # written by another version of the kit, or forged
        raise KIND.damaged(path, number) from None


def _same(output: Path, log: Path) -> bool:
    return log.exists() and os.path.samefile(output, log)
