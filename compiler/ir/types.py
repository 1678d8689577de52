"""Scalar types of loop programs and the arithmetic on them: integers wrap, shifts right are arithmetic."""

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
    numpy: type

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return issubclass(self.numpy, np.floating)

    @property
    def least(self) -> int | float:
        """The least value."""
        if self.is_float:
            return float("-inf")
        return False if self.name == "bool" else int(np.iinfo(self.numpy).min)

    @property
    def greatest(self) -> int | float:
        """The greatest value."""
        if self.is_float:
            return float("inf")
        return True if self.name == "bool" else int(np.iinfo(self.numpy).max)


DTYPES = {name: DType(name, numpy) for name, numpy in {
    "bool": np.bool_, "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64, "uint8": np.uint8,
    "float32": np.float32, "float64": np.float64, INDEX: np.int64}.items()}


def wrap(value: int | float | bool, dtype: str) -> int | float | bool:
    """Return `value` as the type holds it: integers modulo 2^bits, floats rounded."""
    kind = DTYPES[dtype]
    if kind.name == "bool":
        return bool(value)
    if kind.is_float:
        return float(kind.numpy(value))
    span = kind.greatest - kind.least + 1
    return (int(value) - kind.least) % span + kind.least
