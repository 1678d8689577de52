"""What a person gives as samples or inputs, in one form: entries with an item for each input."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vdla.runtime.exchange import CUDA_ALONE, array_of
from vdla.runtime.samples import InputError
from vdla.runtime.samples.files import Item, files_in, read_file
from vdla.runtime.samples.images import Picture, Scale, is_picture, picture_of, scale_of
from vdla.runtime.samples.sounds import Sound

SPEAKS = ("__dlpack__", "__array_interface__", "__array__", CUDA_ALONE)
"""Attributes of arrays of any library."""
PASS = (
    "pass an array, a PIL.Image, a mapping from inputs to arrays, a file (.npz, .npy, PNG, JPEG, WAV), a "
    "folder of these, or a list"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """Items for one or more samples.

    Attributes:
        source: what messages begin with: a file, or the place in a list; "" for what was given alone.
        named: by the name of the input.
        unnamed: in the order of the inputs; empty where `named` is not.
    """

    source: str
    named: Mapping[str, Item]
    unnamed: tuple[Item, ...] = ()

    @property
    def where(self) -> str:
        """What a message about it begins with."""
        return f"{self.source}: " if self.source else ""

    @property
    def items(self) -> tuple[Item, ...]:
        """All items."""
        return (*self.named.values(), *self.unnamed)


@dataclass(frozen=True, slots=True)
class Given:
    """All that was given.

    Attributes:
        scale: what turns the pixels of images into real numbers; None: nothing does.
        listed: a list of entries was given.
    """

    entries: tuple[Entry, ...]
    scale: Scale | None
    listed: bool

    def parts(self) -> Iterator[bytes]:
        """Yield everything that the samples follow from, for digests."""
        yield repr(self.scale).encode()
        for entry in self.entries:
            yield repr([*entry.named]).encode()
            yield from map(_data, entry.items)


def _data(item: Item) -> bytes:
    if isinstance(item, np.ndarray):
        return f"{item.dtype.str} {item.shape} ".encode() + item.tobytes()
    return item.data()


def given_of(what: object, image_scale: object = None) -> Given:
    """Return what was given as samples or inputs.

    Args:
        what: an array of any library (see `vdla.runtime.exchange`), an image of Pillow, a mapping from names
            of inputs to arrays or files, a file, a folder of files, or a list of any of these. A tuple or
            list in a list is one sample with an array for each input, in their order.
        image_scale: what turns pixels into real numbers: a preset's name, or mean and standard deviation; see
            `vdla.runtime.samples.images`.

    Raises:
        InputError: it is nothing of these; an array is in the memory of another device; a file cannot be
            read; or there is a scale and no image.
        FileFormatError: a file is damaged.
        ToolError: an image is given, and Pillow is not installed.
    """
    if isinstance(what, Given):
        return what
    scale = scale_of(image_scale)
    listed = isinstance(what, Iterable) and not _is_single(what)
    entries = tuple(_list_entries(what) if listed else _entries(what, ""))
    if scale is not None and not any(isinstance(item, Picture) for entry in entries for item in entry.items):
        raise InputError("a scale for images is given, and no image; arrays are taken as they are")
    return Given(entries, scale, listed or len(entries) > 1)


def _is_single(what: object) -> bool:
    """Whether something is one array, mapping or file, and no list of samples."""
    return isinstance(what, Mapping | str | bytes | os.PathLike) or _is_array(what)


def _is_array(what: Any) -> bool:
    """Whether something is an array: an array of a library, a number, or nested sequences of numbers; or an
    image of Pillow, which is an array, too."""
    if is_picture(what):
        return True
    while isinstance(what, list | tuple) and len(what):
        what = what[0]
        if is_picture(what):
            return False  # a list of images
        if any(hasattr(what, name) for name in SPEAKS) and not isinstance(what, np.generic):
            return False  # a list of arrays
    return isinstance(what, int | float) or any(hasattr(what, name) for name in SPEAKS)


def _list_entries(what: Any) -> Iterator[Entry]:
    """Yield the entries of everything that can be iterated over."""
    count = 0
    for count, sample in enumerate(what, 1):
        yield from _entries(sample, f"sample {count - 1}")
    if not count:
        raise InputError(f"an empty list of samples was given; {PASS}")


def _entries(what: object, source: str) -> Iterator[Entry]:
    """Yield the entries of something that is given alone, or in a list."""
    if isinstance(what, str | os.PathLike):
        yield from map(_of_file, files_in(Path(what)))
    elif isinstance(what, Mapping):
        yield Entry(
            source,
            {str(name): _item(array, source, f"input {name}") for name, array in what.items()},
        )
    elif _is_array(what):
        yield Entry(source, {}, (_item(what, source, "the array"),))
    elif isinstance(what, list | tuple):
        yield Entry(
            source,
            {},
            tuple(_item(array, source, f"array {place}") for place, array in enumerate(what)),
        )
    else:
        where = f"{source} is" if source else "samples and inputs are not"
        raise InputError(f"{where} {type(what).__name__}; {PASS}")


def _of_file(path: Path) -> Entry:
    contents = read_file(path)
    return Entry(str(path), contents) if isinstance(contents, Mapping) else Entry(str(path), {}, (contents,))


def _item(what: Any, source: str, who: str) -> Item:
    """Return an item of an entry: an array, or the only array, image or sound of a file."""
    where = f"{source}: " if source else ""
    if isinstance(what, np.ndarray | Picture | Sound):
        return what
    if is_picture(what):
        return picture_of(what, where)
    if isinstance(what, str | os.PathLike):
        contents = read_file(Path(what))
        items = list(contents.values()) if isinstance(contents, Mapping) else [contents]
        if len(items) != 1:
            raise InputError(
                f"{where}{who} is {what}, which holds {len(items)} arrays; name a file of a single one"
            )
        (item,) = items
        return item
    try:
        return array_of(what)
    except ValueError as error:
        raise InputError(f"{where}{who} {error}") from error
