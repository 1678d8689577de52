"""The cache folder for build products, and the digests that serve as keys.

Nothing needs the cache: where its folder cannot be used, a command says so once and keeps nothing.
"""

import hashlib
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from vdla.hw.spec.showing import short, shown

FOLDER = "VDLA_CACHE_DIR"
_LONGEST = 200  # characters of a name or a reason that are shown
_told: set[str] = set()


def cache_folder() -> Path:
    """Return the folder of the cache: VDLA_CACHE_DIR, else `vdla` in XDG_CACHE_HOME or ~/.cache.

    Raises:
        OSError: there is no home, or no folder can have the name.
    """
    folder_name = os.environ.get(FOLDER)
    if folder_name:
        try:
            return Path(folder_name).expanduser().resolve()
        except RuntimeError as error:
            raise FileNotFoundError(
                0, f"{shown(folder_name)} is in the home of a user who does not exist"
            ) from error
    return _usual().resolve() / "vdla"


def _usual() -> Path:
    """Return the folder of all programs' caches."""
    home = os.environ.get("XDG_CACHE_HOME")
    if home:
        return Path(home)
    try:
        return Path.home() / ".cache"
    except RuntimeError as error:
        raise FileNotFoundError(0, "this user has no home") from error


def tell_unusable(error: Exception) -> None:
    """Say, once in a process, that the cache cannot be used, and why.

    Args:
        error: an OSError, an error of a library, or what an OSError has caused.
    """
    try:
        folder = f"folder {short(str(cache_folder()), _LONGEST)}"
    except OSError:
        folder = "folder"
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    reason = short(str(getattr(cause, "strerror", None) or cause), _LONGEST)
    if not _told:
        _told.add(folder)
        logging.getLogger("vdla").warning(
            f"the cache {folder} cannot be used ({reason}), so nothing is kept for the next command; name "
            f"another folder with {FOLDER}"
        )


def digest_of(parts: Iterable[str | bytes]) -> str:
    """Return a SHA-256 (hex) of `parts`; the boundaries between parts count."""
    total = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        total.update(len(raw).to_bytes(8, "little") + raw)
    return total.hexdigest()


def digest_of_files(folder: Path, pattern: str) -> str:
    """Return a digest of the names and contents of all files below `folder` that match `pattern`."""
    files = sorted(folder.rglob(pattern))
    return digest_of(part for file in files for part in (str(file.relative_to(folder)), file.read_bytes()))
