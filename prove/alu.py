"""The operations of the ALU over sums."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec.vocabulary import AluOpcode
from vdla.prove.accumulators import require_one_root
from vdla.prove.domain import Domain
from vdla.prove.elements import REDUCED, SEVERAL, Elements, Sums
from vdla.prove.errors import ProofError
from vdla.prove.functions import BYTES
from vdla.prove.memory import Lanes

Values = NDArray[np.int64]
POLYNOMIALS = (AluOpcode.ADD, AluOpcode.MUL)


def sums_of_bytes(values: Lanes) -> Sums:
    """Return bytes as sums of one term each."""
    reach, offset = int(BYTES[-1] - BYTES[0]), -int(BYTES[0])
    return Sums(values.residues, values.elements, reach, offset, 1, REDUCED)


def wrapped(values: Values, bits: int) -> Values:
    """Return the low bits of integers, as signed integers."""
    half = 1 << bits - 1
    return (values + half) % (2 * half) - half


@dataclass(frozen=True)
class Operation:
    """An operation of the ALU.

    Attributes:
        bits: of an accumulator.
    """

    domain: Domain
    opcode: AluOpcode
    bits: int

    def with_immediate(self, left: Sums, number: int) -> Sums:
        """Return the results for an operand and an immediate."""
        if self.opcode in POLYNOMIALS or (self.opcode is AluOpcode.SHR and number < 0):
            right = self.domain.values(self.domain.constants(np.full((1, 1), number, np.int64)))
            return self.of(left, right)
        name = f"{self.opcode.name} {number} of {self.bits} bits"
        return self.domain.mapped(name, lambda values: self._result(values, np.int64(number)), left)

    def of(self, left: Sums, right: Sums) -> Sums:
        """Return the results for two operands that broadcast together.

        Raises:
            ProofError: a proof does not cover the operation on sums of several roots.
        """
        source = self.domain.sources(f"{self.opcode.name} {self.bits}", self._result, left, right)
        if source is not None and not (source["function"] == SEVERAL).any():
            return self.domain.values(source)
        match self.opcode:
            case AluOpcode.ADD:
                return replace(self.domain.add(left, right), source=source)
            case AluOpcode.MUL:
                return replace(self.domain.multiply(left, right), source=source)
            case AluOpcode.MIN | AluOpcode.MAX:
                return self._extreme_of(left, right)
            case AluOpcode.SHR:
                return replace(self.domain.multiply(left, self._powers(right)), source=source)

    def _result(self, left: Values, right: Values | np.int64) -> Values:
        """Return the results for numbers, int64[n]; see `vdla.hw.spec.numerics.alu`."""
        match self.opcode:
            case AluOpcode.ADD:
                values = left + right
            case AluOpcode.MUL:
                values = left * right
            case AluOpcode.MIN:
                values = np.minimum(left, right)
            case AluOpcode.MAX:
                values = np.maximum(left, right)
            case AluOpcode.SHR:
                down, up = (np.clip(amount, 0, self.bits) for amount in (right, -right))
                values = wrapped(left << np.minimum(up, self.bits), self.bits) >> down
        return wrapped(values, self.bits)

    @property
    def is_extreme(self) -> bool:
        """Whether the operation is MIN or MAX."""
        return self.opcode in (AluOpcode.MIN, AluOpcode.MAX)

    @property
    def extreme(self) -> Callable[[Elements], Elements]:
        """The function of `Domain` that a MIN or MAX is."""
        return self.domain.minimum if self.opcode is AluOpcode.MIN else self.domain.maximum

    def _extreme_of(self, left: Sums, right: Sums) -> Sums:
        """Return the least or the greatest of two operands of one shape."""
        stack = np.stack([require_one_root(sums.source, self.opcode.name) for sums in (left, right)])
        return self.domain.values(self.extreme(stack))

    def _powers(self, amounts: Sums) -> Sums:
        """Return the powers of two by which shifts to the left multiply.

        Raises:
            ProofError: an amount varies, or a shift is to the right.
        """
        source, functions = require_one_root(amounts.source, "a shift"), self.domain.functions
        shifts = -functions.least[source["function"]]
        if not functions.is_constant[source["function"]].all() or (shifts < 0).any():
            raise ProofError("a proof does not cover a shift to the right of a sum of several activations")
        powers = np.where(shifts < self.bits, 1 << np.minimum(shifts, self.bits), 0)
        return self.domain.values(self.domain.constants(powers))
