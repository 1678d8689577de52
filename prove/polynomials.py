"""Sums of products of elements as polynomials in their roots, so that equal sums compare equal, however their
terms are written.

A function of a root is its value for the byte 0 plus a function that is 0 there. The values of the latter are
projected on a fixed vector modulo a prime, scaled so that the byte itself becomes 1. Coefficients of products
of bytes with integers are therefore these integers.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from vdla.prove.elements import Elements
from vdla.prove.functions import BYTES, ZERO, Functions

MODULUS = (1 << 61) - 1
Monomial = tuple[bytes, ...]
"""The roots of a product, in order; () is the constant."""
CONSTANT: Monomial = ()
ROOT_BYTES = 20
LARGEST_SHIFT = 32


def root_of(element: Elements) -> bytes:
    """Return the name of an element's root: its first three fields."""
    return bytes(element.tobytes()[:ROOT_BYTES])


def monomial_of(elements: Iterable[Elements]) -> Monomial:
    """Return the roots of a product of elements, none of which is a constant."""
    return tuple(sorted(root_of(element) for element in elements))


class Polynomials:
    """Makes polynomials of sums.

    Args:
        functions: of the elements.
    """

    def __init__(self, functions: Functions) -> None:
        self._functions, self._known = functions, dict[int, int]()
        words = np.frombuffer(hashlib.shake_128(b"vector").digest(8 * len(BYTES)), np.uint64).tolist()
        scale = pow(sum(int(byte) * word for byte, word in zip(BYTES, words, strict=True)), -1, MODULUS)
        self._vector = [word * scale % MODULUS for word in words]

    def of(self, terms: Iterable[tuple[int, Sequence[Elements]]], constant: int = 0) -> dict[Monomial, int]:
        """Return the coefficients of a sum of products, each of a number and elements, and of a constant.
        Coefficients of 0 are left out, but for the constant's."""
        total = {CONSTANT: constant}
        for factor, elements in terms:
            for monomial, number in self._product(factor, elements).items():
                total[monomial] = total.get(monomial, 0) + number
        signed = {monomial: _signed(number) for monomial, number in total.items()}
        return {monomial: number for monomial, number in signed.items() if number or not monomial}

    def _product(self, factor: int, elements: Sequence[Elements]) -> dict[Monomial, int]:
        product = {CONSTANT: factor}
        for element in elements:
            function, wider = int(element["function"]), dict[Monomial, int]()
            for monomial, number in product.items():
                wider[monomial] = wider.get(monomial, 0) + number * self._origin(function)
                if element["kind"]:
                    longer = tuple(sorted((*monomial, root_of(element))))
                    wider[longer] = wider.get(longer, 0) + number * self._projected(function)
            product = wider
        return product

    def _origin(self, function: int) -> int:
        return int(self._functions.values[function, ZERO])

    def _projected(self, function: int) -> int:
        if function not in self._known:
            values = (self._functions.values[function] - self._origin(function)).tolist()
            number = sum(value * part for value, part in zip(values, self._vector, strict=True)) % MODULUS
            self._known[function] = number
        return self._known[function]


def _signed(number: int) -> int:
    """Return the number of least magnitude that is equal modulo `MODULUS`."""
    rest = number % MODULUS
    return rest - MODULUS if rest > MODULUS >> 1 else rest


def ratio_of(have: Mapping[Monomial, int], due: Mapping[Monomial, int]) -> int | None:
    """Return the binary logarithm of the factor between the coefficients of two sums, their constants apart;
    None if no power of two is the factor of all."""
    if set(have) != set(due):
        return None
    pairs = [(have[monomial], due[monomial]) for monomial in due if monomial]
    if all(computed == expected for computed, expected in pairs):
        return 0
    shifts = [
        shift
        for shift in range(-LARGEST_SHIFT, LARGEST_SHIFT)
        if _signed(pairs[0][0] << max(0, -shift)) == _signed(pairs[0][1] << max(0, shift))
    ]
    for shift in shifts:
        if all(
            _signed(computed << max(0, -shift)) == _signed(expected << max(0, shift))
            for computed, expected in pairs
        ):
            return shift
    return None


def agree(have: Mapping[Monomial, int], due: Mapping[Monomial, int]) -> bool:
    """Whether two sums are equal, but for a power of two, which the requantisation can undo."""
    ratio = ratio_of(have, due)
    return ratio is not None and have[CONSTANT] << max(0, -ratio) == due[CONSTANT] << max(0, ratio)


def likeness(have: Mapping[Monomial, int], due: Mapping[Monomial, int]) -> int:
    """Return how many monomials two sums have in common; monomials with equal coefficients count twice."""
    return sum((monomial in due) + (due.get(monomial) == number) for monomial, number in have.items())
