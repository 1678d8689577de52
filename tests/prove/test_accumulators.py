"""Accumulators say what they hold, and are read only as that."""

from dataclasses import replace

import numpy as np
import pytest

from vdla.prove.accumulators import Accumulators
from vdla.prove.domain import Domain
from vdla.prove.elements import LARGEST_BOUND, RESIDUES, Sums
from vdla.prove.errors import ProofError

SIZE = 4


def with_greatest() -> tuple[Domain, Accumulators]:
    """Return three accumulators: the greatest of sums, a sum, and a constant."""
    domain = Domain(1)
    held = Accumulators(domain, 3, SIZE)
    left, right = (domain.values(domain.fresh(name, (2, SIZE))) for name in "ab")
    held.put(slice(0, 2), domain.add(left, right))
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
