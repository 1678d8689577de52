"""Scalar types of loop programs and their arithmetic: integers wrap, right shifts are arithmetic."""

from dataclasses import dataclass

import numpy as np

INDEX = "index"  # loop variables and subscripts: never wraps


@dataclass(frozen=True, slots=True)
class DType:
    """A scalar type.

    Attributes:
        name: as written in programs.
        numpy: the NumPy type that holds it.
    """

    name: str
    numpy: type[np.generic]

    @property
    def bytes(self) -> int:
        """Size of an element in memory."""
        return np.dtype(self.numpy).itemsize

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return issubclass(self.numpy, np.floating)

    @property
    def least(self) -> int | float:
        """The least value."""
        if self.is_float:
            return float("-inf")
        return False if self.name == "bool" else int(np.iinfo(np.dtype(self.numpy)).min)

    @property
    def greatest(self) -> int | float:
        """The greatest value."""
        if self.is_float:
            return float("inf")
        return True if self.name == "bool" else int(np.iinfo(np.dtype(self.numpy)).max)


DTYPES = {
    name: DType(name, numpy)
    for name, numpy in {
        "bool": np.bool_,
        "int8": np.int8,
        "int16": np.int16,
        "int32": np.int32,
        "int64": np.int64,
        "uint8": np.uint8,
        "float32": np.float32,
        "float64": np.float64,
        INDEX: np.int64,
    }.items()
}


def wrap(value: int | float | bool, dtype: str) -> int | float | bool:
    """Return `value` as the type holds it, what Cast does: integers modulo 2^bits, floats rounded;
    `nearest_integer` takes the one to the other."""
    kind = DTYPES[dtype]
    if kind.name == "bool":
        return bool(value)
    if kind.is_float:
        return _as_float(value, kind.numpy)
    span = kind.greatest - kind.least + 1
    whole = nearest_integer(value) if isinstance(value, float) else int(value)
    return (whole - kind.least) % span + kind.least


def _as_float(value: int | float | bool, kind: type) -> float:
    """Round once: an integer must not become a double on its way to single precision."""
    with np.errstate(over="ignore"):
        return float(kind(np.int64(value) if isinstance(value, int) else value))


def nearest_integer(value: float) -> int:
    """Return the nearest integer of 64 bits, halves to even: beyond them the least or greatest, and 0 for
    NaN."""
    if value != value:
        return 0
    return min(round(min(max(value, -(2.0**63)), 2.0**63)), (1 << 63) - 1)
