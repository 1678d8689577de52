"""Scalar types of loop programs and conversions between them; integers wrap."""

from dataclasses import dataclass

import numpy as np

INDEX = "index"  # loop variables and subscripts: never wraps


@dataclass(frozen=True, slots=True)
class DType:
    """A scalar type.

    Attributes:
        name: spelling in programs.
        numpy: NumPy type of arrays.
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
    """Return `value` converted to `dtype`, as Cast defines it: integers modulo 2^bits, floats rounded to the
    precision of the type, and floats to integers by `nearest_integer`."""
    kind = DTYPES[dtype]
    if kind.name == "bool":
        return bool(value)
    if kind.is_float:
        return _as_float(value, kind.numpy)
    span = kind.greatest - kind.least + 1
    whole = nearest_integer(value) if isinstance(value, float) else int(value)
    return (whole - kind.least) % span + kind.least


def _as_float(value: int | float | bool, kind: type) -> float:
    """Round once: an integer converted to single precision must not pass through a double."""
    with np.errstate(over="ignore"):
        return float(kind(np.int64(value) if isinstance(value, int) else value))


def nearest_integer(value: float) -> int:
    """Return the nearest 64-bit integer, halves to even. Values out of range saturate; NaN gives 0."""
    if value != value:
        return 0
    return min(round(min(max(value, -(2.0**63)), 2.0**63)), (1 << 63) - 1)
