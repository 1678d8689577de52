"""ZIP archives that are not what they say."""

import io
import struct
import zipfile

import numpy as np

LOCAL_SIZE, ENTRY_SIZE = (
    22,
    24,
)  # where the unpacked size stands in the header of a member and in its entry of the directory


def archive(members: dict[str, bytes]) -> bytes:
    """Return a compressed archive."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as zip_file:
        for name, data in members.items():
            zip_file.writestr(name, data)
    return written.getvalue()


def npy(shape: tuple[int, ...], contents: bytes, dtype: str = "|u1") -> bytes:
    """Return an array in NumPy's format: a header for any shape, and any contents."""
    written = io.BytesIO()
    np.lib.format.write_array_header_1_0(written, {"descr": dtype, "fortran_order": False, "shape": shape})
    return written.getvalue() + contents


def zeros(size: int) -> bytes:
    """Return an array of so many zero bytes."""
    return npy((size,), bytes(size))


def with_size(data: bytes, size: int) -> bytes:
    """Return an archive of one member whose directory lies about its unpacked size."""
    changed = bytearray(data)
    entry = data.rindex(b"PK\x01\x02")
    struct.pack_into("<I", changed, LOCAL_SIZE, size)
    struct.pack_into("<I", changed, entry + ENTRY_SIZE, size)
    return bytes(changed)
