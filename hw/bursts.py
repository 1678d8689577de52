"""Division of a byte range into bursts."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for, exact_log2

from vdla.hw.spec.config import AcceleratorConfig


class BurstCutter(wiring.Component):
    """Find the first burst of `remaining` bytes at `address`: up to the next multiple of `burst_bytes`.

    Parameters:
        config: the accelerator.
        remaining_bits: width of `remaining`.

    Members:
        address, remaining: the range that is still to be moved, in bytes.
        size: bytes in its first burst.
        beats: beats that the burst touches.
        first_beat: byte address of its first beat.

    Timing: combinational.
    """

    def __init__(self, config: AcceleratorConfig, remaining_bits: int) -> None:
        self.config = config
        super().__init__(
            {
                "address": In(config.address_bits),
                "remaining": In(remaining_bits),
                "size": Out(bits_for(config.burst_bytes)),
                "beats": Out(bits_for(config.burst_beats)),
                "first_beat": Out(config.address_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        beat_bits = exact_log2(self.config.bus_bytes)
        room = Signal.like(self.size)
        in_beat = self.address[:beat_bits]
        m.d.comb += [
            room.eq(self.config.burst_bytes - self.address[: exact_log2(self.config.burst_bytes)]),
            self.size.eq(Mux(self.remaining < room, self.remaining, room)),
            self.beats.eq((in_beat + self.size + self.config.bus_bytes - 1) >> beat_bits),
            self.first_beat.eq(self.address - in_beat),
        ]
        return m
