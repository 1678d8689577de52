"""Journals: files of lines that are only appended to.

A line is the digest of a JSON text, a space, and the text. A process that is killed while it appends leaves a
last line without an end: readers leave it out, and the next process that appends cuts it off. Lines are
written to the system, not synced to the disk: after a crash of the operating system the last may be missing.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.errors import VdlaError

DIGEST_DIGITS = 16
LONGEST_LINE = 1 << 26


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of journal, for its messages.

    Attributes:
        error: raised where a journal cannot be read or written.
        cure: what to do about a damaged line.
        again: what makes good what a full disk did not take.
        busy: what to do where another process appends; of journals that lock themselves.
    """

    error: type[VdlaError]
    cure: str
    again: str
    busy: str = ""

    def damaged(self, path: Path, number: int) -> VdlaError:
        """Return the error of a damaged line, which counts from 1."""
        return self.error(f"{path}, line {number} is damaged; {self.cure}")


def line_of(text: bytes) -> bytes:
    """Return a JSON text without line ends as a line."""
    return b"%s %s\n" % (_digest(text), text)


class Texts:
    """The texts of a journal's lines, in order; an iterator that holds one line at a time.

    Args:
        file: the journal, open for reading.
        path: its name, for messages.

    Attributes:
        whole: bytes of the lines so far.
        torn: the last line has no end, and is left out; known at the end.

    Raises, when it is iterated:
        VdlaError: of the kind; a line before the last is damaged.
        OSError: the file cannot be read.
    """

    def __init__(self, file: IO[bytes], path: Path, kind: Kind) -> None:
        self._file, self._path, self._kind = file, path, kind
        self.whole, self.torn = 0, False

    def __iter__(self) -> Iterator[bytes]:
        number = 0
        while line := self._file.readline(LONGEST_LINE):
            number += 1
            if not line.endswith(b"\n"):
                if len(line) == LONGEST_LINE:
                    raise self._kind.damaged(self._path, number)
                self.torn = True
                return
            text = _text(line[:-1], number, self._path, self._kind)
            self.whole += len(line)
            yield text


def _text(line: bytes, number: int, path: Path, kind: Kind) -> bytes:
    digest, _, text = line.partition(b" ")
    if digest != _digest(text):
        raise kind.damaged(path, number)
    return text


def _digest(text: bytes) -> bytes:
    return digest_of([text])[:DIGEST_DIGITS].encode()


class Appender:
    """A journal that is open for appending. Its texts are read first.

    Args:
        path: of the file; it is made where it does not exist.
        locks: nobody else may append meanwhile. The system releases the lock when the process ends.

    Attributes:
        torn: whether a torn line was cut off.

    Raises:
        VdlaError: of the kind; the file cannot be opened, or is in use.
    """

    def __init__(self, path: Path, kind: Kind, *, locks: bool = False) -> None:
        self.path, self._kind = path, kind
        self.torn = self._is_read = False
        self._file = self._opened()
        try:
            if locks:
                self._lock()
        except BaseException:
            self.close()
            raise

    def texts(self) -> Iterator[bytes]:
        """Yield the texts of the lines that are there, in order; then cut off a torn last line.

        Raises:
            VdlaError: of the kind; a line before the last is damaged, or the file cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                yield from (texts := Texts(file, self.path, self._kind))
        except OSError as error:
            raise self._kind.error(f"{self.path} cannot be read: {error.strerror or error}") from error
        self.torn, self._is_read = texts.torn, True
        if texts.torn:
            os.ftruncate(self._file, texts.whole)

    def append(self, texts: Iterable[bytes]) -> None:
        """Add a line for each text.

        Raises:
            VdlaError: of the kind; they cannot be written, and the journal is as before.
        """
        assert self._is_read, "the lines that are there are read first, so that a torn one is cut off"
        size = os.fstat(self._file).st_size
        data = b"".join(map(line_of, texts))
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            os.ftruncate(self._file, size)
            raise self._kind.error(
                f"{self.path} cannot be written: {error.strerror or error}; {self._kind.again}"
            ) from error

    def close(self) -> None:
        """Close the file, which ends its lock."""
        os.close(self._file)

    def _opened(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise self._kind.error(f"{self.path} cannot be opened: {error.strerror or error}") from error

    def _lock(self) -> None:
        """Lock the file, which may not have been replaced meanwhile."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            replaced = not os.path.samestat(os.fstat(self._file), self.path.stat())
        except OSError:  # locked, or deleted
            replaced = True
        if replaced:
            raise self._kind.error(f"{self.path} is in use by another process; {self._kind.busy}")
