"""Python's garbage collector, switched off where it takes time and frees nothing."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Do not search for garbage in cycles. Imports, netlists and compilation create many objects, and nearly
    all of them stay."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
