"""Integer arithmetic of the accelerator, defined on Python integers. Every device agrees with these."""

from vdla.hw.spec.vocabulary import AluOpcode


def wrap(value: int, bits: int) -> int:
    """Return `value` reduced to `bits` bits of two's complement, as a signed integer."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def shift_right(value: int, amount: int, bits: int) -> int:
    """Shift arithmetically right by `amount`, left where it is negative; whole-width shifts give sign fill or 0."""
    if amount >= 0:
        return value >> min(amount, bits)
    return wrap(value << min(-amount, bits), bits)


NARROW_SHIFT_BITS = 5
NARROW_ROUNDS = 1 << NARROW_SHIFT_BITS  # add half of the last place before the shift
NARROW_RECTIFIES = 1 << (NARROW_SHIFT_BITS + 1)  # clip below at 0


def narrow(value: int, control: int, out_bits: int) -> int:
    """Shift `value` right and clip it to `out_bits` signed bits: requantisation by a power of two, with or without ReLU.

    Args:
        control: the shift in its low 5 bits, then NARROW_ROUNDS and NARROW_RECTIFIES; higher bits have no meaning.
    """
    shift = control & (NARROW_ROUNDS - 1)
    half = (1 << shift) >> 1 if control & NARROW_ROUNDS else 0
    least = 0 if control & NARROW_RECTIFIES else -(1 << (out_bits - 1))
    return max(least, min((value + half) >> shift, (1 << (out_bits - 1)) - 1))


def alu(operation: AluOpcode, left: int, right: int, bits: int, out_bits: int) -> int:
    """Return `operation` of two signed accumulators of `bits` bits, where outputs have `out_bits`."""
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
        case AluOpcode.NARROW:
            return narrow(left, right, out_bits)
