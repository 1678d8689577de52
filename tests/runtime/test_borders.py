"""Borders equal `numpy.pad`'s."""

import numpy as np
import pytest

from vdla.runtime.borders import bordered


@pytest.mark.parametrize("widths", [((0, 0), (0, 0)), ((1, 0), (0, 2)), ((0, 3), (0, 0))])
@pytest.mark.parametrize(("dtype", "value"), [("int8", -128), ("float32", -np.inf), ("int32", 0)])
def test_borders_are_those_of_numpy(widths, dtype, value):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    result = bordered(x, widths, value)
    np.testing.assert_array_equal(result, np.pad(x, widths, constant_values=value))
    assert result.dtype == dtype


def test_nothing_is_copied_where_there_is_no_border():
    x = np.ones((2, 3))
    assert bordered(x, ((0, 0), (0, 0))) is x


def test_a_border_cuts_nothing_off():
    with pytest.raises(ValueError, match=r"^a border of \[\[0, -1\], \[0, 0\]\] has widths below 0$"):
        bordered(np.ones((2, 3)), ((0, -1), (0, 0)))
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        bordered(np.ones((2, 3)), ((0, 1),))
