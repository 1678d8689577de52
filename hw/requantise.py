"""Requantisation in the store unit."""

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from vdla.hw.alu import accumulator_vector
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.numerics import BYTE_BITS, MULTIPLIER_BITS, SHIFT_BITS
from vdla.hw.spec.timing import REQUANTISE_STAGES
from vdla.hw.spec.vocabulary import Parameter

FINE_BITS = 3  # of the shift, done in the second of its two stages
VALUE_BITS = BYTE_BITS + 1  # a scaled value of more bits is clipped whatever the zero point is
FINE_WINDOW = 1 + VALUE_BITS  # bits that one output depends on: the bit behind the last place, and the value
COARSE_WINDOW = FINE_WINDOW + (1 << FINE_BITS) - 1


class _Operand(NamedTuple):
    """A number in a parameter: where it stands in an accumulator, and when it is taken and used.

    `delay`: cycles until what is given as a parameter is kept. `stage`: the cycle of a part, counted from 0,
    in which the number is copied from those kept. `neutral`: its value where nothing is requantised.
    """

    row: Parameter
    first: int
    bits: int
    is_signed: bool
    delay: int
    stage: int
    neutral: int


BIAS = _Operand(Parameter.BIAS, 0, 0, True, delay=0, stage=0, neutral=0)  # as wide as an accumulator
MULTIPLIER = _Operand(Parameter.MULTIPLIER, 0, MULTIPLIER_BITS, False, delay=0, stage=1, neutral=1)
SHIFT = _Operand(Parameter.SHIFT, 0, SHIFT_BITS, False, delay=0, stage=3, neutral=0)
ZERO = _Operand(Parameter.SHIFT, BYTE_BITS, BYTE_BITS, True, delay=2, stage=5, neutral=0)
GREATEST = _Operand(Parameter.CLIP, BYTE_BITS, BYTE_BITS, True, delay=2, stage=6, neutral=0)
LEAST = _Operand(Parameter.CLIP, 0, BYTE_BITS, True, delay=3, stage=7, neutral=0)
OPERANDS = (BIAS, MULTIPLIER, SHIFT, ZERO, GREATEST, LEAST)
WINDOW_STAGE = SHIFT.stage + 2
LONGEST_DELAY = max(operand.delay for operand in OPERANDS)

# Parameter `row` comes `row` cycles behind the first of its set and is kept `1 + delay` cycles later. A part
# that came a cycle before the set must have copied the old number by then.
assert all(operand.stage <= operand.row + 1 + operand.delay for operand in OPERANDS)
# A part that comes a cycle after the parameter copies the new number.
assert all(operand.stage >= operand.delay for operand in OPERANDS)


class Requantiser(wiring.Component):
    """Turn accumulators into outputs, one read per cycle, as `vdla.hw.spec.numerics.requantise` defines it.

    Parameters:
        config: the accelerator.

    Members:
        element: an accumulator element.
        keeps: `element` is parameter `row` of a set, to be used for all later reads.
        row: number of the parameter, in the order of `Parameter`.
        part: if not `keeps`, the part of `element` to turn into outputs.
        scales: requantise by the parameters; else outputs are the low bits.
        outputs: outputs of the part given REQUANTISE_STAGES cycles before.

    Timing: one part per cycle, never stalls. A parameter kept in one cycle applies to parts from the next
    cycle on. Parameters that are kept after a part, in the order of `Parameter` and one per cycle, do not
    change it. A register follows each of: the choice of the part; the sum with the bias; the partial
    products; their sum; the shift by multiples of 8; the rest of the shift; rounding and the zero point; the
    upper limit; the lower limit.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self._lanes = config.values_per_store_read
        self._parts = config.batch * config.block_out // self._lanes
        super().__init__(
            {
                "element": In(accumulator_vector(config)),
                "keeps": In(1),
                "row": In(Parameter),
                "part": In(range(max(self._parts, 2))),
                "scales": In(1),
                "outputs": Out(data.ArrayLayout(config.out_bits, self._lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._part = _delayed(m, self.part, REQUANTISE_STAGES, "part")
        self._scales = _delayed(m, self.scales, REQUANTISE_STAGES, "scales")
        self._kept = self._keep(m)
        for lane in range(self._lanes):
            total = self._total(m, lane)
            product = self._product(m, lane, total)
            value, rounds = self._shifted(m, lane, product)
            m.d.sync += self.outputs[lane].eq(self._clipped(m, lane, value, rounds))
        return m

    def _keep(self, m: Module) -> dict[_Operand, list[Signal]]:
        """Keep the parameters that are given; return the operands of every value of an element."""
        low = Cat(value[: 2 * BYTE_BITS] for value in self.element)
        elements = _delayed(m, low, LONGEST_DELAY, "element")
        keeps, row = (
            _delayed(m, signal, LONGEST_DELAY, name)
            for signal, name in ((self.keeps, "keeps"), (self.row, "row"))
        )
        kept = {}
        for operand in OPERANDS:
            width, delay = self._width(operand), operand.delay
            kept[operand] = [
                Signal(
                    width, name=f"kept_{operand.row.name.lower()}_{operand.first}_{place}", reset_less=True
                )
                for place in range(len(self.element))
            ]
            with m.If(keeps[delay] & (row[delay] == operand.row)):
                for place, number in enumerate(kept[operand]):
                    given = (
                        elements[delay].word_select(place, 2 * BYTE_BITS) if delay else self.element[place]
                    )
                    m.d.sync += number.eq(given[operand.first :][:width])
        return kept

    def _width(self, operand: _Operand) -> int:
        return operand.bits or self.config.acc_bits

    def _operand(self, m: Module, operand: _Operand, lane: int) -> Signal:
        """Return an operand of a lane in the register into which it is copied at the end of its stage."""
        shape = (signed if operand.is_signed else unsigned)(self._width(operand))
        copied = Signal(shape, name=f"{operand.row.name.lower()}_{operand.first}_{lane}", reset_less=True)
        chosen = choose(self._kept[operand][lane :: self._lanes], self._part[operand.stage])
        m.d.sync += copied.eq(Mux(self._scales[operand.stage], chosen, operand.neutral))
        return copied

    def _total(self, m: Module, lane: int) -> Signal:
        """Choose the part, then add the bias."""
        shape = signed(self.config.acc_bits)
        value, total = (Signal(shape, name=f"{name}_{lane}", reset_less=True) for name in ("value", "total"))
        m.d.sync += [
            value.eq(choose([*self.element][lane :: self._lanes], self.part)),
            total.eq(value + self._operand(m, BIAS, lane)),
        ]
        return total

    def _product(self, m: Module, lane: int, total: Signal) -> Signal:
        """Multiply halves that fit a DSP, then add the partial products."""
        multiplier, bits = self._operand(m, MULTIPLIER, lane), len(total)
        product = Signal(signed(bits + MULTIPLIER_BITS), name=f"product_{lane}", reset_less=True)
        parts, half = [], MULTIPLIER_BITS
        for first in range(0, bits, half):
            factor = total[first : first + half]
            factor = factor.as_signed() if first + half == bits else factor
            parts.append(
                Signal((factor * multiplier).shape(), name=f"partial_{first}_{lane}", reset_less=True)
            )
            m.d.sync += parts[-1].eq(factor * multiplier)
        low, *high = parts
        whole = Cat(low[:half], (high[0] + low[half:])[:bits]) if high else low
        m.d.sync += product.eq(whole)
        return product

    def _shifted(self, m: Module, lane: int, product: Signal) -> tuple[Signal, Signal]:
        """Shift a product, in two steps, and saturate it at VALUE_BITS bits; return it and the bit behind its
        last place."""
        sign = product[-1]
        shift = self._operand(m, SHIFT, lane)
        coarse, fine = shift[FINE_BITS:], Signal(FINE_BITS, name=f"fine_{lane}", reset_less=True)
        steps = range(0, 1 << SHIFT_BITS, 1 << FINE_BITS)
        # Every choice is a window of the product with a 0 behind it and its sign in front; the bits in front
        # of a window must be signs, too, or the value does not fit.
        extended = Cat(0, product, sign.replicate(steps[-1] + COARSE_WINDOW))
        differs = Signal(len(product), name=f"differs_{lane}")
        m.d.comb += differs.eq(product ^ sign.replicate(len(product)))
        window = Signal(COARSE_WINDOW, name=f"window_{lane}", reset_less=True)
        exceeds, negative = (
            Signal(name=f"{name}_{lane}", reset_less=True) for name in ("exceeds", "negative")
        )
        m.d.sync += [
            window.eq(choose([extended[step:][:COARSE_WINDOW] for step in steps], coarse)),
            exceeds.eq(choose([_any(differs[step + COARSE_WINDOW - 1 :]) for step in steps], coarse)),
            negative.eq(sign),
            fine.eq(shift),
        ]
        return self._shifted_finely(m, lane, window, (exceeds, negative), fine)

    def _shifted_finely(
        self, m: Module, lane: int, window: Signal, front: tuple[Signal, Signal], fine: Signal
    ) -> tuple[Signal, Signal]:
        """Do the rest of a shift; `front` tells whether bits before the window differ from the sign, and the
        sign."""
        exceeds, negative = front
        amounts = range(1 << FINE_BITS)
        differs = window ^ negative.replicate(len(window))
        saturates = Signal(name=f"saturates_{lane}")
        value = Signal(signed(VALUE_BITS), name=f"scaled_{lane}", reset_less=True)
        rounds = Signal(name=f"rounds_{lane}", reset_less=True)
        chosen = choose([window[amount:][:FINE_WINDOW] for amount in amounts], fine)
        m.d.comb += saturates.eq(
            self._scales[WINDOW_STAGE]
            & (exceeds | choose([differs[amount + VALUE_BITS :].any() for amount in amounts], fine))
        )
        m.d.sync += [
            value.eq(Mux(saturates, Cat((~negative).replicate(VALUE_BITS - 1), negative), chosen[1:])),
            rounds.eq(chosen[0]),
        ]
        return value, rounds

    def _clipped(self, m: Module, lane: int, value: Signal, rounds: Signal) -> Value:
        """Round and add the zero point, then clip."""
        zero, least, greatest = (self._operand(m, operand, lane) for operand in (ZERO, LEAST, GREATEST))
        moved = Signal(signed(VALUE_BITS + 1), name=f"moved_{lane}", reset_less=True)
        limited = Signal.like(moved, name=f"limited_{lane}")
        below = self._scales[LEAST.stage + 1] & (limited < least)
        m.d.sync += [
            moved.eq(value + zero + rounds),
            limited.eq(Mux(self._scales[GREATEST.stage + 1] & (moved > greatest), greatest, moved)),
        ]
        return Mux(below, least, limited)


def choose(values: list[Value], index: Value) -> Value:
    """Return the value at `index` (a power of two of values), by a tree of two-way choices."""
    assert len(values) == 1 << exact_log2(len(values))
    for bit in range(exact_log2(len(values))):
        values = [Mux(index[bit], odd, even) for even, odd in zip(values[::2], values[1::2], strict=True)]
    return values[0]


def _any(bits: Value) -> Value:
    """Return whether a bit is set, of bits that may be none."""
    return bits.any() if len(bits) else Const(0)


def _delayed(m: Module, value: Value, cycles: int, name: str) -> list[Value]:
    """Return `value` as it is, and as it was 1 to `cycles` cycles before."""
    delayed = [value]
    for cycle in range(1, cycles + 1):
        delayed.append(Signal(value.shape(), name=f"{name}_{cycle}", reset_less=True))
        m.d.sync += delayed[-1].eq(delayed[-2])
    return delayed
