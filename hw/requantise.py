"""Requantisation in the store unit."""

from typing import NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.alu import accumulator_vector
from vdla.hw.scaling import Limits, choose, clipped, delayed, shifted
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.normalisation import LEFT_OUT_BIT
from vdla.hw.spec.numerics import BYTE_BITS, MULTIPLIER_BITS, SHIFT_BITS
from vdla.hw.spec.timing import REQUANTISE_STAGES
from vdla.hw.spec.vocabulary import Extension, Parameter


class _Operand(NamedTuple):
    """A number in a parameter: where it stands in an accumulator, and when it is taken and used.

    `delay`: cycles until what is given as a parameter is kept. `stage`: the cycle of a part, counted from 0,
    in which the number is copied from the kept parameters. `neutral`: its value where nothing is requantised.
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
LEFT_OUT = _Operand(Parameter.CLIP, LEFT_OUT_BIT, 1, False, delay=3, stage=7, neutral=0)
"""Whether statistics leave the value out, where there are statistics."""
WINDOW_STAGE = SHIFT.stage + 2
LONGEST_DELAY = max(operand.delay for operand in OPERANDS)

# Parameter `row` comes `row` cycles behind the first of its set and is kept `1 + delay` cycles later. A part
# that came a cycle before the set must have copied the old number by then.
assert all(operand.stage <= operand.row + 1 + operand.delay for operand in (*OPERANDS, LEFT_OUT))
# A part that comes a cycle after the parameter copies the new number.
assert all(operand.stage >= operand.delay for operand in (*OPERANDS, LEFT_OUT))


def result_bits(config: AcceleratorConfig) -> int:
    """Return the width of what requantisation gives: a byte where a further step takes it, else an output."""
    further = config.has(Extension.TABLE) or config.has(Extension.RESIDUAL)
    return BYTE_BITS if further else config.out_bits


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
        outputs: outputs of the part given REQUANTISE_STAGES cycles before, of `result_bits` each.
        left_out: which of them statistics leave out, where there are statistics.

    Timing: one part per cycle, never stalls. A parameter kept in one cycle applies to parts from the next
    cycle on. Parameters that are kept after a part, in the order of `Parameter` and one per cycle, do not
    change it.

    Stages, each with a register behind it:

    1. the choice of the part
    2. the sum with the bias
    3. the partial products
    4. the sum of the partial products
    5. the shift by multiples of 8
    6. the rest of the shift
    7. rounding and the zero point
    8. the upper limit
    9. the lower limit
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self._lanes = config.values_per_store_read
        self._parts = config.batch * config.block_out // self._lanes
        self._leaves_out = config.has(Extension.NORMALISE)
        super().__init__(
            {
                "element": In(accumulator_vector(config)),
                "keeps": In(1),
                "row": In(Parameter),
                "part": In(range(max(self._parts, 2))),
                "scales": In(1),
                "outputs": Out(data.ArrayLayout(result_bits(config), self._lanes)),
                **({"left_out": Out(self._lanes)} if self._leaves_out else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._part = delayed(m, self.part, REQUANTISE_STAGES, "part")
        self._scales = delayed(m, self.scales, REQUANTISE_STAGES, "scales")
        self._kept = self._keep(m)
        for lane in range(self._lanes):
            total = self._total(m, lane)
            product = self._product(m, lane, total)
            value, rounds = shifted(
                m, str(lane), product, self._operand(m, SHIFT, lane), self._scales[WINDOW_STAGE]
            )
            m.d.sync += self.outputs[lane].eq(clipped(m, str(lane), value, rounds, self._limits(m, lane)))
            if self._leaves_out:
                m.d.sync += self.left_out[lane].eq(self._operand(m, LEFT_OUT, lane))
        return m

    def _limits(self, m: Module, lane: int) -> Limits:
        zero, least, greatest = (self._operand(m, operand, lane) for operand in (ZERO, LEAST, GREATEST))
        return Limits(zero, greatest, self._scales[GREATEST.stage + 1], least, self._scales[LEAST.stage + 1])

    def _keep(self, m: Module) -> dict[_Operand, list[Signal]]:
        """Keep the parameters that are given; return the operands of every value of an element."""
        operands = (*OPERANDS, LEFT_OUT) if self._leaves_out else OPERANDS
        low_bits = 2 * BYTE_BITS + self._leaves_out  # of an accumulator, in which the operands stand
        low = Cat(value[:low_bits] for value in self.element)
        elements = delayed(m, low, LONGEST_DELAY, "element")
        keeps, row = (
            delayed(m, signal, LONGEST_DELAY, name)
            for signal, name in ((self.keeps, "keeps"), (self.row, "row"))
        )
        kept = {}
        for operand in operands:
            width, delay = self._width(operand), operand.delay
            kept[operand] = [
                Signal(
                    width, name=f"kept_{operand.row.name.lower()}_{operand.first}_{place}", reset_less=True
                )
                for place in range(len(self.element))
            ]
            with m.If(keeps[delay] & (row[delay] == operand.row)):
                for place, number in enumerate(kept[operand]):
                    given = elements[delay].word_select(place, low_bits) if delay else self.element[place]
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
