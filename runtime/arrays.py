"""Arrays in .npz files: damaged ones are refused with one error, and what is written is whole."""

import io
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.lib.format import write_array

from vdla.hw.spec.errors import FileFormatError
from vdla.hw.spec.writing import whole_file

UNREADABLE = (ValueError, TypeError, LookupError, EOFError, AttributeError, RuntimeError, ArithmeticError, MemoryError,
              SyntaxError, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error)
"""What NumPy and its unzipper raise on damaged files."""

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""How NumPy writes members; other methods have unpackers with errors of their own."""


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file, by name; nothing is unpickled.

    Raises:
        FileFormatError: the file is truncated, altered, or none.
        OSError: it cannot be opened.
    """
    data = io.BytesIO(path.read_bytes())  # from here on every error is the contents'
    try:
        with np.load(data, allow_pickle=False) as file:
            refuse_other_methods(file.zip)
            return {name: file[name] for name in file.files}
    except UNREADABLE as error:
        raise FileFormatError(f"{path} cannot be read as .npz; it is truncated or altered: {error}") from error


def refuse_other_methods(archive: zipfile.ZipFile) -> None:
    """Raise ValueError where a member is compressed in a way that NumPy never writes."""
    for member in archive.infolist():
        if member.compress_type not in METHODS:
            raise ValueError(f"{member.filename!r} is compressed by method {member.compress_type}")


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an .npz file, arrays of any names.

    Raises:
        OutputError: it cannot be written; what stood there is as it was.
    """
    with whole_file(path, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                write_array(member, np.asanyarray(values), allow_pickle=False)
