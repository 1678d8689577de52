"""The writing half of the load engine: pads and read beats into scratchpads."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from vdla.hw.block_walk import BlockWalk, beat_lane_bits, index_bits, plan_layout
from vdla.hw.gather import GatherWindow, gathers
from vdla.hw.halves import has_halves
from vdla.hw.signatures import lanes, read_stream, scratchpad_write
from vdla.hw.sources import Source, sources
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import PAD_VALUE_BITS
from vdla.hw.spec.memories import UNREAD_BY_STEPS, scratchpad_of
from vdla.hw.spec.vocabulary import Extension, MemoryType


def scratchpads(memories: tuple[MemoryType, ...]) -> tuple[MemoryType, ...]:
    """Return the scratchpads that loads of `memories` write."""
    return tuple(dict.fromkeys(scratchpad_of(memory) for memory in memories))


def lends(config: AcceleratorConfig, memories: tuple[MemoryType, ...]) -> bool:
    """Return whether an engine that loads `memories` lends the write port of INP to the store unit."""
    return config.has(Extension.FEEDBACK) and MemoryType.INP in memories


class ElementWriter(wiring.Component):
    """Write one step of an element of one source: a beat, an element of a beat, or padding.

    Parameters:
        config: the accelerator.
        source: of the elements.

    Members:
        is_data: write from `beat`; else padding.
        beat: the beat that is read.
        lane: which element of the beat, where it holds several.
        part: which part of the element, where it fills several beats.
        index: of the element in its scratchpad.
        padding: each value of a padding element.
        gathers, element: the data are this element instead of a beat's; only where the engine executes
            GATHERs.
        write: the scratchpad's write port.
        beat_ends: the step takes the last element that the beat can hold.
        overrun: `index` is past the end of the scratchpad (the address wraps).

    Timing: combinational.
    """

    def __init__(self, config: AcceleratorConfig, source: Source) -> None:
        self.config = config
        self.source = source
        super().__init__(
            {
                "is_data": In(1),
                "beat": In(config.bus_bits),
                "lane": In(beat_lane_bits(config, (source,))),
                "part": In(range(max(2, source.steps(config)))),
                "index": In(index_bits(config)),
                "padding": In(config.value_bits(source.scratchpad)),
                **(
                    {"gathers": In(1), "element": In(source.element_bits(config))} if self._can_gather else {}
                ),
                "write": Out(scratchpad_write(config, source.scratchpad)),
                "beat_ends": Out(1),
                "overrun": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        element, parts = self.source.element_bits(self.config), self.source.steps(self.config)
        pad, in_beat = self.source.scratchpad, max(1, self.config.bus_bits // element)
        lane = self.lane[: exact_log2(in_beat)]
        values = self.beat.word_select(lane, element) if in_beat > 1 else self.beat
        covered = lanes(self.config, pad) // parts
        values = self._extended(values).replicate(parts)
        enabled = ((1 << covered) - 1) << (self.part[: exact_log2(parts)] * covered)
        padding = self.padding.replicate(self.config.values(pad))
        m.d.comb += [
            self.beat_ends.eq(lane == in_beat - 1),
            self.overrun.eq(self.index >= self.config.depth(pad)),
            self.write.address.eq(self.index),
            self.write.data.eq(Mux(self.is_data, self._data(values), padding)),
            self.write.enable.eq(Mux(self.is_data & ~self._is_gathered, enabled, -1)),
        ]
        return m

    @property
    def _can_gather(self) -> bool:
        """Whether GATHERs write such elements."""
        return gathers(self.config, (self.source.memory,))

    @property
    def _is_gathered(self) -> Value:
        return self.gathers if self._can_gather else Const(0)

    def _data(self, from_beat: Value) -> Value:
        """Return what is written of DRAM."""
        if not self._can_gather:
            return from_beat
        return Mux(self.gathers, self.element, from_beat)

    def _extended(self, values: Value) -> Value:
        """Sign-extend narrow values to their width on chip."""
        narrow, wide = self.source.value_bits(self.config), self.config.value_bits(self.source.scratchpad)
        if narrow == wide:
            return values
        parts = [values[start : start + narrow].as_signed() for start in range(0, len(values), narrow)]
        return Cat(Cat(part, part[-1].replicate(wide - narrow)) for part in parts)


class WriteHalf(wiring.Component):
    """Write pads and read beats into scratchpads, in order.

    Parameters:
        config: the accelerator.
        memories: the memory types that its LOADs may name.

    Members:
        plan: the next LOAD.
        busy: a LOAD is being written.
        hold: make no step in this cycle, unless the LOAD is of micro-ops, a table or residuals and pushes no
            token, or writes the half of ACC in which no step works.
        settling: nor if it does that: earlier steps are in the pipeline; only where ACC has halves.
        lent: nor if it writes INP, whose write port is another's behind the next edge; only where it may be.
        read_data: beats in the order of the requests.
        inp, wgt, uop, acc: write ports of the scratchpads concerned.
        retire: the LOAD ends in this cycle; `push_prev`, `push_next`: and pushes these tokens.
        step: a write, the end of a LOAD that writes nothing, or a beat taken into the window of a GATHER.
        overrun: a write's index is past the end of its scratchpad (it wraps).
        beats: a beat is taken for that scratchpad.

    Timing: a LOAD is taken in a cycle in which no LOAD is being written, or a LOAD ends, and takes its first
    step in the next. One step per cycle: a pad element, or one beat (one element of it, if it holds several);
    of a GATHER, as `GatherWindow`. The
    write ports and `overrun` follow the step by one cycle. That is early enough for a unit that is told of
    the end of the LOAD: it reads two cycles after `retire` at the earliest. A LOAD that writes the pad
    register does so as it is taken, a cycle or more before a later LOAD is.
    """

    def __init__(self, config: AcceleratorConfig, memories: tuple[MemoryType, ...]) -> None:
        self.config = config
        self.memories = memories
        pads = scratchpads(memories)
        super().__init__(
            {
                "plan": In(stream.Signature(plan_layout(config, memories))),
                "busy": Out(1),
                "hold": In(1),
                **({"settling": In(1)} if has_halves(config, memories) else {}),
                **({"lent": In(1)} if lends(config, memories) else {}),
                "read_data": In(read_stream(config)),
                **{memory.name.lower(): Out(scratchpad_write(config, memory)) for memory in pads},
                **{name: Out(1) for name in ("retire", "push_prev", "push_next", "step", "overrun")},
                "beats": Out(data.StructLayout({memory.name.lower(): 1 for memory in pads})),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.walk = walk = BlockWalk(self.config, self.memories)
        load = Signal(plan_layout(self.config, self.memories))
        writes, element_ends, waits = Signal(), Signal(), Signal()
        part = self._count_parts(m, writes, element_ends)
        may = self._may(load, waits)
        window = self._gather(m, load, walk, may) if self._gathers else None
        there = Mux(load.gathers, window.due, self.read_data.valid) if window else self.read_data.valid
        m.d.comb += [
            writes.eq(may & ~load.empty & (~walk.is_data | there)),
            self.step.eq((may & load.empty) | writes | (window.taken if window else 0)),
            element_ends.eq(~walk.is_data | self._last_part),
            self.retire.eq((may & load.empty) | (writes & element_ends & walk.ends)),
            self.push_prev.eq(self.retire & load.push_prev),
            self.push_next.eq(self.retire & load.push_next),
            self.plan.ready.eq(~self.busy | self.retire),
            walk.plan.eq(self.plan.payload),
            walk.start.eq(self.plan.ready),
            walk.advance.eq(writes & element_ends),
        ]
        with m.If(self.plan.ready):
            m.d.sync += [self.busy.eq(self.plan.valid), load.eq(self.plan.payload)]
            m.d.sync += waits.eq(self._in_order(self.plan.payload))
        m.d.sync += [getattr(self, pad.name.lower()).enable.eq(0) for pad in scratchpads(self.memories)]
        pad_register = self._pad_register(m) if self.config.has(Extension.PAD_VALUE) else None
        for source in sources(self.config, self.memories):
            writer = self._writer(m, source, walk, part)
            if window and source.memory is MemoryType.INP:
                m.d.comb += [writer.gathers.eq(load.gathers), writer.element.eq(window.element)]
            with m.If(self.plan.ready):
                m.d.sync += writer.padding.eq(self._padding(source, pad_register))
            with m.If(load[source.name]):
                self._write(m, writer, walk, writes)
                if window and source.memory is MemoryType.INP:
                    with m.If(load.gathers):
                        m.d.comb += self.read_data.ready.eq(window.wants)
        return m

    def _may(self, load: data.View, waits: Value) -> Value:
        """Return whether nothing holds the LOAD back in this cycle."""
        may = self.busy & ~(self.hold & waits)
        if has_halves(self.config, self.memories):
            may &= ~(self.settling & load.beside)
        if lends(self.config, self.memories):
            may &= ~(self.lent & load.inp)
        return may

    @property
    def _gathers(self) -> bool:
        """Whether the engine executes GATHERs."""
        return gathers(self.config, self.memories)

    def _gather(self, m: Module, load: data.View, walk: BlockWalk, may: Value) -> GatherWindow:
        """Add the window of GATHERs."""
        m.submodules.window = window = GatherWindow(self.config)
        plan = self.plan.payload
        m.d.comb += [
            window.start.eq(self.plan.ready),
            window.lane.eq(plan.lane),
            window.lane_stride.eq(plan.lane_stride),
            window.step.eq(plan.step),
            window.enable.eq(may & load.gathers & ~load.empty & walk.is_data),
            window.row_ends.eq(walk.data_row_ends),
            window.ends.eq(walk.data_ends),
            window.beat.eq(self.read_data.payload),
            window.taken.eq(window.wants & self.read_data.valid),
        ]
        return window

    def _in_order(self, load: data.View) -> Value:
        """Return whether a LOAD does nothing before what holds it back is done."""
        free = [memory for memory in self.memories if memory in (MemoryType.UOP, *UNREAD_BY_STEPS)]
        is_free = Cat(load[memory.name.lower()] for memory in free).any() if free else Const(0)
        waits = ~is_free | load.push_prev | load.push_next
        return waits & ~load.beside if has_halves(self.config, self.memories) else waits

    def _count_parts(self, m: Module, writes: Signal, element_ends: Signal) -> Signal:
        """Count the parts of an element that fills several beats, and know the last part a cycle ahead."""
        steps = {each.name: each.steps(self.config) for each in sources(self.config, self.memories)}
        part, last = (Signal(range(max(2, *steps.values())), name=name) for name in ("part", "top_part"))
        self._last_part = Signal()
        with m.If(writes):
            following = Mux(element_ends, 0, part + 1)
            m.d.sync += [part.eq(following), self._last_part.eq(following == last)]
        with m.If(self.plan.ready):
            for name, count in steps.items():
                with m.If(self.plan.payload[name]):
                    m.d.sync += [last.eq(count - 1), self._last_part.eq(count == 1)]
            if self._gathers:
                with m.If(self.plan.payload.gathers):
                    m.d.sync += [last.eq(0), self._last_part.eq(1)]
        return part

    def _pad_register(self, m: Module) -> Signal:
        """Add the pad register, which a LOAD that writes it changes as it is taken."""
        register, following = Signal(PAD_VALUE_BITS), self.plan.payload
        with m.If(self.plan.ready & self.plan.valid & following.empty & following.pad_value):
            m.d.sync += register.eq(following.index[:PAD_VALUE_BITS])
        return register

    def _padding(self, source: Source, pad_register: Signal | None) -> Value:
        """Return each value of the elements with which the next LOAD pads, if it reads from `source`."""
        config, following = self.config, self.plan.payload
        narrow, wide = source.value_bits(config), config.value_bits(source.scratchpad)
        padding: Value = Const(0, wide)
        if source.memory is MemoryType.UOP:
            return padding
        if pad_register is not None:
            given = pad_register[:narrow]
            extended = Cat(given, given[-1].replicate(wide - len(given)))
            padding = Mux(following.pad_value, extended, padding)
        if config.has(Extension.PAD_MINIMUM):
            least = Const(config.least_value(*source), wide).as_unsigned()
            padding = Mux(following.pad_minimum, least, padding)
        return padding

    def _writer(self, m: Module, source: Source, walk: BlockWalk, part: Signal) -> ElementWriter:
        """Add the writer of a source, and connect its inputs."""
        writer = ElementWriter(self.config, source)
        m.submodules[f"{source.name}_writer"] = writer
        m.d.comb += [
            writer.is_data.eq(walk.is_data),
            writer.beat.eq(self.read_data.payload),
            writer.lane.eq(walk.lane),
            writer.part.eq(part),
            writer.index.eq(walk.index),
        ]
        return writer

    def _write(self, m: Module, writer: ElementWriter, walk: BlockWalk, writes: Signal) -> None:
        """Drive the read data and the write port while a LOAD of the writer's source is written."""
        name = writer.source.scratchpad.name.lower()
        port = getattr(self, name)
        m.d.comb += [
            self.read_data.ready.eq(writes & walk.is_data & (writer.beat_ends | walk.data_row_ends)),
            self.beats[name].eq(self.read_data.valid & self.read_data.ready),
        ]
        m.d.sync += [
            self.overrun.eq(writes & writer.overrun),
            port.address.eq(writer.write.address),
            port.data.eq(writer.write.data),
        ]
        with m.If(writes):
            m.d.sync += port.enable.eq(writer.write.enable)
