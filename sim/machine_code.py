"""Machine code kept between processes: in `__pycache__` beside the source, as Python's bytecode is.

Where that folder cannot be written to, it is kept in the kit's cache.
"""

import hashlib
import os
from pathlib import Path

from vdla.hw.spec.cache import cache_folder
from vdla.hw.spec.errors import OutputError
from vdla.hw.spec.writing import write_bytes

ENTRY = "vdla_entry"  # the function that machine code holds
FOLDER = "machine_code"  # in the kit's cache
SUFFIX = ".machine-code"
DIGEST_BYTES = 32


def read_code(source: Path, name: str, key: str) -> bytes | None:
    """Return what was kept of a source's function under a key; None where there is nothing, or not all of
    it."""
    for folder in _folders(source):
        try:
            stored = (folder / f"{source.stem}.{name}{SUFFIX}").read_bytes()
        except OSError:
            continue
        code = stored[DIGEST_BYTES:]
        if stored[:DIGEST_BYTES] == _digest(key, code):
            return code
    return None


def write_code(source: Path, name: str, key: str, code: bytes) -> None:
    """Keep a function's code, in place of that of earlier sources; where no folder can be written to, the
    next process compiles again."""
    for folder in _folders(source):
        try:
            write_bytes(folder / f"{source.stem}.{name}{SUFFIX}", _digest(key, code) + code)
        except OutputError:
            continue
        return


def _folders(source: Path) -> tuple[Path, Path]:
    own = hashlib.sha256(os.fsencode(source.parent)).hexdigest()[:16]
    return source.parent / "__pycache__", cache_folder() / FOLDER / own


def _digest(key: str, code: bytes) -> bytes:
    return hashlib.sha256(key.encode() + code).digest()
