"""The journal of a sweep: one line for each measured point, appended when it is measured.

A line is the digest of a JSON text, a space, and the text. A process that is killed while it appends leaves a
last line without an end, which the next one cuts off; its point is measured again.
"""

import os
from pathlib import Path

import msgspec

from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.measure import Measured
from vdla.hw.spec.cache import digest_of

DIGEST_DIGITS = 16


class Journal:
    """A journal that is open for appending.

    Args:
        path: of the file; it is made where it does not exist.

    Attributes:
        measured: every point in it, by number.

    Raises:
        SweepError: it cannot be opened, or a line before the last is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise SweepError(f"{path} cannot be opened: {error.strerror or error}") from error
        self.measured = self._read()

    def append(self, measured: Measured) -> None:
        """Add a point.

        Raises:
            SweepError: it cannot be written; the journal is as before.
        """
        size = os.fstat(self._file).st_size
        text = msgspec.json.encode(measured)
        line = b"%s %s\n" % (_digest(text), text)
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError as error:
            os.ftruncate(self._file, size)
            raise SweepError(
                f"{self.path} cannot be written: {error.strerror or error}; make room and run the same "
                "command again, which goes on where this one stopped"
            ) from error
        self.measured[measured.point.number] = measured

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _read(self) -> dict[int, Measured]:
        lines = self.path.read_bytes().split(b"\n")
        whole = sum(len(line) + 1 for line in lines[:-1])
        if lines[-1]:
            os.ftruncate(self._file, whole)
        found = [self._decoded(number, line) for number, line in enumerate(lines[:-1], 1)]
        return {one.point.number: one for one in found}

    def _decoded(self, number: int, line: bytes) -> Measured:
        digest, _, text = line.partition(b" ")
        if digest == _digest(text):
            try:
                return msgspec.json.decode(text, type=Measured)
            except msgspec.MsgspecError:
                pass  # written by another version of the kit, or forged
        raise SweepError(
            f"{self.path}, line {number} is damaged; delete that line, and the same command measures "
            "its point again"
        )


def _digest(text: bytes) -> bytes:
    return digest_of([text])[:DIGEST_DIGITS].encode()
