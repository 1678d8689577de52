"""Files kept between processes, each with a digest: an altered, cut or renamed file counts as missing.

So entries need not be synced to the disk, which costs more than many of them: after a crash of the operating
system entries may be missing.
"""

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vdla.hw.spec.cache import cache_folder, tell_unusable
from vdla.hw.spec.errors import OutputError
from vdla.hw.spec.writing import DRAFT_NAME, write_bytes

DIGEST_BYTES = 32
CHECKS = 64  # the room is checked when entries of 1/64 of it have been written
_unchecked: dict[Path, int] = {}  # bytes that this process has written into a folder since the last check


@dataclass(frozen=True, slots=True)
class Shelf:
    """Entries of one kind in the kit's cache, by key; the entries that were used least recently make way.

    Attributes:
        kind: name of their folder.
        most_bytes: that all of them may take, but for 1/64 that each process may add before it makes room.
    """

    kind: str
    most_bytes: int

    @property
    def folder(self) -> Path:
        """Where the entries are; errors as in `cache_folder`."""
        return cache_folder() / self.kind

    def read(self, key: str) -> bytes | None:
        """Return the entry of a key (hex); None where there is none, or only a part of it."""
        try:
            file = self.folder / key
            stored = file.read_bytes()
        except OSError:
            return None
        data = stored[DIGEST_BYTES:]
        if stored[:DIGEST_BYTES] != _digest(key, data):
            return None
        with suppress(OSError):  # a folder that may not be written to forgets nothing either
            os.utime(file)
        return data

    def write(self, key: str, *parts: bytes) -> None:
        """Keep the bytes of all `parts` under a key; where the folder cannot be written to, say so once."""
        size = sum(map(len, parts)) + DIGEST_BYTES
        if size > self.most_bytes:
            return
        try:
            write_bytes(self.folder / key, _digest(key, *parts), *parts, synced=False)
            added = _unchecked.get(self.folder, self.most_bytes) + size
            _unchecked[self.folder] = added
            if added * CHECKS > self.most_bytes:
                self._make_room()
                _unchecked[self.folder] = 0
        except (OutputError, OSError) as error:
            tell_unusable(error)

    def _make_room(self) -> None:
        """Delete the entries that were used least recently, until the others take at most `most_bytes`."""
        files = [
            (*_used(file), file) for file in self.folder.iterdir() if not DRAFT_NAME.fullmatch(file.name)
        ]
        total = 0
        for _, size, file in sorted(files, reverse=True):
            total += size
            if total > self.most_bytes:
                file.unlink(missing_ok=True)


def _digest(key: str, *parts: bytes) -> bytes:
    total = hashlib.sha256(f"{key}\n".encode())
    for part in parts:
        total.update(part)
    return total.digest()


def _used(file: Path) -> tuple[float, int]:
    """Return when a file was used last, and its size; zeros where another process has deleted it."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_mtime, status.st_size
