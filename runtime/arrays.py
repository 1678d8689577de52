"""Arrays in .npz files: damaged files are refused with one error, and what is written is whole.

Sizes are checked before a file is unpacked. The sizes in the archive's directory and in each array's header
must agree with each other and stay within `ARRAY_BYTES`. No more bytes than these sizes are unpacked.
"""

import hashlib
import io
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from vdla.hw.spec.errors import FileFormatError
from vdla.hw.spec.limits import ARCHIVE_MEMBERS, ARRAY_BYTES, limit_of, read_at_most, require_room
from vdla.hw.spec.showing import short
from vdla.hw.spec.writing import whole_file

UNREADABLE = (
    ValueError,
    TypeError,
    LookupError,
    EOFError,
    AttributeError,
    RuntimeError,
    ArithmeticError,
    MemoryError,
    SyntaxError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What NumPy and the unzipper raise on damaged files."""

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""How NumPy writes members; other methods have unpackers that raise other errors."""

KINDS = "biufcSU"
"""Kinds of elements that are read: numbers and texts of fixed length."""

LONGEST_REASON = 300
ENTRY = b"PK\x01\x02"
"""The begin of an entry of a ZIP archive's directory."""

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
PIECE_BYTES = 1 << 22


def digest(array: np.ndarray) -> str:
    """Return the SHA-256 of the elements' bytes, little-endian, in row-major order."""
    ordered = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(ordered.tobytes()).hexdigest()


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file, by name; nothing is unpickled.

    Raises:
        FileFormatError: the file is truncated, altered, or none, or takes more than `ARRAY_BYTES`.
        OSError: it cannot be opened.
    """
    return npz_from(read_at_most(path, limit_of(ARRAY_BYTES), FileFormatError), str(path))


def npz_from(data: bytes, source: str) -> dict[str, np.ndarray]:
    """Return the arrays in the contents of an .npz file, by name; errors as in `read_npz`.

    Args:
        source: the file, as messages call it.
    """
    try:
        with open_archive(data) as archive:
            return read_arrays(archive, archive.namelist(), source)
    except UNREADABLE as error:
        raise _damaged(source, ".npz", error) from error


def npy_from(data: bytes, source: str) -> np.ndarray:
    """Return the array in the contents of an .npy file; nothing is unpickled.

    Args:
        source: the file, as messages call it.

    Raises:
        FileFormatError: it is truncated, altered, or holds no numbers.
    """
    try:
        return _array_in(io.BytesIO(data), len(data), source)
    except UNREADABLE as error:
        raise _damaged(source, ".npy", error) from error


def _damaged(source: str, kind: str, error: Exception) -> FileFormatError:
    reason = short(str(error), LONGEST_REASON)
    return FileFormatError(f"{source} cannot be read as {kind}; it is truncated or altered: {reason}")


def open_archive(data: bytes) -> zipfile.ZipFile:
    """Open a ZIP archive such as NumPy writes.

    Raises:
        ValueError: it has too many members, two of the same name, or a member compressed in another way; and
            the others of `UNREADABLE`.
    """
    require_room(data.count(ENTRY), ARCHIVE_MEMBERS, "it has", ValueError, "members")
    archive = zipfile.ZipFile(io.BytesIO(data))
    for member in archive.infolist():
        if member.compress_type not in METHODS:
            raise ValueError(f"{member.filename!r} is compressed by method {member.compress_type}")
    if len(set(archive.namelist())) < len(archive.namelist()):
        raise ValueError("two of its members have one name")
    return archive


def read_arrays(archive: zipfile.ZipFile, members: list[str], source: str) -> dict[str, np.ndarray]:
    """Return arrays of an archive by the names of their members, without ".npy".

    Raises:
        FileFormatError: they take more than `ARRAY_BYTES`.
        ValueError: a member is no array, or not of the size that it says; and the others of `UNREADABLE`.
    """
    total = sum(archive.getinfo(name).file_size for name in members)
    require_room(total, ARRAY_BYTES, f"{source} is not unpacked: its arrays take", FileFormatError)
    return {name.removesuffix(".npy"): _read_array(archive, archive.getinfo(name)) for name in members}


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """Return one array; memory is taken only when its header and the directory agree on its size."""
    with archive.open(member) as file:
        return _array_in(file, member.file_size, member.filename)


def _array_in(file: IO[bytes], size: int, name: str) -> np.ndarray:
    """Return the array in a file of `size` bytes; memory is taken only when its header agrees with that."""
    shape, in_fortran_order, dtype = _read_header(file)
    if dtype.kind not in KINDS or not dtype.itemsize:
        raise ValueError(f"{name!r} holds elements of type {dtype}, not numbers")
    announced, held = math.prod(shape) * dtype.itemsize, size - file.tell()
    if announced != held:
        raise ValueError(f"{name!r} is an array of {announced} bytes, and the file has {held} of it")
    values = np.empty(announced, np.uint8)
    _fill(values, file, name)
    return values.view(dtype).reshape(shape, order="F" if in_fortran_order else "C")


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = npy.read_magic(file)
    if version not in HEADERS:
        raise ValueError(f"version {version} of NumPy's format is not read")
    return HEADERS[version](file)


def _fill(values: np.ndarray, file: IO[bytes], name: str) -> None:
    """Fill uint8[n] from a member, which must end with it; reading its end checks its checksum."""
    place = 0
    while piece := file.read(PIECE_BYTES):
        if place + len(piece) > len(values):
            raise ValueError(f"{name!r} is longer than the archive says")
        values[place : place + len(piece)] = np.frombuffer(piece, np.uint8)
        place += len(piece)
    if place < len(values):
        raise EOFError(f"{name!r} ends after {place} of {len(values)} bytes")


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an .npz file, arrays of any names.

    Raises:
        OutputError: it cannot be written; what stood there is as it was.
    """
    with whole_file(path, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, np.asanyarray(values), allow_pickle=False)


def write_npy(path: Path, values: np.ndarray) -> None:
    """Write an .npy file; errors as in `write_npz`."""
    with whole_file(path, "wb") as file:
        npy.write_array(file, np.asanyarray(values), allow_pickle=False)
