"""Scratchpads of activations keep what was loaded into them."""

import numpy as np
import pytest

from vdla.prove.domain import Domain
from vdla.prove.elements import equal
from vdla.prove.memory import NO_WRITER, Dram, Lanes, Pad, Weights

SIZE, ROWS, DEPTH = 4, 6, 3
LOADED = np.array([1, 3, 4])


def loaded() -> tuple[Domain, Dram, Pad]:
    """Return DRAM, and a scratchpad whose elements refer to its rows `LOADED`."""
    domain = Domain(1)
    dram = Dram(domain, np.zeros(0, np.uint8), 0, ROWS * SIZE, 2 * SIZE, (DEPTH + 1) * SIZE)
    pad = Pad(domain, dram, ROWS * SIZE, DEPTH, SIZE)
    pad.refer(np.arange(DEPTH), LOADED)
    return domain, dram, pad


def constants(domain: Domain, count: int, size: int) -> Lanes:
    return Lanes.of_constants(domain, np.full((count, size), 7))


def holds_row(dram: Dram, pad: Pad, before: Lanes) -> list[bool]:
    """Return of each element whether it refers to its row; values and residues equal `before`."""
    held = pad.chosen(slice(None))
    assert equal(held.elements.reshape(-1), before.elements.reshape(-1)).all()
    np.testing.assert_array_equal(held.residues, before.residues)
    return [bool(row == place) for row, place in zip(pad.rows, LOADED, strict=True)]


@pytest.mark.parametrize(
    ("size", "place", "refers"),
    [
        (SIZE, 3, [True, False, True]),
        (SIZE, 2, [True, True, True]),
        (2 * SIZE, 1, [True, False, True]),
        (2 * SIZE, 2, [True, True, False]),
        (1, 4 * SIZE - 1, [True, False, True]),
        (1, 4 * SIZE, [True, True, False]),
    ],
)
def test_an_element_is_copied_before_its_row_changes(size, place, refers):
    domain, dram, pad = loaded()
    before = dram.view(SIZE).chosen(LOADED)
    dram.put(size, np.array([place]), constants(domain, 1, size), np.array([9]))
    assert holds_row(dram, pad, before) == refers
    assert np.flatnonzero(dram.writers != NO_WRITER).tolist() == [*range(place * size, (place + 1) * size)]


def test_a_value_that_the_host_writes_changes_no_element():
    domain, dram, pad = loaded()
    before = dram.view(SIZE).chosen(LOADED)
    dram.write(SIZE, constants(domain, SIZE + 1, 1))
    assert holds_row(dram, pad, before) == [False, True, True]


def test_an_element_that_is_replaced_changes_no_row():
    domain, dram, pad = loaded()
    before = dram.view(SIZE).chosen(np.arange(ROWS))
    pad.put(slice(0, 2), constants(domain, 2, SIZE))
    after = dram.view(SIZE).chosen(np.arange(ROWS))
    assert equal(before.elements.reshape(-1), after.elements.reshape(-1)).all()
    assert (pad.chosen(slice(0, 2)).residues == 7).all()
    assert pad.rows[2] == LOADED[2]


def test_padding_of_another_value_changes_no_element():
    domain, _, pad = loaded()
    pad.fill(slice(0, 2), 5)
    pad.fill(slice(1, 3), -3)
    residues = pad.chosen(slice(None)).residues[0]
    assert residues.tolist() == [[5] * SIZE, [-3] * SIZE, [-3] * SIZE]
    values = domain.functions.least[pad.chosen(slice(None)).elements["function"]]
    assert values.tolist() == residues.tolist()


def test_weights_and_what_follows_from_them_are_written_together():
    weights = Weights(3, 2, 4)
    numbers = np.arange(-8, 8, dtype=np.int8).reshape(2, 8)
    weights.put_numbers(slice(None), -128)
    weights.put_numbers(np.array([2, 0]), numbers)
    expected = np.full((3, 2, 4), -128)
    expected[[2, 0]] = numbers.reshape(2, 2, 4)
    np.testing.assert_array_equal(weights.numbers, expected)
    np.testing.assert_array_equal(weights.columns, expected.transpose(0, 2, 1))
    np.testing.assert_array_equal(weights.magnitudes, np.abs(expected).sum(2))


@pytest.mark.parametrize("first", [32, 33])
def test_constants_are_read_by_address(first):
    dram = Dram(Domain(1), np.arange(50, dtype=np.uint8), 64, 64, 16)
    addresses = np.array([first, first - 16])
    assert dram.constant(16, addresses).tolist() == [[*range(at, at + 16)] for at in addresses.tolist()]
