"""Narrow values are packed low bits first, and come back with their signs."""

import numpy as np
import pytest

from vdla.runtime.packing import pack_values, unpack_values


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_packing_and_unpacking_are_inverse(bits):
    values = np.arange(256, dtype=np.uint8).view(np.int8) >> (8 - bits)
    packed = pack_values(values, bits)
    assert (packed.dtype, packed.shape) == (np.uint8, (256 * bits // 8,))
    assert np.array_equal(unpack_values(packed, bits), values)


@pytest.mark.parametrize(
    ("bits", "values", "packed"),
    [(2, [1, -2, 0, -1], [0b11_00_10_01]), (4, [1, -2, 7, -8], [0xE1, 0x87]), (8, [1, -2], [1, 0xFE])],
)
def test_the_first_value_stands_in_the_low_bits(bits, values, packed):
    assert pack_values(np.array(values, np.int8), bits).tolist() == packed
    assert unpack_values(np.array(packed, np.uint8), bits).tolist() == values


def test_bits_above_those_of_a_value_are_dropped():
    assert pack_values(np.array([0x71, 0x12], np.int8), 4).tolist() == [0x21]


def test_rows_are_packed_one_after_another_whatever_their_order_in_memory():
    rows = np.array([[1, 2], [3, 4]], np.int8)
    assert pack_values(np.asfortranarray(rows), 4).tolist() == [0x21, 0x43]
    assert pack_values(rows.T, 8).tolist() == [1, 3, 2, 4]


def test_bytes_are_not_copied():
    values = np.arange(4, dtype=np.int8)
    assert np.shares_memory(pack_values(values, 8), values)
