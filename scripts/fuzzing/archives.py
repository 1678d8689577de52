"""Mutators of arrays and of the ZIP archives that hold them."""

import io
import struct
import warnings
import zipfile
from functools import cache
from random import Random

import numpy as np

from fuzzing.values import INTEGERS, changed_bytes
from vdla.runtime.arrays import UNREADABLE

Members = dict[str, bytes]
DTYPES = (
    "|u1",
    "|i1",
    "<u2",
    "<i4",
    "<u4",
    "<i8",
    "<u8",
    "<f4",
    "<f8",
    ">i4",
    "|b1",
    "|O",
    "|S3",
    "<U2",
    "|V4",
    "<M8[s]",
    "<c8",
)
LOCAL_SIZE, ENTRY_SIZE = (
    22,
    24,
)  # where the unpacked size stands in a member's header and in its entry of the directory
BOMB_BYTES = (64 << 20, 600 << 20)


def changed_array(data: bytes, rng: Random) -> bytes:
    """Return an array in NumPy's format with other elements, shape or type, or with a header that lies."""
    array = np.load(io.BytesIO(data))
    match rng.randrange(8):
        case 0 | 1 | 2:
            return saved(_with_other_elements(array, rng))
        case 3:
            return saved(
                array[: rng.randrange(len(array) + 1)]
                if array.ndim and len(array)
                else np.zeros(0, array.dtype)
            )
        case 4:
            return saved(np.concatenate([array, array]) if array.ndim else array[None])
        case 5:
            return saved(
                rng.choice(
                    (
                        array.T,
                        array[None],
                        array.reshape(-1),
                        array.astype(np.float64),
                        array.astype(np.int64),
                        array[..., None],
                    )
                )
            )
        case 6:
            shape = tuple(
                rng.choice((*array.shape, *INTEGERS[:25])) for _ in range(rng.choice((0, 1, 1, 2, 3, 70)))
            )
            return headed(rng.choice((array.dtype.str, *DTYPES)), shape, rng.random() < 0.2, array.tobytes())
    return changed_bytes(data, rng)


def _with_other_elements(array: np.ndarray, rng: Random) -> np.ndarray:
    changed = np.array(array, order="C")
    raw = changed.reshape(-1).view(np.uint8)
    for _ in range(rng.choice((1, 1, 2, 8)) if raw.size else 0):
        place = rng.randrange(raw.size)
        raw[place] = rng.choice((0, 255, 128, rng.randrange(256), int(raw[place]) ^ 1 << rng.randrange(8)))
    return changed


def saved(array: np.ndarray) -> bytes:
    """Return an array in NumPy's format."""
    written = io.BytesIO()
    np.save(written, array, allow_pickle=False)
    return written.getvalue()


def headed(descr: str, shape: tuple[int, ...], in_fortran_order: bool, contents: bytes) -> bytes:
    """Return a header of NumPy's format, whatever it says, and contents."""
    text = f"{{'descr': {descr!r}, 'fortran_order': {in_fortran_order}, 'shape': {shape!r}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + contents


def unpacked(data: bytes) -> Members:
    """Return the members of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members: Members, rng: Random) -> bytes:
    """Return an archive of members; now and then it lies, unfolds to much, or has a member twice."""
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    choice = rng.random()
    file = io.BytesIO()
    with (
        zipfile.ZipFile(file, "w", method) as archive,
        warnings.catch_warnings(action="ignore"),
    ):  # it tells of names that are there twice
        for name, contents in members.items():
            archive.writestr(name, contents)
        if choice < 0.02:
            name = rng.choice(list(members))
            archive.writestr(zipfile.ZipInfo(name), members[name])
    data = file.getvalue()
    if choice < 0.05:
        return _with_other_size(data, rng)
    if choice < 0.06:
        return bomb(rng.choice(list(members)), rng.choice(BOMB_BYTES))
    return changed_bytes(data, rng) if choice < 0.12 else data


def _with_other_size(data: bytes, rng: Random) -> bytes:
    """Change what an archive says about how large its last member is."""
    changed, entry = bytearray(data), data.rindex(b"PK\x01\x02")
    (local,) = struct.unpack_from("<I", changed, entry + 42)
    size = rng.choice((0, 1, 100, 1 << 20, 1 << 30, (1 << 32) - 2, (1 << 32) - 1))
    struct.pack_into("<I", changed, local + LOCAL_SIZE, size)
    struct.pack_into("<I", changed, entry + ENTRY_SIZE, size)
    return bytes(changed)


@cache
def bomb(name: str, size: int) -> bytes:
    """Return an archive of one member that unfolds to an array of zeros."""
    file, piece = io.BytesIO(), bytes(1 << 20)
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(name, "w") as member,
    ):
        member.write(headed("|u1", (size,), False, b""))
        for _ in range(size >> 20):
            member.write(piece)
    return file.getvalue()


def changed_members(members: Members, rng: Random) -> Members:
    """Return members with an array changed, left out, added, or put in the place of another."""
    changed = dict(members)
    arrays = [name for name in changed if name.endswith(".npy")]
    for _ in range(rng.choice((1, 1, 2, 4)) if arrays else 0):
        name = rng.choice(arrays)
        match rng.randrange(10):
            case 0:
                changed.pop(name, None)
            case 1:
                changed[name] = members[rng.choice(arrays)]
            case 2:
                changed[f"{name[:-4]}x.npy"] = members[name]
            case _ if name in changed:
                changed[name] = _changed_or_raw(changed[name], rng)
    return changed


def _changed_or_raw(data: bytes, rng: Random) -> bytes:
    try:
        return changed_array(data, rng)
    except UNREADABLE:  # what an earlier change has left is no array any more
        return changed_bytes(data, rng)
