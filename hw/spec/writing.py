"""Writing files: a write leaves a file complete, or as it was before.

Contents go to a draft in the folder of the file, which is flushed to the disk and renamed. Missing folders
are created.

Where the file system can do so (O_TMPFILE), a draft has no name until it is complete, so that a killed
process leaves nothing. Elsewhere, and for the moment in which one file replaces another, its name is
`.DIGITS.vdla-draft`. The writer holds a lock on its draft, which the kernel releases when the writer dies:
the next write into a folder deletes the drafts of dead writers there, and no others.
"""

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, overload

from vdla.hw.spec.errors import OutputError

ADVICE = "name a file in a folder that has room and may be written to"
DRAFT_NAME = re.compile(r"\.[0-9a-f]{16}\.vdla-draft")
_NO_UNNAMED_FILES = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)  # the last two: kernels without O_TMPFILE


@overload
def whole_file(path: str | os.PathLike[str], mode: Literal["w"] = "w") -> AbstractContextManager[IO[str]]:
    """Open a text file (UTF-8), as the implementation below describes."""


@overload
def whole_file(path: str | os.PathLike[str], mode: Literal["wb"]) -> AbstractContextManager[IO[bytes]]:
    """Open a file of bytes, as the implementation below describes."""


@contextmanager
def whole_file(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file that takes its place when the block ends well.

    A link stays a link to the file it leads to. A device or pipe is written to as it stands.

    Args:
        mode: "w" for text (UTF-8), "wb" for bytes.

    Raises:
        OutputError: it cannot be written; what stood there is as it was.
    """
    with _reporting(path), closing(_opened(path, mode)) as output:
        yield output.file
        output.complete()
        output.publish()


def write_bytes(path: str | os.PathLike[str], *parts: bytes, synced: bool = True) -> None:
    """Write a file; errors as in `whole_file`.

    Args:
        parts: the contents, part after part.
        synced: the contents are on the disk before the file takes its place. Otherwise a crash of the
            operating system may leave a file without them.
    """
    with _reporting(path), closing(_opened(path, "wb")) as output:
        output.file.writelines(parts)
        output.complete(synced=synced)
        output.publish()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file of UTF-8 text; errors as in `whole_file`."""
    with whole_file(path) as file:
        file.write(text)


def write_together(contents: Mapping[Path, str]) -> None:
    """Write text files that belong together: none is published before all are complete on the disk.

    They are put there one by one, in the order given: where the last is new, all are.

    Raises:
        OutputError: a file cannot be written.
    """
    with ExitStack() as stack:
        outputs = []
        for path, text in contents.items():
            with _reporting(path):
                output = stack.enter_context(closing(_opened(path, "w")))
                output.file.write(text)
                output.complete()
            outputs.append((path, output))
        for path, output in outputs:
            with _reporting(path):
                output.publish()


def check_writable(*paths: str | os.PathLike[str] | None) -> None:
    """Refuse files that cannot be written, before any work is done; creates nothing.

    Raises:
        OutputError: naming the first such file.
    """
    for path in paths:
        if path is not None:
            with _reporting(path):
                _check(Path(os.path.realpath(path)))


@contextmanager
def _reporting(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an OSError into an OutputError that names `path`."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}; {ADVICE}") from error


def _check(path: Path) -> None:
    """Raise the OSError that writing `path` would end in, as far as can be known before."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    folder = next(above for above in path.parents if above.exists())
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is not a folder")
    for place in (folder, path):
        if place.exists() and not os.access(place, os.W_OK):
            read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
            raise OSError(code := errno.EROFS if read_only else errno.EACCES, os.strerror(code))


def _opened(path: str | os.PathLike[str], mode: str) -> "_InPlace | _Draft":
    target = Path(os.path.realpath(path))
    special = target.exists() and not target.is_file() and not target.is_dir()
    return _InPlace(target, mode) if special else _Draft(target, mode)


def _stream(file: int | Path, mode: str) -> IO[Any]:
    return open(file, mode, encoding=None if "b" in mode else "utf-8")


class _InPlace:
    """A device or pipe, which must not be replaced by a file."""

    def __init__(self, target: Path, mode: str) -> None:
        self.file = _stream(target, mode)

    def complete(self, *, synced: bool = True) -> None:
        """Flush what was written. `synced` has no effect: there is no draft to publish."""
        self.file.flush()

    def publish(self) -> None:
        """Do nothing: the data have been written already."""

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # `complete` has reported what could not be flushed
            self.file.close()


class _Draft:
    """A file that is written but not yet published; closing an unpublished draft discards it."""

    def __init__(self, target: Path, mode: str) -> None:
        _check(target)
        self._target = target
        self._made = [folder for folder in target.parents if not folder.exists()]
        self._published = False
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            _delete_abandoned(target.parent)
            descriptor, self._name = _descriptor(target.parent)
        except OSError:
            self._remove_folders()
            raise
        self.file = _stream(descriptor, mode)

    def complete(self, *, synced: bool = True) -> None:
        """Flush the contents, to the disk if `synced`, with the permissions of the file they replace."""
        self.file.flush()
        if self._target.exists():
            os.fchmod(self.file.fileno(), stat.S_IMODE(self._target.stat().st_mode))
        if synced:
            os.fsync(self.file.fileno())

    def publish(self) -> None:
        """Rename the draft to its final name."""
        if self._name is None:
            self._name = self._linked()
        if self._name is not None:
            os.replace(self._name, self._target)
            self._name = None
        self._published = True

    def _linked(self) -> Path | None:
        """Give an unnamed draft its final name, or a draft's name if that is taken; return the name."""
        try:
            _link(self.file.fileno(), self._target)
        except FileExistsError:
            name = _draft_name(self._target.parent)
            _link(self.file.fileno(), name)
            return name
        return None

    def close(self) -> None:
        """Close the file; delete it if it was not published, with the folders that were created for it."""
        if self._name is not None:
            self._name.unlink(missing_ok=True)
        with suppress(OSError):  # of a draft that is discarded; `complete` has flushed the others
            self.file.close()
        if not self._published:
            self._remove_folders()

    def _remove_folders(self) -> None:
        with suppress(OSError):  # another process has put something there
            for folder in self._made:
                folder.rmdir()


def _draft_name(folder: Path) -> Path:
    return folder / f".{secrets.token_hex(8)}.vdla-draft"


def _descriptor(folder: Path) -> tuple[int, Path | None]:
    """Return the locked descriptor of a new draft, and its name (None if it needs none yet)."""
    unnamed = _unnamed(folder)
    return _named(folder) if unnamed is None else (unnamed, None)


def _unnamed(folder: Path) -> int | None:
    """Return the locked descriptor of a file without a name; None if the system cannot make or name it."""
    try:
        descriptor = os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o666)
    except OSError as error:
        if error.errno in _NO_UNNAMED_FILES:
            return None
        raise
    if not os.path.exists(f"/proc/self/fd/{descriptor}"):
        os.close(descriptor)
        return None
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _named(folder: Path) -> tuple[int, Path]:
    """Return the locked descriptor of a new draft, and its name."""
    while True:
        name = _draft_name(folder)
        descriptor = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, name
        os.close(descriptor)  # another process took it for abandoned before it was locked


def _link(descriptor: int, path: Path) -> None:
    """Name an unnamed file. Giving the folder makes Python call linkat, which follows the link in /proc."""
    os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor)


def _delete_abandoned(folder: Path) -> None:
    """Delete the drafts in `folder` whose writers have died."""
    with suppress(PermissionError):  # a folder that may be written to and not listed
        for name in filter(DRAFT_NAME.fullmatch, os.listdir(folder)):
            with suppress(
                FileNotFoundError, BlockingIOError, PermissionError
            ):  # published, alive, another user's
                _delete_if_abandoned(folder / name)


def _delete_if_abandoned(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(descriptor)
