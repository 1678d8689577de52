"""A per-user cache of built files: each key is built once, even when several processes ask for it together.

Each kind of entry has a folder. For each key this folder holds the entry (a folder called KEY) and its lock
(KEY.lock). While an entry is built or deleted, there is also a scratch folder (.scratch-KEY-...). Scratch
folders that the holder of the lock finds belong to processes that were killed.
"""

import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from vdla.hw.spec.cache import FOLDER, cache_folder, tell_unusable
from vdla.hw.spec.errors import ToolError

KEPT_DAYS = 30
SECONDS_PER_DAY = 86400
POLL_SECONDS = 0.01
LOCK_SUFFIX = ".lock"
SCRATCH_PREFIX = ".scratch-"
_built_here: dict[tuple[str, str], tempfile.TemporaryDirectory[str]] = {}


def built(kind: str, key: str, build: Callable[[Path], None]) -> Path:
    """Return the folder of `key` among the cache's entries of one `kind`, building it when it is not there.

    Where the cache cannot be written, what is not there is built for this process alone.

    Args:
        key: letters and digits.
        build: fills the empty folder that it is given; when it raises, nothing is kept.

    Raises:
        ToolError: what is built cannot be written.
    """
    try:
        entry = cache_folder() / kind / key
        entry.parent.mkdir(parents=True, exist_ok=True)
        lock = _lock(entry)
        lock.acquire()
    except OSError as error:
        tell_unusable(error)
        return _readable(kind, key) or _for_this_process(kind, key, build)
    try:
        exists = entry.is_dir()
        if not exists:
            _build(entry, build)
        os.utime(entry)
    except OSError as error:
        raise ToolError(
            f"{entry} cannot be written ({error.strerror or error}); make room, or name another folder with "
            f"{FOLDER}"
        ) from error
    finally:
        lock.release()
    if not exists:
        _forget_unused(entry.parent)
    return entry


def _readable(kind: str, key: str) -> Path | None:
    """Return an entry of a cache that cannot be written; None where it is not there."""
    with suppress(OSError):
        entry = cache_folder() / kind / key
        return entry if entry.is_dir() else None
    return None


def _for_this_process(kind: str, key: str, build: Callable[[Path], None]) -> Path:
    """Build an entry in a temporary folder, which is deleted when the process ends."""
    if (kind, key) not in _built_here:
        folder = tempfile.TemporaryDirectory(prefix="vdla-")
        build(Path(folder.name))
        _built_here[kind, key] = folder
    return Path(_built_here[kind, key].name)


def clear(kind: str) -> int:
    """Delete the cache's entries of one kind; return how many stay because another process holds their locks.

    Raises:
        OSError: an entry cannot be deleted.
    """
    folder = cache_folder() / kind
    if not folder.is_dir():
        return 0
    keys = {_key_of(name) for name in os.listdir(folder)}
    held = sum(not _forget(folder / key, math.inf) for key in keys)
    with suppress(OSError):  # another process builds an entry
        folder.rmdir()
    return held


def _lock(entry: Path) -> FileLock:
    """Return the lock that must be held to build, use or delete an entry; the system releases it when its
    holder dies."""
    return FileLock(entry.with_suffix(LOCK_SUFFIX), poll_interval=POLL_SECONDS)


def _build(entry: Path, build: Callable[[Path], None]) -> None:
    """Build an entry whose lock is held; it appears when it is complete on the disk."""
    _delete_scratch(entry)
    folder = _scratch(entry)
    try:
        build(folder)
        _sync(folder)
        folder.rename(entry)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _scratch(entry: Path) -> Path:
    """Make an empty folder for what is not, or no longer, an entry; only the holder of the entry's lock uses
    it."""
    return Path(tempfile.mkdtemp(prefix=f"{SCRATCH_PREFIX}{entry.name}-", dir=entry.parent))


def _sync(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def _forget_unused(folder: Path) -> None:
    """Delete entries nobody has asked for in KEPT_DAYS, their locks, and what killed builders have left."""
    oldest = time.time() - KEPT_DAYS * SECONDS_PER_DAY
    names = os.listdir(folder)
    for key in {
        _key_of(name) for name in names if name.startswith(SCRATCH_PREFIX) or _is_older(folder / name, oldest)
    }:
        _forget(folder / key, oldest)


def _key_of(name: str) -> str:
    """Return the key of the entry that a file or folder of the cache belongs to."""
    if name.startswith(SCRATCH_PREFIX):
        return name.removeprefix(SCRATCH_PREFIX).rpartition("-")[0]
    return name.removesuffix(LOCK_SUFFIX)


def _is_older(path: Path, oldest: float) -> bool:
    """Whether `path` was there and last used before `oldest`; other processes may delete it meanwhile."""
    try:
        return path.stat().st_mtime < oldest
    except FileNotFoundError:
        return False


def _forget(entry: Path, oldest: float) -> bool:
    """Delete what is left of an entry, unless another process has asked for it since; return whether its lock
    could be had."""
    try:
        with _lock(entry).acquire(blocking=False):
            if _is_older(entry, oldest):
                entry.rename(_scratch(entry))  # so that no half of it can be taken for an entry
            _delete_scratch(entry)
            if not entry.exists():
                entry.with_suffix(LOCK_SUFFIX).unlink()  # who waits for it makes a new lock
    except Timeout:
        return False
    return True


def _delete_scratch(entry: Path) -> None:
    """Delete the scratch folders of an entry whose lock is held. A compiler that outlived its killed builder
    may still be writing there; what it adds meanwhile is deleted the next time."""
    for folder in entry.parent.glob(f"{SCRATCH_PREFIX}{entry.name}-*"):
        shutil.rmtree(folder, ignore_errors=True)
