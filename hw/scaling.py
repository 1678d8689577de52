"""The last stages of scaling: a number is shifted, rounded, moved by a zero point and clipped."""

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.utils import exact_log2

from vdla.hw.spec.numerics import BYTE_BITS, SHIFT_BITS

FINE_BITS = 3  # of the shift, done in the second of its two stages
VALUE_BITS = BYTE_BITS + 1  # a scaled value of more bits is clipped whatever the zero point is
FINE_WINDOW = 1 + VALUE_BITS  # bits that an output depends on: the bit behind the last place, and the value
COARSE_WINDOW = FINE_WINDOW + (1 << FINE_BITS) - 1


class Limits(NamedTuple):
    """What is done to a scaled value, each number in a register in the cycle of its use.

    `zero` is added; in the next cycle `greatest` limits the sum where `limits_above`; a cycle later,
    `least` where `limits_below`.
    """

    zero: Value
    greatest: Value
    limits_above: Value
    least: Value
    limits_below: Value


def shifted(m: Module, name: str, product: Value, shift: Value, saturates: Value) -> tuple[Signal, Signal]:
    """Shift a number, in two steps; return it and the bit behind its last place.

    Args:
        name: of the lane: it ends the names of signals.
        product: the number, signed.
        shift: by how much, in the same cycle.
        saturates: the result is held within VALUE_BITS bits; else cut to them. In the next cycle.

    Timing: two registers, behind the shift by multiples of 8 and behind the rest.
    """
    sign = product[-1]
    coarse, fine = shift[FINE_BITS:], Signal(FINE_BITS, name=f"fine_{name}", reset_less=True)
    steps = range(0, 1 << SHIFT_BITS, 1 << FINE_BITS)
    # Every choice is a window of the product with a 0 behind it and its sign in front; the bits in front
    # of a window must be signs, too, or the value does not fit.
    extended = Cat(0, product, sign.replicate(steps[-1] + COARSE_WINDOW))
    differs = Signal(len(product), name=f"differs_{name}")
    m.d.comb += differs.eq(product ^ sign.replicate(len(product)))
    window = Signal(COARSE_WINDOW, name=f"window_{name}", reset_less=True)
    exceeds, negative = (Signal(name=f"{part}_{name}", reset_less=True) for part in ("exceeds", "negative"))
    m.d.sync += [
        window.eq(choose([extended[step:][:COARSE_WINDOW] for step in steps], coarse)),
        exceeds.eq(choose([_any(differs[step + COARSE_WINDOW - 1 :]) for step in steps], coarse)),
        negative.eq(sign),
        fine.eq(shift),
    ]
    return _shifted_finely(m, name, window, (saturates, exceeds, negative), fine)


def _shifted_finely(
    m: Module, name: str, window: Signal, front: tuple[Value, Signal, Signal], fine: Signal
) -> tuple[Signal, Signal]:
    """Do the rest of a shift; `front` tells whether the result is to be saturated, whether bits before the
    window differ from the sign, and the sign."""
    saturates, exceeds, negative = front
    amounts = range(1 << FINE_BITS)
    differs = window ^ negative.replicate(len(window))
    beyond = Signal(name=f"saturates_{name}")
    value = Signal(signed(VALUE_BITS), name=f"scaled_{name}", reset_less=True)
    rounds = Signal(name=f"rounds_{name}", reset_less=True)
    chosen = choose([window[amount:][:FINE_WINDOW] for amount in amounts], fine)
    m.d.comb += beyond.eq(
        saturates & (exceeds | choose([differs[amount + VALUE_BITS :].any() for amount in amounts], fine))
    )
    m.d.sync += [
        value.eq(Mux(beyond, Cat((~negative).replicate(VALUE_BITS - 1), negative), chosen[1:])),
        rounds.eq(chosen[0]),
    ]
    return value, rounds


def clipped(m: Module, name: str, value: Value, rounds: Value, limits: Limits) -> Value:
    """Round a shifted number, add the zero point, then clip it; return what enters the last register.

    Timing: two registers, behind the sum and behind the upper limit.
    """
    moved = Signal(signed(VALUE_BITS + 1), name=f"moved_{name}", reset_less=True)
    limited = Signal.like(moved, name=f"limited_{name}")
    m.d.sync += [
        moved.eq(value + limits.zero + rounds),
        limited.eq(Mux(limits.limits_above & (moved > limits.greatest), limits.greatest, moved)),
    ]
    return Mux(limits.limits_below & (limited < limits.least), limits.least, limited)


def choose(values: list[Value], index: Value) -> Value:
    """Return the value at `index` (a power of two of values), by a tree of two-way choices."""
    assert len(values) == 1 << exact_log2(len(values))
    for bit in range(exact_log2(len(values))):
        values = [Mux(index[bit], odd, even) for even, odd in zip(values[::2], values[1::2], strict=True)]
    return values[0]


def _any(bits: Value) -> Value:
    """Return whether a bit is set, of bits that may be none."""
    return bits.any() if len(bits) else Const(0)


def delayed(m: Module, value: Value, cycles: int, name: str) -> list[Value]:
    """Return `value` as it is, and as it was 1 to `cycles` cycles before."""
    values = [value]
    for cycle in range(1, cycles + 1):
        values.append(Signal(value.shape(), name=f"{name}_{cycle}", reset_less=True))
        m.d.sync += values[-1].eq(values[-2])
    return values
