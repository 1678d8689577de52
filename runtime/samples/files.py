"""Files of arrays, images and sound, told from each other by how they begin."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from vdla.hw.spec.limits import ARRAY_BYTES, limit_of, read_at_most, require_room
from vdla.runtime.arrays import npy_from, npz_from
from vdla.runtime.samples import InputError
from vdla.runtime.samples.images import Picture, read_picture
from vdla.runtime.samples.sounds import Sound, read_sound

Item = np.ndarray | Picture | Sound
"""What stands for one or more samples of an input."""

SUFFIXES = (".npz", ".npy", ".png", ".jpg", ".jpeg", ".bmp", ".wav")
"""Of files that are looked for in a folder."""
KINDS = ".npz (numpy.savez), .npy (numpy.save), PNG, JPEG, BMP and WAV files"
ARCHIVE, ARRAY, WAV = b"PK", b"\x93NUMPY", (b"RIFF", b"RIFX")
IMAGES = (b"\x89PNG", b"\xff\xd8\xff", b"BM")


def read_file(path: Path) -> Mapping[str, Item] | Item:
    """Return the arrays of an .npz file by name, or what another file holds.

    Raises:
        InputError: it cannot be opened, or is of another kind.
        FileFormatError: it is damaged.
        ToolError: it is an image, and Pillow is not installed.
    """
    try:
        data = read_at_most(path, limit_of(ARRAY_BYTES), InputError)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    if data.startswith(ARCHIVE):
        return npz_from(data, str(path))
    if data.startswith(ARRAY):
        return npy_from(data, str(path))
    if data.startswith(IMAGES):
        return read_picture(str(path), data)
    if data.startswith(WAV):
        return read_sound(str(path), data)
    raise InputError(f"{path} holds no arrays, no image and no sound; {KINDS} are read")


def files_in(path: Path) -> list[Path]:
    """Return a file, or the files of samples in a folder, sorted by name.

    Raises:
        InputError: there is nothing of this name, or no such file in the folder.
    """
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())
    if not files:
        raise InputError(f"{path} is a folder without samples; {KINDS} are read")
    total = sum(file.stat().st_size for file in files)
    require_room(total, ARRAY_BYTES, f"the samples in {path} take", InputError)
    return files
