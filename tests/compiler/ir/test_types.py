"""Types of elements: their sizes and limits, and how numbers wrap and round."""

import math

import numpy as np
import pytest

from vdla.compiler.ir.types import DTYPES, INDEX, nearest_integer, wrap

SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "float32": 4,
    "float64": 8,
    INDEX: 8,
}


@pytest.mark.parametrize("name", DTYPES)
def test_sizes_and_limits(name):
    kind, bits = DTYPES[name], 8 * SIZES[name]
    assert kind.bytes == SIZES[name]
    assert kind.is_float is name.startswith("float")
    if kind.is_float:
        expected = -math.inf, math.inf
    elif name == "bool":
        expected = False, True
    elif name.startswith("u"):
        expected = 0, 2**bits - 1
    else:
        expected = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    assert (kind.least, kind.greatest) == expected


@pytest.mark.parametrize("name", [name for name in DTYPES if name.startswith(("int", "u"))])
def test_whole_numbers_wrap_at_the_ends(name):
    least, greatest = DTYPES[name].least, DTYPES[name].greatest
    assert [wrap(value, name) for value in (least, greatest)] == [least, greatest]
    assert [wrap(least - 1, name), wrap(greatest + 1, name)] == [greatest, least]
    assert wrap(greatest + 3 + 5 * (greatest - least + 1), name) == least + 2
    assert wrap(2.5, name) == 2
    assert wrap(True, name) == 1


@pytest.mark.parametrize(
    ("value", "whole"),
    [
        (0.5, 0),
        (1.5, 2),
        (2.5, 2),
        (-0.5, 0),
        (-1.5, -2),
        (0.5000001, 1),
        (2.0**62, 1 << 62),
        (2.0**63, (1 << 63) - 1),
        (2.0**64, (1 << 63) - 1),
        (-(2.0**63), -(1 << 63)),
        (-(2.0**70), -(1 << 63)),
        (math.inf, (1 << 63) - 1),
        (-math.inf, -(1 << 63)),
        (math.nan, 0),
    ],
)
def test_real_numbers_go_to_the_nearest_of_64_bits(value, whole):
    assert nearest_integer(value) == whole
    assert wrap(value, "int64") == whole


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e39, -1e39, 16777217, (1 << 60) + 1, True])
def test_numbers_are_rounded_to_the_precision_once(value):
    with np.errstate(over="ignore"):
        single, double = (
            float(kind(np.int64(value) if isinstance(value, int) else value))
            for kind in (np.float32, np.float64)
        )
    assert wrap(value, "float32") == single
    assert wrap(value, "float64") == double


@pytest.mark.parametrize("value", [0, 1, 2, -1, 0.0, 0.25, math.nan, True, False])
def test_any_number_but_0_is_true(value):
    assert wrap(value, "bool") is (value != 0)
