"""Beats and bursts of the store unit, formed of the outputs of its reads."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from vdla.hw.signatures import request_layout
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.hw.tables import table_number_bits


def parts_of_element(config: AcceleratorConfig) -> range:
    """Return the places of a read in its element; two at least, so that a signal has a bit."""
    return range(max(2, config.element_bytes(MemoryType.OUT) // config.store_read_bytes))


def burst_layout(config: AcceleratorConfig) -> data.StructLayout:
    """One burst of a STORE on its way to memory, or the `mark` of a STORE that writes nothing."""
    request = request_layout(config)
    members = {"address": request["address"].shape, "beats": request["beats"].shape}
    return data.StructLayout({**members, "mark": 1, "last": 1, "push_prev": 1})


def burst_stream(config: AcceleratorConfig) -> wiring.Signature:
    """Bursts whose beats are all queued, in order."""
    return wiring.Signature({"valid": Out(1), "ready": In(1), "payload": Out(burst_layout(config))})


def output_beat_layout(config: AcceleratorConfig) -> data.StructLayout:
    """One beat of outputs: `written` has a bit for each element of a beat, or one for a beat of a wider
    element; `last` marks the last beat of its burst."""
    unit = min(config.element_bytes(MemoryType.OUT), config.bus_bytes)
    return data.StructLayout({"data": config.bus_bits, "written": config.bus_bytes // unit, "last": 1})


def read_layout(config: AcceleratorConfig) -> data.StructLayout:
    """One read of the store unit, on its way to beats.

    `empty`: of a STORE that writes nothing. `lane`: place of the outputs in their beat. `part`: place in the
    element that was read. `beat_ends`, `burst_ends`: the read completes a beat, a burst. `scales`: the
    outputs are requantised by parameters. `further`: what is done then, where there are such steps.
    """
    further = further_layout(config)
    return data.StructLayout(
        {
            "valid": 1,
            "empty": 1,
            "lane": range(max(2, config.bus_bytes // config.store_read_bytes)),
            "part": parts_of_element(config),
            "beat_ends": 1,
            "burst_ends": 1,
            "scales": 1,
            **({"further": further} if further.size else {}),
        }
    )


def further_layout(config: AcceleratorConfig) -> data.StructLayout:
    """What is done to requantised values: `looks_up` takes their entries in `table`, counted from 0; then
    `adds` adds element `residual` of RES. Only what the configuration has."""
    table = config.has(Extension.TABLE) and {"looks_up": 1, "table": table_number_bits(config)}
    residual = config.has(Extension.RESIDUAL) and {"adds": 1, "residual": config.index_bits(MemoryType.RES)}
    return data.StructLayout({**(table or {}), **(residual or {})})


class BeatFormer(wiring.Component):
    """Gather the outputs of reads into beats, and tell when a burst is complete.

    Parameters:
        config: the accelerator.

    Members:
        read: the read whose outputs are there in this cycle.
        outputs: of the read.
        beat: high for a cycle with each beat.
        burst: high for a cycle with the last beat of each burst, and for each STORE that writes nothing.

    Timing: a beat and a burst appear in the cycle of the read that completes them. Never stalls.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        beat = wiring.Signature({"valid": Out(1), "payload": Out(output_beat_layout(config))})
        super().__init__(
            {
                "read": In(read_layout(config)),
                "outputs": In(8 * config.store_read_bytes),
                "beat": Out(beat),
                "burst": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        read = self.read
        beat = Signal(output_beat_layout(self.config))
        m.d.comb += [
            beat.last.eq(read.burst_ends),
            self.beat.payload.eq(beat),
            self.beat.valid.eq(read.valid & ~read.empty & read.beat_ends),
            self.burst.eq(read.valid & (read.empty | read.burst_ends)),
        ]
        if self.config.store_read_bytes == self.config.bus_bytes:
            m.d.comb += [beat.data.eq(self.outputs), beat.written.eq(1)]
        else:
            self._gather(m, beat)
        return m

    def _gather(self, m: Module, beat: data.View) -> None:
        """Add the outputs of a read to those of the same beat before it; a last lane always ends its beat.

        Lanes that are not written hold what they held before.
        """
        read, size = self.read, 8 * self.config.store_read_bytes
        lanes = self.config.bus_bits // size
        here = Signal(lanes)
        held, filled = Signal(data.ArrayLayout(size, lanes - 1), reset_less=True), Signal(lanes - 1)
        m.d.comb += here.eq(1 << read.lane)
        gathered = [Mux(here[lane], self.outputs, held[lane]) for lane in range(lanes - 1)]
        written = here | filled
        per_element = lanes // len(beat.written)
        m.d.comb += [
            beat.data.eq(Cat(*gathered, self.outputs)),
            beat.written.eq(Cat(written[first] for first in range(0, lanes, per_element))),
        ]
        with m.If(read.valid & ~read.empty):
            for lane in range(lanes - 1):
                with m.If(here[lane]):
                    m.d.sync += held[lane].eq(self.outputs)
            m.d.sync += filled.eq(Mux(read.beat_ends, 0, written))


def byte_strobe(config: AcceleratorConfig, written: Signal) -> Cat:
    """Return the strobe bit of each byte of a beat of which `written` elements are to be written."""
    size = config.bus_bytes // len(written)
    assert exact_log2(size) >= 0
    return Cat(bit.replicate(size) for bit in written)
