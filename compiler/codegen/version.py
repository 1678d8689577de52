"""Versions of the compiler: digests of the sources that determine its output.

A measured schedule stays valid while the sources from the tensor expressions down are unchanged. It does not
depend on the import, the quantiser and the plans of networks.
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import vdla
from vdla.hw.spec.cache import digest_of, digest_of_files

TASKS = (
    *(
        f"compiler/{name}"
        for name in ("codegen", "discovery.py", "ir", "operands", "rules.py", "tasks", "te")
    ),
    "hw/spec",
    "runtime",
    "sim",
)
NETWORKS = ("compiler", "hw/spec", "runtime", "sim")


@cache
def task_version() -> str:
    """Return a digest of the sources that determine the stream of a task and its cycles."""
    return _digest(TASKS)


@cache
def network_version() -> str:
    """Return a digest of the sources that determine the compiled form of a network."""
    return _digest(NETWORKS)


def _digest(places: Iterable[str]) -> str:
    """Return the digest of the given files, and of the Python sources in the given folders."""
    paths = [Path(vdla.__file__).parent / place for place in places]
    return digest_of(
        digest_of_files(path.parent, path.name) if path.is_file() else digest_of_files(path, "*.py")
        for path in paths
    )
