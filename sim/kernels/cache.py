"""Compiled objects kept between processes, in the user's cache directory."""

import hashlib
import os
import tempfile
from pathlib import Path

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
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(hashlib.sha256(data).digest() + data)
        os.replace(file.name, folder / key)
        _forget_oldest(folder)
    except OSError:
        return


def _forget_oldest(folder: Path) -> None:
    """Keep the `MOST_OBJECTS` files written last."""
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[MOST_OBJECTS:]:
        file.unlink(missing_ok=True)
