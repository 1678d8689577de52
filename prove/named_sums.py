"""The sums that a proof has named, and the probability that it gave two different sums the same name."""

from bisect import bisect_right
from itertools import accumulate
from operator import mul
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from vdla.prove.elements import LARGEST_DEGREE, NO_ROOT, PRIMES, RESIDUES, Sums
from vdla.prove.errors import ProofError

CLASSES = tuple((degree, divisors) for degree in range(1, LARGEST_DEGREE + 1) for divisors in range(RESIDUES))
"""Classes of sums: by degree, and by how many primes may divide the coefficients of a difference of two."""
LIKELIEST = 2.0**-30 / (1 - 2.0**-30)
"""Bound on the probability of each value of an entry of B and G, given that B can be scaled; see
`vdla.prove.domain`."""


class NamedSums:
    """Counts of the sums that were named, by class and kind of root. Two threads may count at a time."""

    def __init__(self) -> None:
        self._counting = Lock()
        self._counts = np.zeros((len(CLASSES), 1), np.int64)  # by class and kind

    @property
    def count(self) -> int:
        """The number of sums that were named."""
        return int(self._counts.sum())

    def add(self, sums: Sums, kinds: NDArray[np.int64], repeats: int) -> None:
        """Count sums that are named: `repeats` for each entry of `kinds`, int64[n].

        Sums whose coefficients exceed a prime are counted apart: the difference of two of them may have
        coefficients that the prime divides.

        Raises:
            ProofError: coefficients of the sums could be divisible by every prime.
        """
        divisors = bisect_right(list(accumulate(sorted(PRIMES), mul)), 2 * sums.reach)
        if divisors == RESIDUES:
            raise ProofError(
                f"a sum has coefficients of up to {sums.reach:,}; a proof covers only smaller coefficients"
            )
        number = CLASSES.index((max(1, sums.degree), divisors))
        with self._counting:
            missing = int(kinds.max(initial=NO_ROOT)) + 1 - self._counts.shape[1]
            if missing > 0:
                self._counts = np.pad(self._counts, ((0, 0), (0, missing)))
            np.add.at(self._counts[number], kinds, repeats)

    @property
    def failure_probability(self) -> float:
        """A bound on the probability that two different sums of a kind have the same name.

        Every pair of different sums of a kind counts. By Schwartz and Zippel, each prime confuses two such
        sums with a probability of at most 2 * degree * `LIKELIEST`, as their polynomials in B and G have at
        most twice the degree. Primes that may divide the coefficients do not count.
        """
        total = 0.0
        for row, (degree, divisors) in enumerate(CLASSES):
            for row_2, (degree_2, divisors_2) in enumerate(CLASSES[: row + 1]):
                left, right = (self._counts[each, NO_ROOT + 1 :].astype(np.float64) for each in (row, row_2))
                pairs = left * (left - 1) / 2 if row == row_2 else left * right
                exponent = RESIDUES - max(divisors, divisors_2)
                total += float(pairs.sum()) * (2 * max(degree, degree_2) * LIKELIEST) ** exponent
        return total
