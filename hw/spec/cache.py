"""The cache folder for build products, and the digests that serve as keys."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder of the cache: VDLA_CACHE_DIR, else `vdla` in XDG_CACHE_HOME or ~/.cache."""
    own = os.environ.get("VDLA_CACHE_DIR")
    if own:
        return Path(own).expanduser().resolve()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache").resolve() / "vdla"


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
