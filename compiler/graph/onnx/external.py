"""Loading of tensors whose elements are in an external file.

Source: ONNX documentation, External Data: location, offset, length.
"""

import os
from pathlib import Path
from typing import BinaryIO

from onnx import TensorProto

from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.elements import size_of
from vdla.hw.spec.showing import shown


def with_data(tensor: TensorProto, folder: Path | None) -> TensorProto:
    """Return a tensor with its elements loaded from its external file.

    At most the bytes that the tensor's extents require are read.

    Args:
        folder: the folder of the model, which must contain the file.

    Raises:
        RefusalError: the file is outside the folder, missing or too short, or the declared length differs
            from the tensor's size.
    """
    where = {entry.key: entry.value for entry in tensor.external_data}
    location = where.get("location", "")
    if folder is None:
        raise RefusalError(f"its elements are in a file {shown(location)}; load the model by its path")
    try:
        file = _resolved(location, folder)
        with file.open("rb") as opened:
            data = _part(opened, where, size_of(tensor))
    except OSError as error:
        raise RefusalError(f"its file {shown(location)} cannot be read: {error.strerror or error}") from error
    except _LengthError as error:
        raise RefusalError(f"its elements cannot be read: its file {shown(location)} {error}") from error
    return TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type, raw_data=data)


class _LengthError(Exception):
    """A file has too few bytes, or declares another number of bytes; the message names both."""


def _resolved(location: str, folder: Path) -> Path:
    """Return the path of a regular file inside a folder; refuse any other location."""
    if "\0" in location:
        raise RefusalError(f"its file {shown(location)} has a name with a NUL, which no file has")
    root, file = os.path.realpath(folder), os.path.realpath(folder / location)
    if file == root or not Path(file).is_relative_to(root):
        raise RefusalError(f"its file {shown(location)} is not in the folder of the model")
    try:
        os.stat(file)
    except FileNotFoundError:
        raise RefusalError(f"its file {shown(location)} is missing from {folder}") from None
    if not os.path.isfile(file):
        raise RefusalError(f"its file {shown(location)} is not a file")
    return Path(file)


def _part(file: BinaryIO, where: dict[str, str], size: int) -> bytes:
    """Return the `size` bytes of a tensor."""
    offset, available = _number(where, "offset") or 0, os.fstat(file.fileno()).st_size
    length = _number(where, "length")
    held = available - offset if length is None else length
    if held != size or offset + held > available:
        raise _LengthError(
            f"has {available} bytes; {shown(held)} from {shown(offset)} on are named, "
            f"and the tensor takes {size}"
        )
    file.seek(offset)
    return file.read(size)


def _number(where: dict[str, str], key: str) -> int | None:
    """Return a numeric entry, or None if it is missing."""
    text = where.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise _LengthError(f"has the {key} {shown(text)}, which is not a number of bytes")
    return int(text)
