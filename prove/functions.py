"""Functions of a byte, by their 256 values. Equal functions have equal numbers."""

from collections.abc import Callable
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from vdla.prove.elements import LARGEST_DEGREE

BYTES = np.arange(-128, 128, dtype=np.int64)
"""Every value of a byte, in the order of the values of functions."""
IDENTITY = 0
FIRST_CONSTANT = 1
"""The number of the constant -128; the numbers of the next bytes follow."""
ZERO = 128
"""The place of the byte 0 in the values of a function."""

Numbers = NDArray[np.int32]
Rule = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Functions:
    """The functions of a proof, numbered in order of appearance.

    The identity is number 0. The constants -128 to 127 follow. Threads may number functions at the same time.
    """

    def __init__(self) -> None:
        self.count = 0
        self._numbering = Lock()
        self._values = np.zeros((512, len(BYTES)), np.int64)
        self._least = np.zeros(512, np.int64)
        self._greatest = np.zeros(512, np.int64)
        self._is_constant = np.zeros(512, np.bool_)
        self._numbers: dict[bytes, int] = {}
        self._pairs: dict[str, dict[tuple[int, int], int]] = {}
        self.number(BYTES)
        for constant in BYTES:
            self.number(np.full_like(BYTES, constant))

    @property
    def values(self) -> NDArray[np.int64]:
        """int64[functions, 256]: the values of every function, for the bytes -128 to 127."""
        return self._values[: self.count]

    @property
    def is_constant(self) -> NDArray[np.bool_]:
        """bool[functions]: whether a function is a constant."""
        return self._is_constant[: self.count]

    @property
    def least(self) -> NDArray[np.int64]:
        """int64[functions]: the least value of each."""
        return self._least[: self.count]

    @property
    def greatest(self) -> NDArray[np.int64]:
        """int64[functions]: the greatest value of each."""
        return self._greatest[: self.count]

    def number(self, values: np.ndarray) -> int:
        """Return the number of the function with these values, int[256], for the bytes -128 to 127."""
        row = np.ascontiguousarray(values, np.int64)
        with self._numbering:
            number = self._numbers.setdefault(row.tobytes(), self.count)
            if number == self.count:
                self._append(row)
        return number

    def _append(self, row: np.ndarray) -> None:
        if self.count == len(self._values):
            for name in ("_values", "_least", "_greatest", "_is_constant"):
                grown = getattr(self, name)
                setattr(self, name, np.concatenate((grown, np.zeros_like(grown))))
        self._values[self.count] = row
        least, greatest = row.min(), row.max()
        self._least[self.count], self._greatest[self.count] = least, greatest
        self._is_constant[self.count] = least == greatest
        self.count += 1  # last: other threads read the rows before it without the lock

    def constants(self, values: np.ndarray) -> Numbers:
        """Return the numbers of constants, int32[...] for int[...]."""
        integers = np.asarray(values, np.int64)
        if not integers.size or (integers.min() >= BYTES[0] and integers.max() <= BYTES[-1]):
            bytes_: Numbers = np.add(integers, FIRST_CONSTANT - BYTES[0]).astype(np.int32)
            return bytes_
        distinct, places = np.unique(integers, return_inverse=True)
        rows = [self.number(np.full_like(BYTES, constant)) for constant in distinct]
        return np.array(rows, np.int32)[places].reshape(integers.shape)

    def composed(self, outer: Numbers, inner: Numbers) -> Numbers:
        """Return the functions outer(inner(x)), int32[...], of numbers that broadcast together.

        Raises:
            IndexError: the values of an inner function are no bytes.
        """
        if inner.size and outer.size and not inner.any():
            same: Numbers = np.broadcast_to(outer, np.broadcast_shapes(outer.shape, inner.shape))
            return same
        composition: Numbers = self.of_pairs("composed", _compose, outer, inner)
        return composition

    def of_pairs(self, name: str, rule: Rule, left: Numbers, right: Numbers) -> Numbers:
        """Return the functions that a rule makes of pairs of functions, int32[...].

        Args:
            name: of the rule; equal names are equal rules.
            rule: returns int64[256] for two of these.
            left, right: numbers that broadcast together.
        """
        return self.of_number_pairs(name, lambda a, b: rule(self._values[a], self._values[b]), left, right)

    def of_number_pairs(
        self, name: str, rule: Callable[[int, int], np.ndarray], left: np.ndarray, right: np.ndarray
    ) -> Numbers:
        """Return the functions that a rule makes of pairs of numbers, int32[...]; `of_pairs` explains the
        arguments."""
        known = self._pairs.setdefault(name, {})
        distinct, places = distinct_pairs(left, right)
        results = np.zeros(len(distinct), np.int32)
        for place, pair in enumerate(distinct):
            if pair not in known:
                known[pair] = self.number(rule(*pair))
            results[place] = known[pair]
        numbers: Numbers = results[places]
        return numbers


def _compose(outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
    if inner.min() < BYTES[0] or inner.max() > BYTES[-1]:
        raise IndexError(f"a function of bytes is applied to values {inner.min()}..{inner.max()}")
    composition: np.ndarray = outer[inner + ZERO]
    return composition


SMALL_RANGE = 1 << 20


def distinct_pairs(left: np.ndarray, right: np.ndarray) -> tuple[list[tuple[int, int]], NDArray[np.int64]]:
    """Return the distinct pairs of two arrays of integers that broadcast together, and the place of each
    element's pair among them, int64[...]."""
    shape = np.broadcast_shapes(left.shape, right.shape)
    if 0 in shape:
        return [], np.zeros(shape, np.int64)
    first, last = int(right.min()), int(right.max())
    width, lowest = last - first + 1, int(left.min())
    keys = np.broadcast_to((left.astype(np.int64) - lowest) * width + (right - first), shape)
    distinct, places = _distinct(keys, (int(left.max()) - lowest + 1) * width)
    return [(key // width + lowest, key % width + first) for key in distinct.tolist()], places


def _distinct(keys: np.ndarray, extent: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values of keys below `extent`, in order, and the place of each key."""
    if extent == 1:
        return np.zeros(1, np.int64), np.zeros(keys.shape, np.int64)
    if extent > SMALL_RANGE:
        distinct, places = np.unique(keys, return_inverse=True)
        return distinct, places.reshape(keys.shape)
    seen = np.zeros(extent, bool)
    seen[keys] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[keys]


def secret_matrix(prime: int, words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the secret matrix int64[256, LARGEST_DEGREE] of a prime, made of words uint64[n] and scaled so
    that the identity has the coefficients (1, 0)."""
    left = iter(words.tolist())
    while True:
        first, second = ([int(next(left)) % prime for _ in BYTES] for _ in range(LARGEST_DEGREE))
        first_sum, second_sum = (
            sum(int(byte) * value for byte, value in zip(BYTES, column, strict=True)) % prime
            for column in (first, second)
        )
        if first_sum:
            break
    inverse = pow(first_sum, -1, prime)
    columns = [value * inverse % prime for value in first]
    rest = [(value - second_sum * scaled) % prime for value, scaled in zip(second, columns, strict=True)]
    return np.array((columns, rest), np.int64).T


def coefficients(values: NDArray[np.int64], matrix: NDArray[np.int64], prime: int) -> NDArray[np.int64]:
    """Return int64[functions, 3] for the values int64[functions, 256]; see `vdla.prove.domain`."""
    origin = values[:, ZERO : ZERO + 1]
    differences = (values - origin) % prime
    high, low = (part @ matrix % prime for part in (differences >> 16, differences & (1 << 16) - 1))
    products = ((high << 16) + low) % prime
    return np.concatenate((origin % prime, products), 1)
