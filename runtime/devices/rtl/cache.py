"""A per-user cache of built files: each key is built once, even when several processes ask for it together."""

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vdla.hw.spec.errors import ToolError

KEPT_DAYS = 30


def cache_folder() -> Path:
    """Return the folder of the cache: VDLA_CACHE_DIR, else `vdla` in XDG_CACHE_HOME or ~/.cache."""
    own = os.environ.get("VDLA_CACHE_DIR")
    if own:
        return Path(own).expanduser().resolve()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache").resolve() / "vdla"


def digest_of(parts: Iterable[str | bytes]) -> str:
    """Return a SHA-256 (hex) of `parts`, with their borders."""
    total = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        total.update(len(raw).to_bytes(8, "little") + raw)
    return total.hexdigest()


def digest_of_files(folder: Path, pattern: str) -> str:
    """Return a digest of the names and contents of all files below `folder` that match `pattern`."""
    files = sorted(folder.rglob(pattern))
    return digest_of(part for file in files for part in (str(file.relative_to(folder)), file.read_bytes()))


def built(kind: str, key: str, build: Callable[[Path], None]) -> Path:
    """Return the folder of `key` among the cache's entries of one `kind`, building it when it is not there.

    Args:
        build: fills the empty folder that it is given; when it raises, nothing is kept.

    Raises:
        ToolError: the cache cannot be written.
    """
    entry = cache_folder() / kind / key
    try:
        if not entry.is_dir():
            _build_alone(entry, build)
        os.utime(entry)
    except OSError as error:
        raise ToolError(f"the cache folder {entry.parent} cannot be used ({error.strerror or error}); "
                        "name another one with VDLA_CACHE_DIR") from error
    return entry


def _build_alone(entry: Path, build: Callable[[Path], None]) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    with _locked(entry.with_suffix(".lock")):
        if not entry.is_dir():
            _build(entry, build)
            _forget_unused(entry.parent)


def _build(entry: Path, build: Callable[[Path], None]) -> None:
    folder = Path(tempfile.mkdtemp(prefix=".building-", dir=entry.parent))
    try:
        build(folder)
        folder.rename(entry)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file at `path`; another process that wants it waits."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _forget_unused(folder: Path) -> None:
    """Delete what nobody has asked for in KEPT_DAYS."""
    oldest = time.time() - KEPT_DAYS * 86400
    for entry in folder.iterdir():
        if entry.stat().st_mtime < oldest:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink(missing_ok=True)
