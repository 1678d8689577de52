"""Records as compiled functions take them: their fields in order, packed unless they are to be aligned."""

from typing import Annotated

import numpy as np
import pytest

from vdla.sim.records import Ints, Narrow, record_dtype


class Inner:
    flag: bool
    count: int


class Outer:
    small: Narrow
    inner: Inner
    row: Annotated[Ints, (3,)]
    last: bool


FIELDS = {
    "small": np.dtype(np.uint8),
    "row": np.dtype((np.int64, (3,))),
    "last": np.dtype(np.bool_),
}


@pytest.mark.parametrize(
    ("named", "places", "inside", "size"),
    [
        ({}, (0, 1, 10, 34), (0, 1), 35),
        ({"align": False}, (0, 1, 10, 34), (0, 1), 35),
        ({"align": True}, (0, 8, 24, 48), (0, 8), 56),
    ],
    ids=str,
)
def test_fields_lie_side_by_side_unless_they_are_aligned(named, places, inside, size):
    dtype = record_dtype(Outer, **named)
    assert dtype.names == ("small", "inner", "row", "last")
    assert tuple(dtype.fields[name][1] for name in dtype.names) == places
    assert tuple(offset for _, offset in dtype["inner"].fields.values()) == inside
    assert {name: dtype[name] for name in FIELDS} == FIELDS
    assert (dtype["inner"]["flag"], dtype["inner"]["count"]) == (np.bool_, np.int64)
    assert dtype.itemsize == size
