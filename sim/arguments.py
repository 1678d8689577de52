"""Arguments of compiled functions: what is to be known of them to compile one, and how they are passed: as a
table of addresses and one of numbers."""

from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np


@dataclass(frozen=True, slots=True)
class Array:
    """An argument that is an array with `rank` dimensions, or a record of one where `rank` is None."""

    dtype: np.dtype
    rank: int | None


@dataclass(frozen=True, slots=True)
class Named:
    """An argument that is a named tuple of others."""

    form: type
    members: tuple["Kind", ...]


NUMBER = "number"  # int64
Kind = Array | Named | str


def kind_of(argument: object) -> Kind:
    """Return what is to be known of an argument to compile a function for it."""
    if isinstance(argument, tuple):
        return Named(type(argument), tuple(map(kind_of, argument)))
    if isinstance(argument, np.ndarray):
        assert argument.flags.c_contiguous, "compiled functions take contiguous arrays"
        return Array(argument.dtype, argument.ndim)
    return Array(argument.dtype, None) if isinstance(argument, np.void) else NUMBER


def flatten(argument: object, addresses: list[int], numbers: list[int]) -> None:
    """Append the addresses of an argument's arrays, and their extents and its numbers."""
    if isinstance(argument, tuple):
        for member in argument:
            flatten(member, addresses, numbers)
    elif isinstance(argument, np.ndarray):
        addresses.append(argument.ctypes.data)
        numbers.extend(argument.shape)
    elif isinstance(argument, np.void):
        addresses.append(argument.__array_interface__["data"][0])
    else:
        assert isinstance(argument, SupportsIndex), f"{type(argument)} is no argument of compiled functions"
        numbers.append(int(argument))
