"""The reading half of the store unit: elements of the accumulators' shadow, as bursts of beats."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from vdla.hw.normal_issue import NormalIssue
from vdla.hw.queue import Queue, counted
from vdla.hw.signatures import has_shadow, instruction_stream, write_stream
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.timing import (
    BURSTS_STORED_AHEAD,
    STORE_REQUESTS_AHEAD,
    store_read_stages,
    store_stages,
)
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter
from vdla.hw.store_beats import (
    BeatFormer,
    InputFormer,
    burst_layout,
    burst_stream,
    byte_strobe,
    input_port,
    normal_kind_layout,
    output_beat_layout,
    read_layout,
)
from vdla.hw.store_further import FurtherSteps, has_further_steps
from vdla.hw.store_outputs import OutputPath, accumulator_ports, further_ports, kept_layout
from vdla.hw.store_walk import RowWalk
from vdla.hw.store_words import decode_shared, gathers_only, normal_base, writes_normalised


class ReadIssue(wiring.Component):
    """Issue the reads of one STORE after another: its parameters first, the residuals' parameters behind the
    others, then its elements. A NORMALISE is read like a STORE; its parameters of normalisation are the last.

    Parameters:
        config: the accelerator.

    Members:
        instruction: a STORE to carry out.
        room: the outputs of one more read have a place behind those in flight.
        lends: in the next cycle the read port is another's; `lent`: it is, in this cycle: no read is issued.
            Both only where there is a shadow.
        address: what is read.
        read: where the outputs of this cycle's read go; `valid` for elements only.
        kept: what this cycle's read brings.
        ends_burst: this cycle's read is the last of a burst, or of an instruction that does not write DRAM.
        burst: high for a cycle with each burst, in the cycle after its last read was issued; an instruction
            that does not write DRAM has just the last, a mark.
        settled: no read is in the stages; kind: of the NORMALISEs whose reads are or will be there. Both only
            where there are such instructions.
        idle: no STORE is in progress or waits.
        step: a read is issued, or a STORE that writes nothing ends.
        overrun: the index of the cycle before, or the index of the residual, or of the element of INP that is
            written, or the STORE's table, was past the end of its scratchpad (it wraps).

    Timing: an instruction is taken while none waits, and begins in the next cycle, or in the cycle of the
    last read of the instruction before. A NORMALISE of another kind than the NORMALISE before it begins in
    the first cycle in which no instruction is in progress and no read in the stages. The first read is issued
    in the cycle after, each in the first cycle in which the port is not lent. `address`, `read`, `kept` and
    `instruction.ready` come from registers.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self._requantises, self._may_feed = config.has(Extension.REQUANTISE), config.has(Extension.FEEDBACK)
        self._may_normalise = config.has(Extension.NORMALISE)
        super().__init__(
            {
                "instruction": In(instruction_stream(config)),
                "room": In(1),
                **({"lends": In(1), "lent": Out(1)} if has_shadow(config) else {}),
                "address": Out(config.index_bits(MemoryType.OUT)),
                "read": Out(read_layout(config)),
                "kept": Out(kept_layout(config)),
                **({"settled": In(1), "kind": Out(normal_kind_layout())} if self._may_normalise else {}),
                "ends_burst": Out(1),
                "burst": Out(wiring.Signature({"valid": Out(1), "payload": Out(burst_layout(config))})),
                "idle": Out(1),
                "step": Out(1),
                "overrun": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.walk = walk = RowWalk(self.config)
        self._active, self._prepares, self._empty = Signal(), Signal(), Signal()
        self._feeds = Signal() if self._may_feed else None
        self._normal = NormalIssue(self.config) if self._may_normalise else None
        waits, word = Signal(), Signal(self.config.instruction_bits, reset_less=True)
        last, begins = Signal(), Signal()
        m.d.comb += [
            self.instruction.ready.eq(~waits),
            self.idle.eq(~self._active & ~waits),
            last.eq(~self._prepares & (self._empty | walk.last)),
            self.step.eq(self._active & ~self._lent(m) & (self._prepares | self.room)),
            begins.eq(waits & self._may_begin(~self._active | (self.step & last))),
            walk.taken.eq(word),
            walk.take.eq(begins),
            walk.advance.eq(self.step & ~self._empty & ~self._prepares),
        ]
        with m.If(self.instruction.valid & ~waits):
            m.d.sync += [waits.eq(1), word.eq(self.instruction.payload)]
        with m.If(begins):
            m.d.sync += waits.eq(0)
        with m.If(begins | (self.step & last)):
            m.d.sync += self._active.eq(begins)
        self._read(m, walk, decode_shared(self.config, word), begins)
        if self._feeds is not None:
            self._feed(m, walk, decode_shared(self.config, word), begins, self._feeds)
        if self._normal is not None:
            self._normalise(m, walk, begins, self._normal)
        self._announce(m, walk, decode_shared(self.config, word), begins, last)
        return m

    def _may_begin(self, free: Value) -> Value:
        """Return whether an instruction that waits may begin, where there is no other or it ends."""
        if self._normal is None:
            return free
        return Mux(self._normal.differs, ~self._active & self.settled, free)

    def _lent(self, m: Module) -> Value:
        """Return whether the read port is another's in this cycle."""
        if not has_shadow(self.config):
            return Const(0, 1)
        if self.config.alu_opcodes:
            m.d.sync += self.lent.eq(self.lends)
        return self.lent

    def _read(self, m: Module, walk: RowWalk, store: data.View, begins: Signal) -> None:
        """Count the index of what is read: parameters, then the elements from the base on."""
        bits, scales, keeps = self.config.sram_base_bits, Signal(), Signal()
        index, base = Signal(bits + 2), Signal(bits)  # past the end included
        inside = self.config.index_bits(MemoryType.OUT)
        row, beyond = Signal(Parameter), Signal()
        m.d.comb += [
            self.address.eq(index),
            keeps.eq(self.step & self._prepares),
            self.kept.row.eq(row),
            self.kept.element.eq(self.step & ~self._empty & (walk.read.part == 0)),
            self.read.eq(walk.read),
            self.read.valid.eq(self.step & ~self._prepares),
            self.read.empty.eq(self._empty),
            self.read.scales.eq(scales),
        ]
        past = index[inside:].any() | beyond
        if self._feeds is not None:
            past |= self._feeds & walk.beyond
        m.d.sync += self.overrun.eq(self.step & ~self._empty & past)
        with m.If(keeps | (walk.advance & walk.element_ends)):
            m.d.sync += index.eq(index + 1)
        empty = (store.x_size == 0) | (store.y_size == 0)
        with m.If(begins):
            m.d.sync += [self._empty.eq(empty), index.eq(store.sram_base), base.eq(store.sram_base)]
        if self._requantises:
            scaled = (store.parameters != 0) & ~empty
            last_set = self._further(m, walk, begins, scaled, beyond)
            with m.If(keeps):
                m.d.sync += row.eq(row + 1)
                with m.If(row == Parameter.CLIP):
                    second = 0 if self._normal is None else self._normal.base
                    m.d.sync += [index.eq(Mux(last_set, base, second)), self._prepares.eq(~last_set)]
            with m.If(begins):
                prepares = self._begin_sets(m, walk, index, scaled, empty)
                m.d.sync += [self._prepares.eq(prepares), scales.eq(scaled)]
                with m.If(store.parameters != 0):
                    m.d.sync += index.eq((store.parameters - 1) << exact_log2(len(Parameter)))

    def _begin_sets(self, m: Module, walk: RowWalk, index: Signal, scaled: Value, empty: Value) -> Value:
        """Return whether the instruction that begins has parameters, of values where `scaled`; begin with
        others."""
        if self._normal is None:
            return scaled
        writes = writes_normalised(self.config, walk.taken)
        with m.If(writes):
            m.d.sync += index.eq(normal_base(self.config, walk.taken))
        return scaled | (writes & ~empty)

    def _further(self, m: Module, walk: RowWalk, begins: Signal, scales: Value, beyond: Signal) -> Value:
        """Follow the steps behind requantisation; return whether the set of parameters being read is the
        STORE's last."""
        keeps = self.step & self._prepares
        if not has_further_steps(self.config):
            m.d.comb += self.kept.values.eq(keeps)
            return Const(1)
        m.submodules.further = further = FurtherSteps(self.config)
        set_ends = keeps & (self.kept.row == Parameter.CLIP)
        second = further.second if self._normal is None else further.second | self._normal.second
        m.d.comb += [
            further.instruction.eq(walk.taken),
            further.begins.eq(begins),
            further.scales.eq(scales),
            further.set_ends.eq(set_ends),
            further.element_ends.eq(walk.advance & walk.element_ends),
            self.read.further.eq(further.further),
            self.kept.values.eq(keeps & ~second),
            self.kept.residuals.eq(keeps & further.second),
            beyond.eq(further.beyond),
        ]
        if self._normal is None:
            return further.last_set
        normal = self._normal
        m.d.comb += [
            normal.set_ends.eq(set_ends),
            further.empty.eq(normal.empty),
            self.kept.normals.eq(keeps & normal.second),
        ]
        return further.last_set & normal.last_set

    def _feed(self, m: Module, walk: RowWalk, store: data.View, begins: Signal, feeds: Signal) -> None:
        """Send outputs to INP where the STORE says so: they end no beat, and no burst but with the last."""
        with m.If(begins):
            to_inputs = store.memory_type == MemoryType.INP
            if self._normal is not None:
                to_inputs &= ~gathers_only(self.config, walk.taken)
            m.d.sync += feeds.eq(to_inputs)
        m.d.comb += self.read.feeds.eq(feeds & ~self._empty)
        with m.If(feeds):
            m.d.comb += [self.read.beat_ends.eq(0), self.read.burst_ends.eq(walk.last)]

    def _normalise(self, m: Module, walk: RowWalk, begins: Signal, normal: NormalIssue) -> None:
        """Follow NORMALISEs; the reads of those that write nothing end no beat, and no burst but with the
        last."""
        m.submodules.normal = normal
        store = decode_shared(self.config, walk.taken)
        m.d.comb += [
            normal.offered.eq(self.instruction.payload),
            normal.takes.eq(self.instruction.valid & self.instruction.ready),
            normal.instruction.eq(walk.taken),
            normal.begins.eq(begins),
            normal.empty.eq((store.x_size == 0) | (store.y_size == 0)),
            normal.advance.eq(walk.advance),
            self.read.normal.eq(normal.normal),
            self.read.gathers.eq(normal.gathers),
            self.kind.eq(normal.kind),
        ]
        with m.If(normal.gathers):
            m.d.comb += [self.read.beat_ends.eq(0), self.read.burst_ends.eq(walk.last)]

    def _announce(self, m: Module, walk: RowWalk, store: data.View, begins: Signal, last: Signal) -> None:
        """Give each burst in the cycle after its last read."""
        push_prev = Signal()
        with m.If(begins):
            m.d.sync += push_prev.eq(store.push_prev)
        marks, burst_ends = self._empty, walk.read.burst_ends
        for silent in (self._feeds, self._normal and self._normal.gathers):
            if silent is not None:
                marks, burst_ends = marks | silent, self.read.burst_ends
        m.d.comb += self.ends_burst.eq(self.read.valid & (self._empty | burst_ends))
        m.d.sync += [
            self.burst.valid.eq(self.ends_burst),
            self.burst.payload.address.eq(walk.address),
            self.burst.payload.mark.eq(marks),
            self.burst.payload.beats.eq(walk.beats),
            self.burst.payload.last.eq(last),
            self.burst.payload.push_prev.eq(push_prev),
        ]


class ReadHalf(wiring.Component):
    """Read the elements of one STORE after another, requantise them, and make bursts of beats of them.

    Parameters:
        config: the accelerator.

    Members:
        instruction: a STORE to carry out.
        out, operand, or acc: as in `StoreUnit`.
        res, table: as in `OutputPath`.
        inp: as in `StoreUnit`.
        bursts: bursts whose beats are all in `beats`.
        beats: their data.
        idle: nothing in progress here; `bursts` may still hold something.
        step: a read is issued.
        overrun: the index of the cycle before was past the end of the scratchpad (it wraps).

    Timing: an instruction is taken while none waits, and its first read is issued two cycles later, or in the
    cycle after the last read of the instruction before. Then a read is issued in each cycle in which the port
    is not lent: of a parameter, or of `store_read_bytes` of outputs. Reads of elements also wait for room.
    `beats` must have a place, and fewer bursts must wait than its queue holds; reads that have not reached
    the queues count. A beat enters its queue, and the last of a burst completes the burst, `store_stages`
    cycles after its last read. A STORE that writes nothing reads no parameters, takes one step and gives a
    burst of no beats. A STORE that writes INP gives such a burst with its last read; an element is written a
    cycle after its last read reaches the end of the stages.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "instruction": In(instruction_stream(config)),
                **accumulator_ports(config),
                "bursts": Out(burst_stream(config)),
                "beats": Out(write_stream(config)),
                "idle": Out(1),
                "step": Out(1),
                "overrun": Out(1),
                **further_ports(config),
                **input_port(config),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        reads = store_read_stages(config.acc_ports, config.operand_stages)
        m.submodules.issue = issue = ReadIssue(config)
        m.submodules.path = path = OutputPath(config)
        m.submodules.former = former = BeatFormer(config)
        m.submodules.beat_queue = beats = Queue(
            output_beat_layout(config),
            BURSTS_STORED_AHEAD * config.burst_beats + store_stages(config.effective_extensions, reads) - 1,
        )
        m.submodules.burst_queue = bursts = Queue(
            burst_layout(config), STORE_REQUESTS_AHEAD + store_stages(config.effective_extensions) - 1
        )
        connect(m, flipped(self.instruction), issue.instruction)
        for name in further_ports(config):
            connect(m, flipped(getattr(self, name)), getattr(path, name))
        self._address(m, issue, path)
        if config.has(Extension.FEEDBACK):
            self._feed(m, path)
        if config.has(Extension.NORMALISE):
            m.d.comb += [issue.settled.eq(path.settled), path.kind.eq(issue.kind)]
        m.d.comb += [
            path.read.eq(issue.read),
            path.kept.eq(issue.kept),
            former.read.eq(path.leaving),
            former.outputs.eq(path.outputs),
            beats.i.valid.eq(former.beat.valid),
            beats.i.payload.eq(former.beat.payload),
            bursts.i.valid.eq(issue.burst.valid),
            bursts.i.payload.eq(issue.burst.payload),
            self.idle.eq(issue.idle & ~path.busy & ~self.bursts.valid),
            self.step.eq(issue.step),
            self.overrun.eq(issue.overrun),
        ]
        self._give(m, beats, bursts, former)
        self._credit(m, issue, path.leaving, former, beats, bursts)
        return m

    def _address(self, m: Module, issue: ReadIssue, path: OutputPath) -> None:
        """Read accumulators: at the shadow's port, or in the slot of the next cycle."""
        if not has_shadow(self.config):
            m.d.sync += [self.acc.taken.eq(issue.kept.element), self.acc.address.eq(issue.address)]
            m.d.comb += path.element.eq(self.acc.data)
            return
        m.d.comb += [
            issue.lends.eq(self.operand.next),
            self.out.address.eq(Mux(issue.lent, self.operand.address, issue.address)),
            self.operand.data.eq(self.out.data),
            path.element.eq(self.out.data),
        ]

    def _feed(self, m: Module, path: OutputPath) -> None:
        """Write INP."""
        m.submodules.inputs = inputs = InputFormer(self.config)
        m.d.comb += [
            inputs.coming.eq(path.coming),
            inputs.read.eq(path.leaving),
            inputs.outputs.eq(path.outputs),
        ]
        connect(m, inputs.write, flipped(self.inp))

    def _give(self, m: Module, beats: Queue, bursts: Queue, former: BeatFormer) -> None:
        """Offer beats as they are, and bursts when they are complete; their queue has them before."""
        complete, any_complete = Signal(range(bursts.depth + 1)), Signal()
        with m.If(former.burst ^ (any_complete & self.bursts.ready)):
            m.d.sync += [
                complete.eq(counted(complete, former.burst)),
                any_complete.eq(former.burst | (complete != 1)),
            ]
        m.d.comb += [
            self.beats.valid.eq(beats.o.valid),
            self.beats.payload.data.eq(beats.o.payload.data),
            self.beats.payload.strobe.eq(byte_strobe(self.config, beats.o.payload.written)),
            self.beats.payload.last.eq(beats.o.payload.last),
            beats.o.ready.eq(self.beats.ready),
            self.bursts.valid.eq(any_complete),
            self.bursts.payload.eq(bursts.o.payload),
            bursts.o.ready.eq(self.bursts.ready & self.bursts.valid),
        ]

    def _credit(
        self, m: Module, issue: ReadIssue, leaving: data.View, former: BeatFormer, beats: Queue, bursts: Queue
    ) -> None:
        """Allow a read while its beat and its burst have places; every read takes both when it is issued, and
        gives back, when it leaves the stages, what it did not need. Where there is no shadow, the stages are
        many, and only the last read of a burst takes a place for it."""
        rooms = []
        for queue, brings, name in (beats, former.beat.valid, "beat"), (bursts, former.burst, "burst"):
            left = Signal(range(queue.depth + 1), init=queue.depth, name=f"{name}_places")
            returned, taken, issued = leaving.valid & ~brings, queue.o.valid & queue.o.ready, issue.read.valid
            if queue is bursts and not has_shadow(self.config):
                returned, issued = Const(0, 1), issue.ends_burst
            m.d.sync += left.eq(left + returned + taken - issued)
            # Whether `left` will be above 0; no read is issued while it is 0.
            freed = returned | taken
            rooms.append(left[1:].any() | Mux(left[0], freed | ~issued, freed))
        room = Signal(init=1)
        m.d.sync += room.eq(rooms[0] & rooms[1])
        m.d.comb += issue.room.eq(room)
