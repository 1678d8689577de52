"""Sets of parameters of requantisation, in the form that a proof compares.

Two sets that compute the same from a sum plus its bias have roots of equal kinds, and equal functions of
these roots. For this purpose the multiplier is made odd, and bounds narrower than a byte become a function of
the requantised byte.
"""

from bisect import bisect_right
from collections.abc import Callable
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec.numerics import requantise_operands
from vdla.prove.axioms import Axiom
from vdla.prove.elements import NO_ROOT
from vdla.prove.functions import BYTES, IDENTITY, Functions
from vdla.runtime.requantise import requantise

EXACT = 64
"""Bits of a sum that does not wrap."""
Integers = NDArray[np.int64]


class Requantisations:
    """The sets of parameters of a proof, which threads may extend at the same time.

    Args:
        functions: the functions of the proof.
        kind: returns the number of a kind of root.
        use: is told of each axiom that is used.
    """

    def __init__(self, functions: Functions, kind: Callable[..., int], use: Callable[[Axiom], None]) -> None:
        self._functions, self._kind, self._use = functions, kind, use
        self._numbering = Lock()
        self._sets: list[tuple[Integers, int]] = []  # parameters int64[4, n] and the bits of the sums
        self._firsts = [0]  # number of the first parameters of each set, and of the next
        self._columns: dict[tuple[bytes, int], Integers] = {}
        self._clip_numbers: dict[tuple[int, int], int] = {}  # of functions, by least and greatest value

    def columns(self, words: Integers, bits: int) -> Integers:
        """Return int64[4, n] for parameters int64[4, n] of sums of `bits` bits.

        The rows are a number, the bias, the kind of the root that a sum of several roots becomes, and the
        number of the function of that root. The kind is `NO_ROOT` if every sum gives the same constant.
        """
        key = np.ascontiguousarray(words).tobytes(), bits
        known = self._columns.get(key)
        if known is not None:
            return known
        with self._numbering:
            if key not in self._columns:
                self._columns[key] = self._new_columns(words, bits)
            return self._columns[key]

    def _new_columns(self, words: Integers, bits: int) -> Integers:
        bias, multiplier, shift, zero, least, greatest = requantise_operands(tuple(words))
        numbers = self._firsts[-1] + np.arange(words.shape[1])
        self._sets.append((words.copy(), bits))  # of accumulators, which change
        self._firsts.append(self._firsts[-1] + words.shape[1])
        functions = self._clips(least, greatest)
        unused = np.maximum(np.minimum(zero, greatest), least)
        constant = (multiplier == 0) | self._functions.is_constant[functions]
        functions = np.where(multiplier == 0, self._functions.constants(unused), functions)
        kinds = np.where(constant, NO_ROOT, self._kinds(multiplier, shift, zero, bits))
        return np.stack((numbers, bias, kinds, functions)).astype(np.int64)

    def _clips(self, least: Integers, greatest: Integers) -> Integers:
        """Return the numbers of the functions that clip a byte, int64[n]."""
        pairs = list(zip(least.tolist(), greatest.tolist(), strict=True))
        for low, high in set(pairs) - self._clip_numbers.keys():
            self._clip_numbers[low, high] = self._functions.number(np.maximum(np.minimum(BYTES, high), low))
        if any(self._clip_numbers[pair] != IDENTITY for pair in set(pairs)):
            self._use(Axiom.BOUNDS_AS_FUNCTION)
        return np.array([self._clip_numbers[pair] for pair in pairs], np.int64)

    def _kinds(self, multiplier: Integers, shift: Integers, zero: Integers, bits: int) -> Integers:
        """Return the numbers of the kinds of roots, int64[n]."""
        lowest = np.maximum(multiplier & -multiplier, 1)
        halvings = np.minimum(np.frexp(lowest.astype(np.float64))[1] - 1, shift)
        if halvings.any():
            self._use(Axiom.ODD_MULTIPLIER)
        odd = np.stack((multiplier >> halvings, shift - halvings, zero))
        return np.array([self._kind("requantised", *each, bits) for each in odd.T.tolist()], np.int64)

    def wraps_at(self, numbers: Integers) -> int:
        """Return the least magnitude of a sum plus its bias that may wrap, by the numbers of parameters."""
        places = {bisect_right(self._firsts, number) - 1 for number in np.unique(numbers).tolist()}
        return 1 << min(self._sets[place][1] for place in places) - 1

    def result(self, number: int, values: np.ndarray) -> np.ndarray:
        """Return int64[256]: sums int64[256] requantised by the parameters of a number."""
        place = bisect_right(self._firsts, number) - 1
        words, bits = self._sets[place]
        column = words[:, number - self._firsts[place], None]
        return requantise(values, column, bits).astype(np.int64)
