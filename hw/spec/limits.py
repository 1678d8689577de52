"""Limits on the memory that a file can make the kit allocate: bytes, members of an archive, nodes. A larger
request is refused before allocation.

The limits keep one command on one file below 2 GB. VDLA_MEMORY_FACTOR in the environment multiplies them.
"""

import os
from pathlib import Path

from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.showing import shown

FACTOR = "VDLA_MEMORY_FACTOR"
PIECE_BYTES = 1 << 16

ARRAY_BYTES = 512 << 20
"""All arrays of one file, unpacked; and the file itself."""

DRAM_BYTES = 1 << 30
"""DRAM of the device that a file is run on. Only what is written takes memory."""

SCRATCHPAD_BYTES = 512 << 20
"""The functional model's scratchpads."""

TABLE_BYTES = 1 << 30
"""Tables of what is known of a stream: its decoded instructions, or the elements that it touches."""

STREAM_BYTES = 32 << 20
"""A stream that is printed as text."""

ARCHIVE_MEMBERS = 1 << 18
"""Arrays of one file."""

MANIFEST_BYTES = 64 << 20
"""The manifest of a module file: some 200,000 operators on the host."""

EXPANDED_NODES = 1 << 18
"""Nodes of a model when the bodies of its functions stand in place of their calls."""

TENSOR_BYTES = 512 << 20
"""One tensor of a network on the host."""

OPERATOR_BYTES = 1 << 30
"""The largest array that an operator on the host makes."""

HOST_BYTES = 1 << 30
"""All tensors that a run of a network keeps on the host."""


def limit_of(size: int) -> int:
    """Return one of the limits above, multiplied by VDLA_MEMORY_FACTOR.

    Raises:
        VdlaError: the factor is not a whole number of at least 1.
    """
    text = os.environ.get(FACTOR, "1")
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text)):
        raise VdlaError(f"{FACTOR} = {shown(text)} is not a whole number of at least 1")
    return size * int(text)


def require_room(size: int, limit: int, subject: str, error: type[Exception], unit: str = "bytes") -> None:
    """Raise an error if `size` exceeds one of the limits above.

    Args:
        size: that it would take.
        subject: of the message, with its verb: "weight w takes".
        unit: of the size.

    Raises:
        Exception: of the class `error`.
    """
    if size > limit_of(limit):
        raise error(
            f"{subject} {shown(size)} {unit}, and the limit is {limit_of(limit)}; "
            f"{FACTOR}=2 in the environment doubles every limit of memory"
        )


def read_at_most(path: Path, limit: int, error: type[VdlaError]) -> bytes:
    """Return the contents of a file; read no more than `limit` bytes.

    Raises:
        VdlaError: of the class `error`: the file is longer.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(min(limit, os.fstat(file.fileno()).st_size) + 1)
        while len(data) <= limit and (
            piece := file.read(PIECE_BYTES)
        ):  # of a pipe, whose size is not known before
            data += piece
    if len(data) > limit:
        raise error(f"{path} has more than {limit} bytes, and no more are read of such a file")
    return data
