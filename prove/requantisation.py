"""Sets of parameters of requantisation, in the form that a proof compares.

Two sets that compute the same from a sum plus its bias have equal `Requantisation.kind`s and clips: the
multiplier is made odd, and bounds narrower than a byte are a function of the requantised byte.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec.numerics import BYTE_BITS, requantise_operands
from vdla.prove.axioms import Axiom
from vdla.prove.elements import NO_ROOT
from vdla.prove.functions import BYTES, FIRST_CONSTANT, Functions
from vdla.runtime.requantise import requantise

EXACT = 64
"""Bits of a sum that does not wrap."""


@dataclass(frozen=True, slots=True)
class Requantisation:
    """What one set of parameters does to a sum.

    Attributes:
        number: of the set.
        bias: added to the sum.
        kind: of the root that a sum of several roots becomes; `NO_ROOT` if every sum gives the same.
        function: number of the function of that root, or of the constant.
    """

    number: int
    bias: int
    kind: int
    function: int


Words = tuple[int, int, int, int]
Key = tuple[Words, int]  # with the bits of the sum


class Requantisations:
    """The sets of parameters of a proof.

    Args:
        functions: the functions of the proof.
        kind: returns the number of a kind of root.
        use: is told of each axiom that is used.
    """

    def __init__(self, functions: Functions, kind: Callable[..., int], use: Callable[[Axiom], None]) -> None:
        self._functions, self._kind, self._use = functions, kind, use
        self._keys: list[Key] = []
        self._known: dict[Key, Requantisation] = {}
        self._rows: dict[tuple[bytes, int], NDArray[np.int64]] = {}

    def columns(self, words: np.ndarray, bits: int) -> NDArray[np.int64]:
        """Return int64[4, n] for parameters int64[4, n] of sums of `bits` bits: the fields of a
        `Requantisation` each."""
        key = np.ascontiguousarray(words, np.int64).tobytes(), bits
        if key not in self._rows:
            sets = [self._of(((a, b, c, d), bits)) for a, b, c, d in words.T.tolist()]
            fields = [(it.number, it.bias, it.kind, it.function) for it in sets]
            self._rows[key] = np.array(fields, np.int64).reshape(-1, 4).T
        return self._rows[key]

    def _of(self, key: Key) -> Requantisation:
        if key not in self._known:
            self._known[key] = self._made(len(self._keys), key)
            self._keys.append(key)
        return self._known[key]

    def _made(self, number: int, key: Key) -> Requantisation:
        words, bits = key
        bias, multiplier, shift, zero, least, greatest = map(int, requantise_operands(words))
        clip = np.maximum(np.minimum(BYTES, greatest), least)
        if not multiplier or (clip == clip[0]).all():
            constant = max(least, min(zero, greatest))
            return Requantisation(number, bias, NO_ROOT, FIRST_CONSTANT + constant + (1 << BYTE_BITS - 1))
        if not multiplier & 1 and shift:
            self._use(Axiom.ODD_MULTIPLIER)
        while not multiplier & 1 and shift:
            multiplier, shift = multiplier >> 1, shift - 1
        if least > BYTES[0] or greatest < BYTES[-1]:
            self._use(Axiom.BOUNDS_AS_FUNCTION)
        kind = self._kind("requantised", multiplier, shift, zero, bits)
        return Requantisation(number, bias, kind, self._functions.number(clip))

    def result(self, number: int, values: np.ndarray) -> np.ndarray:
        """Return int64[256]: sums int64[256] requantised by a set of parameters."""
        words, bits = self._keys[number]
        return requantise(values, np.array(words, np.int64)[:, None], bits).astype(np.int64)
