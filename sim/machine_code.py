"""Machine code kept between processes: in `__pycache__` beside the source, as Python's bytecode is.

Where that folder cannot be written to, it is kept in the kit's cache.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from vdla.hw.spec.cache import cache_folder, tell_unusable
from vdla.hw.spec.errors import OutputError
from vdla.hw.spec.writing import write_bytes

ENTRY = "vdla_entry"  # the function that machine code holds
CALLED = "called"  # the attribute of functions that are not inlined
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
    """Keep a function's code, in place of the code of earlier sources; where no folder can be written to,
    say so once: the next process compiles again."""
    reason: Exception = OSError("it has no folder")
    for folder in _folders(source):
        try:
            write_bytes(folder / f"{source.stem}.{name}{SUFFIX}", _digest(key, code) + code)
        except OutputError as error:
            reason = error
            continue
        return
    tell_unusable(reason)


def _folders(source: Path) -> Iterator[Path]:
    yield source.parent / "__pycache__"
    digest = hashlib.sha256(os.fsencode(source.parent)).hexdigest()[:16]
    with suppress(OSError):  # there is no cache
        yield cache_folder() / FOLDER / digest


def _digest(key: str, code: bytes) -> bytes:
    return hashlib.sha256(key.encode() + code).digest()
