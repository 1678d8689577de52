"""Integer arithmetic of the accelerator, defined on Python integers. Tests compare every device with it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vdla.hw.spec.vocabulary import AluOpcode


def wrap(value: int, bits: int) -> int:
    """Return `value` reduced to `bits` bits of two's complement, as a signed integer."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def shift_right(value: int, amount: int, bits: int) -> int:
    """Shift right arithmetically, or left if `amount` is negative.

    A shift by the width or more gives the sign fill (right) or 0 (left).
    """
    if amount >= 0:
        return value >> min(amount, bits)
    return wrap(value << min(-amount, bits), bits)


MULTIPLIER_BITS = 16
SHIFT_BITS = 6
BYTE_BITS = 8  # of the zero point, and of the least and the greatest output
TABLE_ENTRIES = 1 << BYTE_BITS
ENTRIES_OF_ELEMENT = 4
"""Entries of a table that an element of the memory TABLE holds."""


def requantise(value: int, parameters: Sequence[int], bits: int) -> int:
    """Requantise an accumulator of `bits` bits: clip(zero + round((value + bias) * multiplier / 2^shift)).

    Halves round up. `value + bias` wraps.

    Args:
        parameters: four accumulator values, in the order of `Parameter`. The first is the bias. The second
            has the multiplier, unsigned, in the low 16 bits. The third has the shift in the low 6 bits, and
            the zero point, signed, in bits 8 to 15. The fourth has the least output, signed, in bits 0 to 7,
            and the greatest in bits 8 to 15. Other bits have no effect.
    """
    bias, multiplier, shift, zero, least, greatest = map(int, requantise_operands(parameters))
    product = wrap(value + bias, bits) * multiplier
    scaled = (product + ((1 << shift) >> 1)) >> shift
    return max(least, min(scaled + zero, greatest))


def requantise_operands(parameters: Sequence[Any]) -> tuple[Any, ...]:
    """Return bias, multiplier, shift, zero point, least and greatest output of the four accumulator values of
    `requantise`: numbers, or integer arrays."""
    bias, multiplier, shift_and_zero, clip = parameters
    zero, least, greatest = (
        _signed(word, BYTE_BITS) for word in (shift_and_zero >> BYTE_BITS, clip, clip >> BYTE_BITS)
    )
    shift = shift_and_zero & ((1 << SHIFT_BITS) - 1)
    return bias, multiplier & ((1 << MULTIPLIER_BITS) - 1), shift, zero, least, greatest


def _signed(word: Any, bits: int = MULTIPLIER_BITS) -> Any:
    """Return the low bits of a word as a signed number."""
    sign = 1 << (bits - 1)
    return (word & (2 * sign - 1) ^ sign) - sign


def requantise_parameters(
    bias: Any, multiplier: Any, shift: Any, zero: Any, least: Any, greatest: Any
) -> tuple[Any, ...]:
    """Return the four accumulator values that `requantise` takes, in the order of `Parameter`, of numbers or
    integer arrays."""
    byte = (1 << BYTE_BITS) - 1
    return bias, multiplier, shift | (zero & byte) << BYTE_BITS, least & byte | (greatest & byte) << BYTE_BITS


def look_up(value: int, table: Sequence[int]) -> int:
    """Return the entry of a requantised value in a table of 256: first the entries of 0 to 127, then the
    entries of -128 to -1."""
    return table[value & (TABLE_ENTRIES - 1)]


def add_residual(value: int, residual: int, parameters: Sequence[int]) -> int:
    """Add a residual to a requantised value: clip(zero + round((value * factor + residual * other + addend) /
    2^shift)).

    The sum is exact; halves round up.

    Args:
        parameters: four accumulator values, in the order of `Parameter`. The first is the addend. The second
            has the factor of the value in the low 16 bits, and the factor `other` of the residual in bits 16
            to 31, both signed. An accumulator of 16 bits stands for its sign-extension. The third and the
            fourth hold shift, zero point and limits as in `requantise`.
    """
    addend, factor, other, shift, zero, least, greatest = map(int, residual_operands(parameters))
    total = value * factor + residual * other + addend
    scaled = (total + ((1 << shift) >> 1)) >> shift
    return max(least, min(scaled + zero, greatest))


def residual_operands(parameters: Sequence[Any]) -> tuple[Any, ...]:
    """Return the addend, both factors, shift, zero point, least and greatest output of the four accumulator
    values of `add_residual`: numbers, or integer arrays."""
    *_, shift, zero, least, greatest = requantise_operands(parameters)
    addend, factors = parameters[:2]
    return (
        addend,
        *(_signed(word) for word in (factors, factors >> MULTIPLIER_BITS)),
        shift,
        zero,
        least,
        greatest,
    )


def residual_parameters(
    addend: Any, factors: tuple[Any, Any], shift: Any, zero: Any, least: Any, greatest: Any
) -> tuple[Any, ...]:
    """Return the four accumulator values that `add_residual` takes, in the order of `Parameter`."""
    value_factor, residual_factor = factors
    both = value_factor & ((1 << MULTIPLIER_BITS) - 1) | residual_factor << MULTIPLIER_BITS
    return requantise_parameters(addend, both, shift, zero, least, greatest)


@dataclass(frozen=True, slots=True)
class AluOperation:
    """What an operation of the ALU means.

    Attributes:
        result: in words, for the reference page.
        text: as an expression of loop programs over `left` and `right`, from which the compiler knows it.
        of: the result for signed operands of `bits` bits; it is wrapped afterwards.
    """

    result: str
    text: str
    of: Callable[[int, int, int], int]


ALU_OPERATIONS = {
    AluOpcode.MIN: AluOperation(
        "the smaller operand", "min({left}, {right})", lambda left, right, bits: min(left, right)
    ),
    AluOpcode.MAX: AluOperation(
        "the greater operand", "max({left}, {right})", lambda left, right, bits: max(left, right)
    ),
    AluOpcode.ADD: AluOperation("sum, wrapping", "{left} + {right}", lambda left, right, bits: left + right),
    AluOpcode.SHR: AluOperation(
        "arithmetic shift right; shift left if the amount is negative", "{left} >> {right}", shift_right
    ),
    AluOpcode.MUL: AluOperation(
        "low bits of the product", "{left} * {right}", lambda left, right, bits: left * right
    ),
}


def alu(operation: AluOpcode, left: int, right: int, bits: int) -> int:
    """Return `operation` of two signed accumulators of `bits` bits."""
    return wrap(ALU_OPERATIONS[operation].of(left, right, bits), bits)
