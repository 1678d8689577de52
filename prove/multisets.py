"""Rows of bytes without the order of their values: how often a row holds each byte.

A row has a polynomial: the sum, over its elements and all bytes, of `[element == byte] * h(byte)`. The secret
numbers h(byte), of which each prime has its own, are variables besides those of `vdla.prove.domain`. Two rows
hold each byte equally often for all inputs only if their polynomials are equal. A polynomial has the degree 1
in h, in B and in G. Two unequal polynomials are thus no likelier to have equal values than sums of degree 2.
"""

from collections.abc import Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from vdla.prove.elements import LARGEST_DEGREE, PRIMES, RESIDUES, Elements, Floats, Sums, require_defined
from vdla.prove.functions import BYTES, ZERO, Functions, coefficients
from vdla.prove.kernels import WORDS_OF_ROOT, evaluate

TOGETHER = 64
"""Roots whose pseudo-random bits are computed at a time."""


class Multisets:
    """The rows of a proof, which threads may look at at the same time.

    Args:
        functions: the functions of the proof.
        keys: uint64[4], secret, of the roots.
        matrices: secret matrices of the primes.
        numbers: uint64[RESIDUES, 256], secret.
    """

    def __init__(
        self,
        functions: Functions,
        keys: NDArray[np.uint64],
        matrices: Sequence[NDArray[np.int64]],
        numbers: NDArray[np.uint64],
    ) -> None:
        self._functions, self._keys, self._matrices = functions, keys, matrices
        self._numbers = [
            (row % np.uint64(p)).astype(np.int64) for row, p in zip(numbers, PRIMES, strict=True)
        ]
        self._growing = Lock()
        # of functions, whose numbers are greater by 1: number 0 stands for a root itself
        self._coefficients = np.zeros((1, RESIDUES, 1 + LARGEST_DEGREE), np.int64)

    def sums(self, rows: Elements) -> Sums:
        """Return the polynomials of rows of bytes, elements[n, m], as sums[n].

        Raises:
            ProofError: an element is undefined.
        """
        require_defined(rows)
        flat = rows.reshape(-1).copy()
        flat["function"] += 1
        residues: Floats = np.empty((RESIDUES, flat.size))
        words, bits = (
            np.zeros((WORDS_OF_ROOT, TOGETHER), np.uint64),
            np.zeros((RESIDUES, TOGETHER), np.uint64),
        )
        evaluate(flat, self._keys, self._of_functions(), words, bits, residues)
        totals = residues.reshape(RESIDUES, *rows.shape).sum(2)
        return Sums(totals, None, rows.shape[1], 0, LARGEST_DEGREE)

    def _of_functions(self) -> NDArray[np.int64]:
        """Return the coefficients of h(function), as `Domain` has those of functions."""
        with self._growing:
            first = len(self._coefficients) - 1
            if first < self._functions.count:
                places = self._functions.values[first:].clip(BYTES[0], BYTES[-1]) + ZERO
                secrets = zip(self._numbers, self._matrices, PRIMES, strict=True)
                rows = [coefficients(numbers[places], matrix, prime) for numbers, matrix, prime in secrets]
                self._coefficients = np.concatenate((self._coefficients, np.stack(rows, 1)))
            return self._coefficients
