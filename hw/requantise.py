"""Requantisation in the store unit."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.alu import accumulator_vector
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.numerics import BYTE_BITS, MULTIPLIER_BITS, SHIFT_BITS
from vdla.hw.spec.vocabulary import MemoryType, Parameter


def lanes_per_read(config: AcceleratorConfig) -> int:
    """Return the values in one read of the store unit: those of a beat, or of an element that is no wider."""
    return min(config.element_bits(MemoryType.OUT), config.bus_bits) // config.out_bits


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
    change it.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self._parts = config.batch * config.block_out // lanes_per_read(config)
        super().__init__(
            {
                "element": In(accumulator_vector(config)),
                "keeps": In(1),
                "row": In(Parameter),
                "part": In(range(max(self._parts, 2))),
                "scales": In(1),
                "outputs": Out(data.ArrayLayout(config.out_bits, lanes_per_read(config))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._kept = {
            row: Signal(accumulator_vector(self.config), name=f"kept_{row.name.lower()}", reset_less=True)
            for row in Parameter
        }
        for row, kept in self._kept.items():
            with m.If(self.keeps & (self.row == row)):
                m.d.sync += kept.eq(self.element)
        part, scales = [self.part], [self.scales]
        for stage in (1, 2):
            part.append(Signal.like(self.part, name=f"part_{stage}", reset_less=True))
            scales.append(Signal(name=f"scales_{stage}", reset_less=True))
            m.d.sync += [part[stage].eq(part[stage - 1]), scales[stage].eq(scales[stage - 1])]
        for lane in range(lanes_per_read(self.config)):
            self._lane(m, lane, part, scales)
        return m

    def _of_lane(self, vector: Value, part: Signal, lane: int) -> Value:
        """Return the value of a lane in one part of an accumulator element."""
        count = lanes_per_read(self.config)
        return (
            Array(vector[first + lane] for first in range(0, self._parts * count, count))[part]
            if self._parts > 1
            else vector[lane]
        )

    def _lane(self, m: Module, lane: int, part: list[Value], scales: list[Value]) -> None:
        """Build sum, product, and shift with clip, each followed by a register."""
        bits = self.config.acc_bits
        total, product = (
            Signal(signed(bits), reset_less=True),
            Signal(signed(bits + MULTIPLIER_BITS), reset_less=True),
        )
        bias, multiplier, shift, clip = (
            self._of_lane(self._kept[row], part[stage], lane)
            for row, stage in zip(Parameter, (0, 1, 2, 2), strict=True)
        )
        m.d.sync += [
            total.eq(self._of_lane(self.element, part[0], lane) + Mux(scales[0], bias, 0)),
            product.eq(total * Mux(scales[1], multiplier[:MULTIPLIER_BITS].as_unsigned(), 1)),
            self.outputs[lane].eq(Mux(scales[2], self._clipped(m, lane, product, shift, clip), product)),
        ]

    def _clipped(self, m: Module, lane: int, product: Signal, shift_and_zero: Value, clip: Value) -> Value:
        """Return a product shifted, rounded, moved by the zero point, and clipped."""

        def byte(value: Value, place: int) -> Value:
            return value[place * BYTE_BITS : (place + 1) * BYTE_BITS].as_signed()

        amount = Signal(unsigned(SHIFT_BITS), name=f"amount_{lane}")
        behind = Signal(signed(len(product) + 1), name=f"behind_{lane}")  # with the bit behind the last place
        scaled = Signal(signed(len(product) + 2), name=f"scaled_{lane}")
        least, greatest = byte(clip, 0), byte(clip, 1)
        m.d.comb += [
            amount.eq(shift_and_zero[:SHIFT_BITS]),
            behind.eq(Cat(0, product).as_signed() >> amount),
            scaled.eq(((behind + 1) >> 1) + byte(shift_and_zero, 1)),
        ]
        limited = Mux(scaled > greatest, greatest, scaled)
        return Mux(limited < least, least, limited)
