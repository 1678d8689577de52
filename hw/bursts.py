"""Division of a row of bytes into bursts."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for, exact_log2

from vdla.hw.spec.config import AcceleratorConfig


class RowCutter(wiring.Component):
    """Find the first burst of a row: up to the next multiple of `burst_bytes`, or all.

    Parameters:
        config: the accelerator.
        bits: width of `last`; enough for a burst.

    Members:
        offset: the low bits of the row's address, which count within a burst.
        last: bytes of the row, less one.
        ends: the burst takes all of them.
        rest: bytes behind the burst, less one, if there are any; they start at the next multiple.
        beats: beats that the burst touches.

    Timing: combinational: one adder as wide as `last`, and a few levels of logic behind it.
    """

    def __init__(self, config: AcceleratorConfig, bits: int) -> None:
        self.config = config
        super().__init__(
            {
                "offset": In(exact_log2(config.burst_bytes)),
                "last": In(bits),
                "ends": Out(1),
                "rest": Out(bits),
                "beats": Out(bits_for(config.burst_beats)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits, beat_bits = len(self.last), exact_log2(self.config.bus_bytes)
        difference = Signal(bits + 1)  # last - (burst_bytes - offset); negative if the burst takes all
        first, final = self.offset[beat_bits:], difference[beat_bits : len(self.offset)]
        m.d.comb += [
            difference.eq(self.last + Cat(self.offset, Const(-1, bits + 1 - len(self.offset)))),
            self.rest.eq(difference),
            self.ends.eq(difference[-1]),
            self.beats.eq(
                Mux(self.ends, Cat(final, Const(0, 1)) - first + 1, self.config.burst_beats - first)
            ),
        ]
        return m
