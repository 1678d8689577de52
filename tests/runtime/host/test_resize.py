"""Resizing to the nearest element, against the specification's formulas in exact fractions."""

from fractions import Fraction
from itertools import product
from math import ceil, floor

import numpy as np
import pytest

from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.host.resize import COORDINATES, ROUNDINGS

HALF = Fraction(1, 2)
SIZES = [
    (5, 10, 2),
    (4, 7, Fraction(7, 4)),
    (9, 4, Fraction(7, 16)),
    (8, 1, Fraction(1, 8)),
    (8, 2, Fraction(1, 4)),
    (1, 3, 3),
    (7, 7, Fraction(9, 8)),
]
"""Extents of the input and of the result, and the scale; the result's may be rounded, or cut.
A place halfway between two elements is exact in floats, too."""


def centre(mode: str, index: int, size: int, out: int, scale: Fraction) -> Fraction:
    """Return where the specification says that an element's centre lies in the input."""
    if mode == "align_corners":
        return Fraction(index * (size - 1), out - 1) if out > 1 else Fraction(0)
    if mode == "asymmetric":
        return index / Fraction(scale)
    if mode == "pytorch_half_pixel" and out == 1:
        return Fraction(0)
    middle = (index + HALF) / scale - HALF
    adjustment = out / (Fraction(scale) * size)
    return middle + Fraction(size, 2) * (1 - adjustment) if mode == "half_pixel_symmetric" else middle


NEAREST = {
    "ceil": ceil,
    "floor": floor,
    "round_prefer_ceil": lambda place: floor(place + HALF),
    "round_prefer_floor": lambda place: ceil(place - HALF),
}


@pytest.mark.parametrize(("size", "out", "scale"), SIZES)
@pytest.mark.parametrize(("mode", "rounding"), [*product(COORDINATES, ROUNDINGS)])
def test_each_element_is_the_nearest_of_its_dimension(mode, rounding, size, out, scale):
    x = np.arange(2 * size, dtype=np.int32).reshape(2, size)
    how = {"coordinate_transformation_mode": mode, "nearest_mode": rounding}
    (y,) = evaluate("Resize", [x], {**how, "scales": (1.0, float(scale)), "sizes": (2, out)})
    places = [NEAREST[rounding](centre(mode, index, size, out, scale)) for index in range(out)]
    np.testing.assert_array_equal(y, x[:, np.clip(places, 0, size - 1)], strict=True)


def test_every_dimension_is_resized_by_its_own_scale():
    x = np.arange(12).reshape(1, 2, 2, 3)
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    (y,) = evaluate("Resize", [x], {**how, "scales": (2.0, 1.0, 2.0, 3.0), "sizes": (2, 2, 4, 9)})
    np.testing.assert_array_equal(y, x.repeat(2, 0).repeat(2, 2).repeat(3, 3))
