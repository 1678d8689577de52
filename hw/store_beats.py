"""Beats and bursts of the store unit, formed of the outputs of its reads."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from vdla.hw.signatures import request_layout, write_beat_layout
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType


def read_bytes(config: AcceleratorConfig) -> int:
    """Return the bytes of DRAM that one read of the store unit fills: an element, or a beat of a wide one."""
    return min(config.element_bytes(MemoryType.OUT), config.bus_bytes)


def parts_of_element(config: AcceleratorConfig) -> range:
    """Return the places of a read in its element; two at least, so that a signal has a bit."""
    return range(max(2, config.element_bytes(MemoryType.OUT) // read_bytes(config)))


def row_bits(config: AcceleratorConfig) -> int:
    """Return the bits that count the bytes of a row."""
    return 16 + int(exact_log2(config.element_bytes(MemoryType.OUT)))


def burst_layout(config: AcceleratorConfig) -> data.StructLayout:
    """One burst of a STORE on its way to memory; no beats: the mark of a STORE that writes nothing."""
    request = request_layout(config)
    return data.StructLayout(
        {"address": request["address"].shape, "beats": request["beats"].shape, "last": 1, "push_prev": 1}
    )


def burst_stream(config: AcceleratorConfig) -> wiring.Signature:
    """Bursts whose beats are all queued, in order."""
    return wiring.Signature({"valid": Out(1), "ready": In(1), "payload": Out(burst_layout(config))})


def read_layout(config: AcceleratorConfig) -> data.StructLayout:
    """One read of the store unit, on its way to beats.

    `empty`: of a STORE that writes nothing. `lane`: place of the outputs in their beat. `part`: place in the
    element that was read. `beat_ends`, `burst_ends`: the read completes a beat, a burst. `scales`: the
    outputs are requantised by parameters.
    """
    return data.StructLayout(
        {
            "valid": 1,
            "empty": 1,
            "lane": range(max(2, config.bus_bytes // read_bytes(config))),
            "part": parts_of_element(config),
            "beat_ends": 1,
            "burst_ends": 1,
            "scales": 1,
            "burst": burst_layout(config),
        }
    )


class BeatFormer(wiring.Component):
    """Gather the outputs of reads into beats, and announce each burst with its last beat.

    Parameters:
        config: the accelerator.

    Members:
        read: the read whose outputs are there in this cycle.
        outputs: of the read.
        beat: high for a cycle with each beat.
        burst: high for a cycle with each burst, and with the mark of a STORE that writes nothing.

    Timing: a beat and a burst appear in the cycle of the read that completes them. Never stalls.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        pulse = {"valid": Out(1)}
        super().__init__(
            {
                "read": In(read_layout(config)),
                "outputs": In(8 * read_bytes(config)),
                "beat": Out(wiring.Signature({**pulse, "payload": Out(write_beat_layout(config))})),
                "burst": Out(wiring.Signature({**pulse, "payload": Out(burst_layout(config))})),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        read, size = self.read, read_bytes(self.config)
        beat, held = Signal(write_beat_layout(self.config)), Signal(write_beat_layout(self.config))
        m.d.comb += [
            beat.data.eq(held.data | (self.outputs << (read.lane * 8 * size))),
            beat.strobe.eq(held.strobe | (((1 << size) - 1) << (read.lane * size))),
            beat.last.eq(read.burst_ends),
            self.beat.payload.eq(beat),
            self.beat.valid.eq(read.valid & ~read.empty & read.beat_ends),
            self.burst.payload.eq(read.burst),
            self.burst.valid.eq(read.valid & (read.empty | read.burst_ends)),
        ]
        with m.If(read.valid & ~read.empty):
            m.d.sync += held.eq(beat)
            with m.If(read.beat_ends):
                m.d.sync += held.eq(0)
        return m
