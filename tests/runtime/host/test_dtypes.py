"""Types of tensors on the host: shapes that fit the declared shapes."""

import numpy as np
import pytest

from vdla.runtime.host.dtypes import DTYPES, TENSOR_DTYPES, UNKNOWN, dtype_of, fits


@pytest.mark.parametrize(
    ("found", "declared", "expected"),
    [
        ((), (), True),
        ((2, 3), (2, 3), True),
        ((2, 3), (2, 4), False),
        ((2, 3), (UNKNOWN, 3), True),
        ((2, 3), (2, UNKNOWN), True),
        ((2, 4), (UNKNOWN, 3), False),
        ((2, 3), (UNKNOWN, UNKNOWN), True),
        ((2,), (2, 3), False),
        ((2, 3), (2,), False),
        ((), (UNKNOWN,), False),
        ((0,), (UNKNOWN,), True),
    ],
)
def test_a_shape_fits_where_each_extent_is_the_declared_or_open(found, declared, expected):
    assert fits(found, declared) == expected


def test_names_of_types_are_numpy_s():
    assert set(DTYPES) < set(TENSOR_DTYPES)
    for name in TENSOR_DTYPES:
        assert (dtype_of(name), np.dtype(name).name) == (name, name)
    with pytest.raises(AssertionError, match=r"^complex64 is no element type of a tensor$"):
        dtype_of("complex64")
