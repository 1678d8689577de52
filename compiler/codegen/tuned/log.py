"""Tuning logs: append-only files of records, a line for each; see `vdla.runtime.journal`."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from vdla.compiler.codegen.tuned.record import Record, TuneError, merged, record_from
from vdla.hw.spec.limits import TABLE_BYTES, require_room
from vdla.hw.spec.writing import check_writable, write_bytes
from vdla.runtime.journal import Appender, Kind, Texts, line_of

KIND = Kind(
    TuneError,
    "delete that line; whatever it held is measured again where it is needed",
    "make room and run the same command again, which goes on where this one stopped",
    "wait for it, or name another log and merge the two later",
)


SHARED = ("task", "timing", "target", "version", "explorer", "status", "network")
"""Parts of a record that many records of a log have in common."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a log holds.

    Attributes:
        torn: its last line has no end, and is left out: a process was killed while it wrote.
    """

    path: Path
    records: tuple[Record, ...]
    torn: bool


def read_log(path: Path) -> Contents:
    """Read all records of a log; the file stays as it is.

    Raises:
        TuneError: it cannot be read, a line before the last is damaged, or its records take more than
            TABLE_BYTES.
    """
    with Reading(path) as log:
        records = tuple(log)
        return Contents(path, records, log.torn)


class Reading:
    """The records of a log in the order of the file; a context manager and an iterator.

    Args:
        path: of the file, which stays as it is.
        held: the reader keeps all records, which may take TABLE_BYTES; else it may have any length.

    Attributes:
        torn: the last line has no end, and is left out; known at the end.

    Raises, when it is opened or iterated:
        TuneError: as `read_log`.
    """

    def __init__(self, path: Path, *, held: bool = True) -> None:
        self.path, self._held, self.torn = path, held, False

    def __enter__(self) -> Self:
        try:
            self._file = self.path.open("rb")
        except OSError as error:
            raise self._unreadable(error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Record]:
        texts = Texts(self._file, self.path, KIND)
        try:
            for record in _records(texts, self.path):
                if self._held:
                    require_room(texts.whole, TABLE_BYTES, f"{self.path} has records of", TuneError)
                yield record
        except OSError as error:
            raise self._unreadable(error) from error
        self.torn = texts.torn

    def _unreadable(self, error: OSError) -> TuneError:
        return TuneError(f"{self.path} cannot be read: {error.strerror or error}")


class Log:
    """A log that is open for appending, by this process alone.

    Args:
        path: of the file; it is made where it does not exist, with its folder.

    Attributes:
        records: all of them, in the order of the file.
        torn: whether a torn last line was cut off.

    Raises:
        TuneError: it cannot be opened, another process appends to it, or a line before the last is damaged.
        OutputError: it cannot be written.
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

    def append(self, records: Sequence[Record]) -> None:
        """Add records.

        Raises:
            TuneError: they cannot be written; the log is as before.
        """
        self._appender.append(record.text for record in records)
        self.records += records

    def close(self) -> None:
        """Close the file."""
        self._appender.close()


def merge(logs: Sequence[Path], output: Path) -> list[Record]:
    """Write the records of several logs to a file, see `merged`; return them.

    Args:
        output: one of the logs, or a file that does not exist.

    Raises:
        TuneError: a log cannot be read or is in use, or `output` exists and is not among them.
        OutputError: the file cannot be written.
    """
    if output.exists() and not any(_same(output, log) for log in logs):
        raise TuneError(f"{output} exists; name it among the logs to keep its records, or name another file")
    records = merged(*(read_log(path).records for path in logs))
    if not output.exists():
        write_log(records, output)
        return records
    own = Appender(output, KIND, locks=True)  # while it is replaced nobody may append
    try:
        write_log(records, output)
    finally:
        own.close()
    return records


def write_log(records: Iterable[Record], output: Path) -> None:
    """Write records to a file as a log; errors as those of `write_bytes`."""
    write_bytes(output, b"".join(line_of(record.text) for record in records))


def _records(texts: Iterable[bytes], path: Path) -> Iterator[Record]:
    """Yield the records of texts; equal parts of theirs are kept in memory once."""
    parts: dict[str, str] = {}
    for number, text in enumerate(texts, 1):
        found = _record(number, text, path)
        for name in SHARED:
            part = getattr(found, name)
            object.__setattr__(found, name, parts.setdefault(part, part))
        yield found


def _record(number: int, text: bytes, path: Path) -> Record:
    try:
        return record_from(text)
    except ValueError:  # written by another version of the kit, or forged
        raise KIND.damaged(path, number) from None


def _same(one: Path, other: Path) -> bool:
    return other.exists() and os.path.samefile(one, other)
