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
