"""A digest of the sources that results depend on: workers elsewhere must have the same."""

from functools import cache
from pathlib import Path

import vdla
from vdla.compiler.codegen.version import network_version
from vdla.hw.spec.cache import digest_of, digest_of_files

MEASURING = (
    "hw",
    "explore/silicon",
    "explore/tune",
)  # sources that results depend on, besides the compiler's sources


@cache
def sources() -> str:
    """Return a digest of the kit's sources that results depend on."""
    root = Path(vdla.__file__).parent
    parts = (
        digest_of_files(root / package, pattern) for package in MEASURING for pattern in ("*.py", "*.json")
    )
    return digest_of([network_version(), *parts])
