"""The version of the compiler: a digest of its sources."""

from functools import cache
from pathlib import Path

import vdla
from vdla.hw.spec.cache import digest_of, digest_of_files

DECIDING = ("compiler", "hw/spec", "runtime", "sim")  # their sources decide what a network becomes


@cache
def version() -> str:
    """Return a digest of the sources that decide."""
    root = Path(vdla.__file__).parent
    return digest_of(digest_of_files(root / package, "*.py") for package in DECIDING)
