"""Writing a view of a run: the file is whole, or as it was before."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from vdla.hw.spec.errors import OutputError


@contextmanager
def whole_file(path: str | Path) -> Iterator[TextIO]:
    """Open a text file that takes its place when the block ends well; a device or pipe is written to as it stands.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        with _in_place(path) if _is_special(path) else _replacing(Path(os.path.realpath(path))) as file:
            yield file
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}; "
                          "name a file in a folder that exists, has room and may be written to") from error


def _is_special(path: str | Path) -> bool:
    """Whether `path` is there but no regular file, so that another must not be put in its place."""
    return os.path.exists(path) and not os.path.isfile(path)


def _in_place(path: str | Path) -> TextIO:
    return Path(path).open("w", encoding="utf-8")


@contextmanager
def _replacing(path: Path) -> Iterator[TextIO]:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            yield file
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
