"""Records and arrays that compiled code and NumPy share.

A record is declared once, as a class whose annotations are its fields; NumPy's type follows from them. Type
checkers see an instance of the class wherever compiled code has a record.
"""

from typing import Annotated, Any, Protocol, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

Record = TypeVar("Record", covariant=True)

ByteArray: TypeAlias = NDArray[np.uint8]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
FloatArray: TypeAlias = NDArray[np.float64]
RecordArray: TypeAlias = NDArray[np.void]

Narrow = Annotated[int, np.uint8]
Int32 = Annotated[int, np.int32]


class Ints(Protocol):
    """Integers in a row: an array, or such a field of a record."""

    @property
    def size(self) -> int:
        """How many there are."""

    def __getitem__(self, place: int, /) -> int: ...

    def __setitem__(self, place: int, value: int, /) -> None: ...


class Grid(Protocol):
    """Integers in rows and columns."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""

    def __getitem__(self, place: tuple[int, int], /) -> int: ...

    def __setitem__(self, place: tuple[int, int], value: int, /) -> None: ...


class Records(Protocol[Record]):
    """Records in a row: a structured array."""

    @property
    def size(self) -> int:
        """How many there are."""

    def __getitem__(self, place: int, /) -> Record: ...


def record_dtype(declared: type, *, align: bool = False) -> np.dtype[np.void]:
    """Return the structured type of a record.

    A field is `int` (int64), `bool`, another record, an `Annotated` number with its NumPy type, or an
    `Annotated` array of int64 with its shape.
    """
    hints = get_type_hints(declared, include_extras=True)
    return np.dtype([(name, *_field(kind, align)) for name, kind in hints.items()], align=align)


def _field(kind: Any, align: bool) -> tuple[Any, ...]:
    if get_origin(kind) is Annotated:
        base, detail = get_args(kind)
        return (detail,) if base is int else (np.int64, detail)
    if kind in (int, bool):
        return (np.int64 if kind is int else np.bool_,)
    return (record_dtype(kind, align=align),)
