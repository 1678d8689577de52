"""Compiled objects kept between processes, in the user's cache directory."""

import hashlib
import os
from pathlib import Path

from vdla.hw.spec.errors import OutputError
from vdla.hw.spec.writing import DRAFT_NAME, write_bytes

DIGEST_BYTES = 32
MOST_OBJECTS = 256


def cache_directory() -> Path:
    """Return where objects are kept: below XDG_CACHE_HOME where that is set."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vdla" / "kernels"


def read_object(key: str) -> bytes | None:
    """Return the object stored under `key` (hex); None where there is none, or not a whole one."""
    try:
        data = (cache_directory() / key).read_bytes()
    except OSError:
        return None
    digest, stored = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
    return stored if hashlib.sha256(stored).digest() == digest else None


def write_object(key: str, data: bytes) -> None:
    """Store `data` under `key`; a directory that cannot be written to is no error, only slower next time."""
    folder = cache_directory()
    try:
        write_bytes(folder / key, hashlib.sha256(data).digest() + data)
        _forget_oldest(folder)
    except (OutputError, OSError):
        return


def _forget_oldest(folder: Path) -> None:
    """Keep the `MOST_OBJECTS` files written last."""
    files = [file for file in folder.iterdir() if not DRAFT_NAME.fullmatch(file.name)]
    for file in sorted(files, key=_written, reverse=True)[MOST_OBJECTS:]:
        file.unlink(missing_ok=True)


def _written(file: Path) -> float:
    """Return when a file was written; 0 where another process has deleted it."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0
