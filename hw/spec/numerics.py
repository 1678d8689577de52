"""Integer arithmetic of the accelerator, defined on Python integers. Tests compare every device with it."""

from collections.abc import Sequence

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


def requantise(value: int, parameters: Sequence[int], bits: int) -> int:
    """Requantise an accumulator of `bits` bits: clip(zero + round((value + bias) * multiplier / 2^shift)).

    Halves round up. `value + bias` wraps.

    Args:
        parameters: in the order of `Parameter`, as accumulators hold them: the bias; the multiplier,
            unsigned, in the low 16 bits; the shift in the low 6 bits and the zero point, signed, in bits 8 to
            15; the least output, signed, in bits 0 to 7 and the greatest in bits 8 to 15. Other bits have no
            effect.
    """
    bias, multiplier, shift_and_zero, clip = parameters
    product = wrap(value + bias, bits) * (multiplier & ((1 << MULTIPLIER_BITS) - 1))
    shift = shift_and_zero & ((1 << SHIFT_BITS) - 1)
    scaled = (product + ((1 << shift) >> 1)) >> shift
    zero, least, greatest = (
        wrap(byte, BYTE_BITS) for byte in (shift_and_zero >> BYTE_BITS, clip, clip >> BYTE_BITS)
    )
    return max(least, min(scaled + zero, greatest))


def requantise_parameters(
    bias: int, multiplier: int, shift: int, zero: int, least: int, greatest: int
) -> tuple[int, ...]:
    """Return the four accumulator values that `requantise` takes, in the order of `Parameter`."""
    byte = (1 << BYTE_BITS) - 1
    return bias, multiplier, shift | (zero & byte) << BYTE_BITS, least & byte | (greatest & byte) << BYTE_BITS


def alu(operation: AluOpcode, left: int, right: int, bits: int) -> int:
    """Return `operation` of two signed accumulators of `bits` bits."""
    match operation:
        case AluOpcode.MIN:
            return min(left, right)
        case AluOpcode.MAX:
            return max(left, right)
        case AluOpcode.ADD:
            return wrap(left + right, bits)
        case AluOpcode.SHR:
            return shift_right(left, right, bits)
        case AluOpcode.MUL:
            return wrap(left * right, bits)
