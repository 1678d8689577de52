"""Scratchpads of activations keep what was loaded into them; accumulators say what they hold."""

from dataclasses import replace

import numpy as np
import pytest

from vdla.prove.domain import Domain
from vdla.prove.elements import LARGEST_BOUND, RESIDUES, Sums, equal
from vdla.prove.errors import ProofError
from vdla.prove.memory import NO_WRITER, Accumulators, Dram, Lanes, Pad, Weights

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
    """Return of each element whether it refers to its row; values and residues are those from before."""
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


def with_greatest() -> tuple[Domain, Accumulators]:
    """Return three accumulators: the greatest of sums, a sum, and a constant."""
    domain = Domain(1)
    held = Accumulators(domain, 3, SIZE)
    one, other = (domain.values(domain.fresh(name, (2, SIZE))) for name in "ab")
    held.put(slice(0, 2), domain.add(one, other))
    held.put_greatest(np.array([0]), np.array([[1]]))
    return domain, held


@pytest.mark.parametrize(
    "use",
    [
        lambda domain, held, places: held.sums(places),
        lambda domain, held, places: held.taken(places),
        lambda domain, held, places: held.constants(places),
        lambda domain, held, places: held.of_one_root(places, "MIN"),
        lambda domain, held, places: held.add(places, domain.values(domain.fresh("c", (1, SIZE)))),
    ],
)
def test_the_greatest_of_sums_is_read_by_nothing_that_takes_a_sum(use):
    domain, held = with_greatest()
    assert held.have_greatest(slice(0, 1))
    with pytest.raises(ProofError, match="greatest of sums of several activations only where MAX or a STORE"):
        use(domain, held, slice(0, 1))
    held.load_words(slice(0, 1), np.zeros((1, SIZE), np.int64))
    assert not held.have_greatest(slice(0, 3))


GROUPS = ((0, 1, 2), (2, 3), (4, 5))
"""Accumulators that an instruction replaces by the greatest of sums."""


@pytest.mark.parametrize("seed", range(40))
def test_the_greatest_of_sums_does_not_depend_on_when_it_is_computed(seed):
    """Random instructions read, replace and join accumulators that overlap, and that are read again."""
    rng, domain, depth = np.random.default_rng(seed), Domain(1), 8
    held = Accumulators(domain, depth, SIZE)
    sums = domain.add(*(domain.values(domain.fresh(name, (depth, SIZE))) for name in "ab"))
    held.put(slice(None), sums)
    expected = domain.sums_as_roots(sums)
    for _ in range(12):
        places = np.array(GROUPS[rng.integers(len(GROUPS))])
        sources = [
            (places + step) % depth for step in rng.choice(np.arange(1, depth), int(rng.integers(1, 3)))
        ]
        if rng.random() < 0.2:
            held.put(places, part := chosen(sums, sources[0]))
            expected[places] = domain.sums_as_roots(part)
        if rng.random() < 0.1:
            held.load_words(places, words := np.full((len(places), SIZE), 5))
            expected[places] = domain.sums_as_roots(domain.values(domain.constants(words)))
        for _ in range(int(rng.integers(1, 3))):
            held.put_greatest(places, np.stack(sources))
            expected[places] = domain.maximum(expected[np.stack([places, *sources])])
        if rng.random() < 0.3:
            assert (held.as_roots(sources[0]) == expected[sources[0]]).all()
    assert (held.as_roots(slice(None)) == expected).all()


def chosen(sums: Sums, places: np.ndarray) -> Sums:
    """Return some sums."""
    return replace(sums, residues=sums.residues[:, places], source=None)


def test_sums_are_told_from_bytes():
    domain, held = with_greatest()
    held.put(slice(2, 3), domain.values(domain.fresh("x", (1, SIZE))))
    assert [held.are_sums(slice(place, place + 1)) for place in range(3)] == [True, True, False]


def test_a_sum_with_a_bound_that_fits_no_accumulator_is_refused():
    accumulators = Accumulators(Domain(1), 1, 1)
    sums = Sums(np.zeros((RESIDUES, 1, 1)), None, LARGEST_BOUND, 0)
    accumulators.put(slice(0, 1), sums)
    for bounds in ({"reach": LARGEST_BOUND + 1}, {"offset": LARGEST_BOUND + 1}):
        with pytest.raises(
            ProofError, match=r"a sum is bounded by 4,611,686,018,427,387,905; a proof covers"
        ):
            accumulators.put(slice(0, 1), replace(sums, **bounds))


def test_sums_are_written_to_as_many_accumulators():
    domain = Domain(1)
    accumulators = Accumulators(domain, 4, 2)
    with pytest.raises(AssertionError, match="as many as accumulators"):
        accumulators.put(np.array([1, 2]), domain.values(domain.fresh("x", (1, 2))))


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
