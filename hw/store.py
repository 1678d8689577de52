"""The store unit: accumulators, narrowed or requantised, to DRAM."""

from itertools import pairwise

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from vdla.hw.bursts import BurstCutter
from vdla.hw.layouts import decode
from vdla.hw.queue import Queue
from vdla.hw.requantise import Requantiser
from vdla.hw.signatures import (
    instruction_stream,
    request_layout,
    request_stream,
    scratchpad_read,
    shadow,
    token_sink,
    token_source,
    unit_status,
    write_beat_layout,
    write_stream,
)
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.timing import BURSTS_STORED_AHEAD, STORE_REQUESTS_AHEAD, store_stages
from vdla.hw.spec.vocabulary import INSTRUCTION_BITS, SRAM_BASE_BITS, Extension, MemoryType, Parameter
from vdla.hw.start_gate import StartGate


def burst_layout(config: AcceleratorConfig) -> data.StructLayout:
    """One burst of a STORE on its way to memory; no beats: the mark of a STORE that writes nothing."""
    request = request_layout(config)
    return data.StructLayout(
        {"address": request["address"].shape, "beats": request["beats"].shape, "last": 1, "push_prev": 1}
    )


class ReadHalf(wiring.Component):
    """Read the elements of one STORE after another, requantise them, and make bursts of beats of them.

    Parameters:
        config: the accelerator.

    Members:
        instruction: a STORE to carry out.
        out: read port of the accumulators' shadow.
        bursts: bursts whose beats are all in `beats`.
        beats: their data.
        idle: nothing in progress here; `bursts` may still hold something.
        step: a read is issued.
        overrun: its index is past the end of the scratchpad (it wraps).

    Timing: the first read is issued in the cycle after the instruction is taken, then one per cycle (a
    parameter, a beat of an element wider than the bus, or one element); reads of elements while, with those
    that have not reached the queues, `beats` has a place and fewer bursts wait than its queue holds. A beat
    enters its queue, and the last of a burst brings the burst, `store_stages` cycles after its last read. The
    next instruction can be taken in the cycle of the last read. A STORE that writes nothing reads no
    parameters, takes one step and gives a burst of no beats.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self._requantises = config.has(Extension.REQUANTISE)
        self._unit_bytes = min(config.element_bytes(MemoryType.OUT), config.bus_bytes)  # of one step
        self._row_bits = 16 + exact_log2(config.element_bytes(MemoryType.OUT))
        # The places of a step in a beat and in an element; two at least, so that signals have a bit.
        self._lanes = range(max(2, config.bus_bytes // self._unit_bytes))
        self._parts = range(max(2, config.element_bytes(MemoryType.OUT) // self._unit_bytes))
        super().__init__(
            {
                "instruction": In(instruction_stream()),
                "out": Out(scratchpad_read(config, shadow(config))),
                "bursts": Out(
                    wiring.Signature({"valid": Out(1), "ready": In(1), "payload": Out(burst_layout(config))})
                ),
                "beats": Out(write_stream(config)),
                "idle": Out(1),
                "step": Out(1),
                "overrun": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        on_their_way = store_stages(self._requantises) - 1
        m.submodules.beat_queue = beats = Queue(
            write_beat_layout(config), BURSTS_STORED_AHEAD * config.burst_beats + on_their_way
        )
        m.submodules.burst_queue = bursts = Queue(burst_layout(config), STORE_REQUESTS_AHEAD + on_their_way)
        connect(m, beats.o, flipped(self.beats))
        m.d.comb += [
            self.bursts.valid.eq(bursts.o.valid),
            self.bursts.payload.eq(bursts.o.payload),
            bursts.o.ready.eq(self.bursts.ready),
        ]
        layout = data.StructLayout(
            {
                "valid": 1,
                "empty": 1,
                "lane": self._lanes,
                "part": self._parts,
                "beat_ends": 1,
                "burst_ends": 1,
                "last": 1,
                "push_prev": 1,
                "address": config.address_bits,
                "beats": request_layout(config)["beats"].shape,
                "scales": 1,
            }
        )
        stages = [Signal(layout, name=f"stage_{index}") for index in range(1 + on_their_way)]
        m.d.sync += [later.eq(earlier) for earlier, later in pairwise(stages)]
        active = self._issue(m, beats, bursts, stages)
        self._form(m, beats, bursts, stages[-1], self._outputs(m, stages[0]))
        m.d.comb += self.idle.eq(~active & ~Cat(stage.valid for stage in stages).any() & ~bursts.o.valid)
        return m

    def _issue(self, m: Module, beats: Queue, bursts: Queue, stages: list[data.View]) -> Signal:
        """Walk the parameters and the rows; one read per step, described for the cycle after in the first
        stage register."""
        config = self.config
        self._active, self._word = Signal(), Signal(INSTRUCTION_BITS)
        store = decode(isa.Store, config, self._word)
        m.submodules.cutter = cutter = BurstCutter(config, self._row_bits)
        self._at = at = Signal(
            data.StructLayout(
                {
                    "address": config.address_bits,
                    "row": config.address_bits,
                    "remaining": self._row_bits,
                    "rows": 16,
                    "element": SRAM_BASE_BITS + 2,
                    "part": self._parts,
                    "burst_starts": 1,
                    "burst": data.StructLayout({"address": config.address_bits, "beats": len(cutter.beats)}),
                }
            )
        )
        prepares, parameter = self._parameters(m, store)
        empty, row_ends = (store.x_size == 0) | (store.y_size == 0), at.remaining == self._unit_bytes
        last = ~prepares & (empty | (row_ends & (at.rows == 1)))
        on_their_way = sum(each.valid for each in stages)
        room = (beats.level + on_their_way < beats.depth) & (bursts.level + on_their_way < bursts.depth)
        index = Mux(prepares, parameter, at.element)
        m.d.comb += [
            cutter.address.eq(at.address),
            cutter.remaining.eq(at.remaining),
            self.step.eq(self._active & (prepares | room)),
            self.overrun.eq(self.step & ~empty & (index >= config.depth(MemoryType.OUT))),
            self.out.address.eq(index),
            self.instruction.ready.eq(~self._active | (self.step & last)),
        ]
        burst = (
            Mux(at.burst_starts, cutter.first_beat, at.burst.address),
            Mux(at.burst_starts, cutter.beats, at.burst.beats),
        )
        burst_ends = self._describe(m, stages[0], store, empty, row_ends, burst)
        m.d.sync += [stages[0].valid.eq(self.step & ~prepares), stages[0].last.eq(last)]
        with m.If(self.step & ~empty & ~prepares):
            self._advance(m, store, row_ends, burst, burst_ends)
        with m.If(self.step & last):
            m.d.sync += self._active.eq(0)
        with m.If(self.instruction.valid & self.instruction.ready):
            self._take(m)
        return self._active

    def _describe(
        self,
        m: Module,
        stage: data.View,
        store: data.View,
        empty: Value,
        row_ends: Value,
        burst: tuple[Value, ...],
    ) -> Value:
        """Describe the read of this cycle in the first stage register; return whether it ends a burst."""
        config, at = self.config, self._at
        after = at.address + self._unit_bytes
        burst_ends = row_ends | (after[: exact_log2(config.burst_bytes)] == 0)
        m.d.sync += [
            stage.empty.eq(empty),
            stage.push_prev.eq(store.push_prev),
            stage.scales.eq(self._has_parameters(store)),
            stage.lane.eq(at.address[: exact_log2(config.bus_bytes)] >> exact_log2(self._unit_bytes)),
            stage.part.eq(at.part),
            stage.beat_ends.eq(row_ends | (after[: exact_log2(config.bus_bytes)] == 0)),
            stage.burst_ends.eq(burst_ends),
            stage.address.eq(burst[0]),
            stage.beats.eq(Mux(empty, 0, burst[1])),
        ]
        return burst_ends

    def _advance(
        self, m: Module, store: data.View, row_ends: Value, burst: tuple[Value, ...], burst_ends: Value
    ) -> None:
        """Go on to the next read of a row, or to the next row."""
        at, element_bytes = self._at, self.config.element_bytes(MemoryType.OUT)
        m.d.sync += [
            at.burst.address.eq(burst[0]),
            at.burst.beats.eq(burst[1]),
            at.burst_starts.eq(burst_ends),
            at.address.eq(at.address + self._unit_bytes),
            at.remaining.eq(at.remaining - self._unit_bytes),
            at.part.eq(at.part + 1),
        ]
        with m.If(at.part == element_bytes // self._unit_bytes - 1):
            m.d.sync += [at.part.eq(0), at.element.eq(at.element + 1)]
        with m.If(row_ends):
            following = at.row + (store.x_stride << exact_log2(element_bytes))
            m.d.sync += [
                at.row.eq(following),
                at.address.eq(following),
                at.rows.eq(at.rows - 1),
                at.remaining.eq(store.x_size << exact_log2(element_bytes)),
            ]

    def _take(self, m: Module) -> None:
        """Begin with the instruction that is offered."""
        at, places = self._at, exact_log2(self.config.element_bytes(MemoryType.OUT))
        taken = decode(isa.Store, self.config, self.instruction.payload)
        base = taken.dram_base << places
        m.d.sync += [
            self._active.eq(1),
            self._word.eq(self.instruction.payload),
            at.element.eq(taken.sram_base),
            at.part.eq(0),
            at.address.eq(base),
            at.row.eq(base),
            at.rows.eq(taken.y_size),
            at.burst_starts.eq(1),
            at.remaining.eq(taken.x_size << places),
            self._prepares.eq(self._has_parameters(taken)),
        ]

    def _has_parameters(self, store: data.View) -> Value:
        """Return whether a STORE is to read parameters."""
        return (store.parameters != 0) & (store.x_size != 0) & (store.y_size != 0) if self._requantises else 0

    def _parameters(self, m: Module, store: data.View) -> tuple[Value, ...]:
        """Walk the parameters of a STORE; return whether one is to be read now, and where it stands."""
        self._prepares, self._row = Signal(), Signal(Parameter)
        if not self._requantises:
            return Const(0), Const(0)
        with m.If(self.step & self._prepares):
            m.d.sync += [self._row.eq(self._row + 1), self._prepares.eq(self._row != Parameter.CLIP)]
        return self._prepares, Cat(self._row, (store.parameters - 1)[: len(store.parameters)])

    def _outputs(self, m: Module, stage: data.View) -> Value:
        """Return the outputs of a read, in the cycle in which they can enter the queue."""
        if not self._requantises:
            bits = min(self.config.element_bits(MemoryType.OUT), self.config.bus_bits)
            return self.out.data.word_select(stage.part[: exact_log2(len(self.out.data) // bits)], bits)
        m.submodules.requantiser = requantiser = Requantiser(self.config)
        m.d.sync += [requantiser.keeps.eq(self.step & self._prepares), requantiser.row.eq(self._row)]
        m.d.comb += [
            requantiser.element.as_value().eq(self.out.data),
            requantiser.part.eq(stage.part),
            requantiser.scales.eq(stage.scales),
        ]
        return requantiser.outputs.as_value()

    def _form(self, m: Module, beats: Queue, bursts: Queue, stage: data.View, outputs: Value) -> None:
        """Gather outputs into beats, and announce the bursts that are complete."""
        bits = len(outputs)
        beat, held = Signal(write_beat_layout(self.config)), Signal(write_beat_layout(self.config))
        m.d.comb += [
            beat.data.eq(held.data | (outputs << (stage.lane * bits))),
            beat.strobe.eq(held.strobe | (((1 << bits // 8) - 1) << (stage.lane * (bits // 8)))),
        ]
        with m.If(stage.valid & ~stage.empty):
            m.d.sync += held.eq(beat)
            with m.If(stage.beat_ends):
                m.d.sync += held.eq(0)
        announced = bursts.i.payload
        m.d.comb += [
            beat.last.eq(stage.burst_ends),
            beats.i.payload.eq(beat),
            beats.i.valid.eq(stage.valid & ~stage.empty & stage.beat_ends),
            bursts.i.valid.eq(stage.valid & (stage.empty | stage.burst_ends)),
            announced.address.eq(stage.address),
            announced.beats.eq(stage.beats),
            announced.last.eq(stage.last),
            announced.push_prev.eq(stage.push_prev),
        ]


class StoreUnit(wiring.Component):
    """Execute STOREs in order; one is done when memory has accepted all it wrote.

    Parameters:
        config: the accelerator; at most `max_requests` bursts wait for their answer.

    Members:
        instruction: the queue's head; a transfer starts it.
        pop_prev, push_prev: token edges from and to the compute unit.
        out: read port of the accumulators' shadow.
        request, write_data, write_done: DRAM.
        beats: a beat is written.
        status: for counters and run control.

    Timing: as `ReadHalf`; a burst is offered in the cycle after its last beat was formed, so memory never
        waits for data.
    A STORE retires in the cycle in which `write_done` answers its last burst, or behind the STOREs before it
    that wrote nothing, one per cycle.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "instruction": In(instruction_stream()),
                "pop_prev": Out(token_source()),
                "push_prev": Out(token_sink()),
                "out": Out(scratchpad_read(config, shadow(config))),
                "request": Out(request_stream(config)),
                "write_data": Out(write_stream(config)),
                "write_done": In(1),
                "beats": Out(1),
                "status": Out(unit_status()),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.gate = gate = StartGate(self.config, ("prev",))
        m.submodules.reads = reads = ReadHalf(self.config)
        m.submodules.written = written = Queue(
            data.StructLayout({"last": 1, "push_prev": 1, "mark": 1}), self.config.max_requests
        )
        connect(m, gate.pop_prev, flipped(self.pop_prev))
        connect(m, reads.out, flipped(self.out))
        connect(m, reads.beats, flipped(self.write_data))
        m.d.comb += [
            gate.instruction.eq(self.instruction.payload),
            gate.valid.eq(self.instruction.valid),
            reads.instruction.payload.eq(self.instruction.payload),
            reads.instruction.valid.eq(self.instruction.valid & gate.open),
            self.instruction.ready.eq(gate.open & reads.instruction.ready),
            gate.start.eq(self.instruction.valid & self.instruction.ready),
            gate.push_prev.room.eq(self.push_prev.room),
            self.push_prev.reserve.eq(gate.push_prev.reserve),
            self.beats.eq(self.write_data.valid & self.write_data.ready),
        ]
        self._send(m, reads, written)
        self._report(m, gate, reads, written)
        return m

    def _send(self, m: Module, reads: ReadHalf, written: Queue) -> None:
        """Offer bursts to memory and remember them until they are answered."""
        burst = reads.bursts.payload
        mark = burst.beats == 0
        answers = Signal(
            range(self.config.max_requests + 1)
        )  # that came while marks stood before their bursts
        answered = written.o.valid & (written.o.payload.mark | self.write_done | (answers != 0))
        m.d.sync += answers.eq(answers + self.write_done - (answered & ~written.o.payload.mark))
        m.d.comb += [
            self.request.valid.eq(reads.bursts.valid & ~mark & written.i.ready),
            self.request.payload.write.eq(1),
            self.request.payload.address.eq(burst.address),
            self.request.payload.beats.eq(burst.beats),
            reads.bursts.ready.eq(written.i.ready & (mark | self.request.ready)),
            written.i.valid.eq(reads.bursts.valid & (mark | self.request.ready)),
            written.i.payload.last.eq(burst.last),
            written.i.payload.push_prev.eq(burst.push_prev),
            written.i.payload.mark.eq(mark),
            written.o.ready.eq(answered),
            self.push_prev.push.eq(answered & written.o.payload.last & written.o.payload.push_prev),
        ]

    def _report(self, m: Module, gate: StartGate, reads: ReadHalf, written: Queue) -> None:
        idle = reads.idle & ~written.o.valid
        waiting = idle & ~gate.start
        m.d.comb += [
            self.status.idle.eq(idle),
            self.status.overrun.eq(reads.overrun),
            self.status.busy.eq(reads.step | gate.start),
            self.status.waits_memory.eq(~idle & ~self.status.busy),
            self.status.waits_prev.eq(waiting & gate.waits_prev),
            self.status.waits_room.eq(waiting & gate.waits_room),
        ]
