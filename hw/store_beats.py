"""Beats and bursts of the store unit, formed of the outputs of its reads."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from vdla.hw.signatures import lent_write, request_layout
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension, MemoryType, Statistic
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
    """One beat of outputs: `written` has a bit for each element of a beat, or a single bit for a beat of a
    wider element; `last` marks the last beat of its burst."""
    unit = min(config.element_bytes(MemoryType.OUT), config.bus_bytes)
    return data.StructLayout({"data": config.bus_bits, "written": config.bus_bytes // unit, "last": 1})


def read_layout(config: AcceleratorConfig) -> data.StructLayout:
    """One read of the store unit, on its way to beats.

    `empty`: of a STORE that writes nothing. `lane`: place of the outputs in their beat. `part`: place in the
    element that was read. `beat_ends`, `burst_ends`: the read completes a beat, a burst. `scales`: the
    outputs are requantised by parameters. `further`: what is done then, where there are such steps. `feeds`:
    the outputs go to element `input` of INP, and complete no beat; only where they can. `gathers`: the
    outputs go nowhere, and complete no beat; `normal`: what is said of it as a read of a NORMALISE; only
    where there are such instructions.
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
            **(
                {"feeds": 1, "input": config.index_bits(MemoryType.INP)}
                if config.has(Extension.FEEDBACK)
                else {}
            ),
            **({"gathers": 1, "normal": normal_layout()} if config.has(Extension.NORMALISE) else {}),
        }
    )


def normal_layout() -> data.StructLayout:
    """What is said of a read as that of a NORMALISE. `valid`: it is. `first`: it is its instruction's first
    of an element. `anew`: statistics begin with its element."""
    return data.StructLayout({"valid": 1, "first": 1, "anew": 1})


def normal_kind_layout() -> data.StructLayout:
    """The kind of a NORMALISE: its statistic, and whether it writes outputs. All NORMALISEs whose reads are
    on their way at a time are of one kind."""
    return data.StructLayout({"statistic": Statistic, "writes": 1})


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
        burst: high for a cycle with the last beat of each burst, for each STORE that writes nothing, and with
            the last read of each that writes INP, and of each NORMALISE that writes nothing.

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
        """Add the outputs of a read to the outputs of its beat before it; a last lane always ends its beat.

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
        gathers = read.valid & ~read.empty
        if self.config.has(Extension.FEEDBACK):
            gathers &= ~read.feeds
        if self.config.has(Extension.NORMALISE):
            gathers &= ~read.gathers
        with m.If(gathers):
            for lane in range(lanes - 1):
                with m.If(here[lane]):
                    m.d.sync += held[lane].eq(self.outputs)
            m.d.sync += filled.eq(Mux(read.beat_ends, 0, written))


class InputFormer(wiring.Component):
    """Gather the outputs of reads into elements of INP, and write them.

    Parameters:
        config: the accelerator; it has the path from the store unit to INP.

    Members:
        coming: the read whose outputs are there in the next cycle.
        read: the read whose outputs are there in this cycle.
        outputs: of the read.
        write: the write port of INP; `next` is high in the cycle in which the last outputs of an element are
            there.

    Timing: an element is written in the cycle after its last outputs were there. Never stalls. All outputs
    come from registers.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "coming": In(read_layout(config)),
                "read": In(read_layout(config)),
                "outputs": In(8 * config.store_read_bytes),
                "write": Out(lent_write(config, MemoryType.INP)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        size, read, coming = len(self.outputs), self.read, self.coming
        parts = self.config.element_bits(MemoryType.INP) // size
        held = Signal(data.ArrayLayout(size, parts - 1), reset_less=True)
        with m.If(read.valid & read.feeds):
            for part in range(parts - 1):
                with m.If(read.part == part):
                    m.d.sync += held[part].eq(self.outputs)
        m.d.sync += [
            self.write.next.eq(coming.valid & coming.feeds & (coming.part == parts - 1)),
            self.write.address.eq(read.input),
            self.write.data.eq(Cat(held.as_value(), self.outputs)),
            self.write.enable.eq(self.write.next.replicate(len(self.write.enable))),
        ]
        return m


def input_port(config: AcceleratorConfig) -> dict[str, wiring.Member]:
    """Return the member of the store unit by which it writes INP, where it can."""
    return {"inp": Out(lent_write(config, MemoryType.INP))} if config.has(Extension.FEEDBACK) else {}


def byte_strobe(config: AcceleratorConfig, written: Signal) -> Cat:
    """Return the strobe bit of each byte of a beat of which `written` elements are to be written."""
    size = config.bus_bytes // len(written)
    assert exact_log2(size) >= 0
    return Cat(bit.replicate(size) for bit in written)
