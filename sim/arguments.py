"""Arguments of compiled functions: what a compilation must know of them, and how they are passed.

Machine code gets the Python objects of arrays and records, and reads addresses and extents from them, at
places that the C interface of NumPy fixes. To ask for them in Python would take longer than many functions
run.

Source: NumPy, C API, `PyArrayObject` and `PyVoidScalarObject`.
"""

from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np

HEADER = object.__basicsize__ // np.intp(0).itemsize
ARRAY_DATA, ARRAY_EXTENTS = HEADER, HEADER + 2
"""Words of an array's object: the address of its elements, and the address of its extents."""
RECORD_DATA = HEADER + 1
"""Word of a record's object: the record's address."""


@dataclass(frozen=True, slots=True)
class Array:
    """An argument that is an array with `rank` dimensions, or a record where `rank` is None."""

    dtype: np.dtype
    rank: int | None


@dataclass(frozen=True, slots=True)
class Named:
    """An argument that is a named tuple of arguments."""

    form: type
    members: tuple["Kind", ...]


NUMBER = "number"  # int64
Kind = Array | Named | str


def kind_of(argument: object) -> Kind:
    """Return what is to be known of an argument to compile a function for it."""
    if isinstance(argument, tuple):
        return Named(type(argument), tuple(map(kind_of, argument)))
    if isinstance(argument, np.ndarray):
        return Array(argument.dtype, argument.ndim)
    return Array(argument.dtype, None) if isinstance(argument, np.void) else NUMBER


def flatten(argument: object, kinds: list[object], objects: list[int], numbers: list[int]) -> None:
    """Append what `kind_of` an argument follows from, the objects of its arrays and records, and its
    numbers."""
    if isinstance(argument, np.ndarray):
        assert argument.flags.c_contiguous, "compiled functions take contiguous arrays"
        kinds += argument.dtype, argument.ndim
        objects.append(id(argument))
    elif isinstance(argument, tuple):
        kinds += type(argument), len(argument)
        for member in argument:
            flatten(member, kinds, objects, numbers)
    elif isinstance(argument, np.void):
        kinds += argument.dtype, None
        objects.append(id(argument))
    else:
        assert isinstance(argument, SupportsIndex), f"{type(argument)} is no argument of compiled functions"
        kinds.append(NUMBER)
        numbers.append(int(argument))
