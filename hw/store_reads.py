"""The reading half of the store unit: elements of the accumulators' shadow, as bursts of beats."""

from itertools import pairwise
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from vdla.hw.bursts import BurstCutter
from vdla.hw.layouts import decode
from vdla.hw.queue import Queue
from vdla.hw.requantise import Requantiser
from vdla.hw.signatures import instruction_stream, scratchpad_read, shadow, write_beat_layout, write_stream
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.timing import BURSTS_STORED_AHEAD, STORE_REQUESTS_AHEAD, store_stages
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter
from vdla.hw.store_beats import (
    BeatFormer,
    burst_layout,
    burst_stream,
    parts_of_element,
    read_bytes,
    read_layout,
    row_bits,
)


class _Walk(NamedTuple):
    """The registers of a walk over rows: byte addresses, what is left, and the place of the read in its
    element."""

    address: Signal
    row: Signal
    remaining: Signal
    rows: Signal
    part: Signal
    burst_starts: Signal


class RowWalk(wiring.Component):
    """Walk the rows of a STORE in DRAM, read by read, and cut them into bursts.

    Parameters:
        config: the accelerator.

    Members:
        taken: a STORE to begin with, as encoded.
        take: begin with it.
        stride: the distance of rows in elements, of the STORE in progress.
        width: the elements of its rows.
        advance: go on to the next read.
        element: the index that is read.
        read: where the outputs go; `valid`, `empty`, `scales` and the STORE's flags are left to others.
        last_row: no row comes after this one.

    Timing: outputs follow `take` and `advance` in the next cycle.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "taken": In(config.instruction_bits),
                "take": In(1),
                "stride": In(16),
                "width": In(16),
                "advance": In(1),
                "element": Out(config.sram_base_bits + 2),  # past the end included
                "read": Out(read_layout(config)),
                "row_ends": Out(1),
                "last_row": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config, size = self.config, read_bytes(self.config)
        address, row = Signal(config.address_bits), Signal(config.address_bits)
        remaining, rows, part = Signal(row_bits(config)), Signal(16), Signal(parts_of_element(config))
        m.submodules.cutter = cutter = BurstCutter(config, row_bits(config))
        burst_starts = Signal()
        burst = Signal(data.StructLayout({"address": config.address_bits, "beats": len(cutter.beats)}))
        after = address + size
        m.d.comb += [
            cutter.address.eq(address),
            cutter.remaining.eq(remaining),
            self.row_ends.eq(remaining == size),
            self.last_row.eq(rows == 1),
            self.read.lane.eq(address[: exact_log2(config.bus_bytes)] >> exact_log2(size)),
            self.read.part.eq(part),
            self.read.beat_ends.eq(self.row_ends | (after[: exact_log2(config.bus_bytes)] == 0)),
            self.read.burst_ends.eq(self.row_ends | (after[: exact_log2(config.burst_bytes)] == 0)),
            self.read.burst.address.eq(Mux(burst_starts, cutter.first_beat, burst.address)),
            self.read.burst.beats.eq(Mux(burst_starts, cutter.beats, burst.beats)),
        ]
        walk = _Walk(address, row, remaining, rows, part, burst_starts)
        with m.If(self.advance):
            m.d.sync += [
                burst.address.eq(self.read.burst.address),
                burst.beats.eq(self.read.burst.beats),
                burst_starts.eq(self.read.burst_ends),
            ]
            self._go_on(m, walk)
        with m.If(self.take):
            self._begin(m, walk)
        return m

    def _go_on(self, m: Module, walk: _Walk) -> None:
        """Step behind a read: to the next one of the row, or to the next row."""
        size, places = read_bytes(self.config), exact_log2(self.config.element_bytes(MemoryType.OUT))
        m.d.sync += [
            walk.address.eq(walk.address + size),
            walk.remaining.eq(walk.remaining - size),
            walk.part.eq(walk.part + 1),
        ]
        with m.If(walk.part == self.config.element_bytes(MemoryType.OUT) // size - 1):
            m.d.sync += [walk.part.eq(0), self.element.eq(self.element + 1)]
        with m.If(self.row_ends):
            following = walk.row + (self.stride << places)
            m.d.sync += [
                walk.row.eq(following),
                walk.address.eq(following),
                walk.rows.eq(walk.rows - 1),
                walk.remaining.eq(self.width << places),
            ]

    def _begin(self, m: Module, walk: _Walk) -> None:
        """Stand at the first read of an instruction that is taken."""
        places = exact_log2(self.config.element_bytes(MemoryType.OUT))
        store = decode(isa.Store, self.config, self.taken)
        base = store.dram_base << places
        m.d.sync += [
            self.element.eq(store.sram_base),
            walk.part.eq(0),
            walk.address.eq(base),
            walk.row.eq(base),
            walk.rows.eq(store.y_size),
            walk.burst_starts.eq(1),
            walk.remaining.eq(store.x_size << places),
        ]


class ReadIssue(wiring.Component):
    """Issue the reads of one STORE after another: its parameters first, then its elements.

    Parameters:
        config: the accelerator.

    Members:
        instruction: a STORE to carry out.
        room: the outputs of one more read have a place behind those in flight.
        address: what is read.
        read: where the outputs of this cycle's read go; `valid` for elements only.
        keeps: this cycle's read is parameter `row`.
        row: which one.
        active: a STORE is in progress.
        step: a read is issued, or a STORE that writes nothing ends.
        overrun: the read's index is past the end of the scratchpad (it wraps).

    Timing: as `ReadHalf`; outputs are of this cycle.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self._requantises = config.has(Extension.REQUANTISE)
        super().__init__(
            {
                "instruction": In(instruction_stream(config)),
                "room": In(1),
                "address": Out(config.index_bits(MemoryType.OUT)),
                "read": Out(read_layout(config)),
                "keeps": Out(1),
                "row": Out(Parameter),
                "active": Out(1),
                "step": Out(1),
                "overrun": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.walk = walk = RowWalk(self.config)
        word, prepares = Signal(self.config.instruction_bits), Signal()
        store = decode(isa.Store, self.config, word)
        takes = self.instruction.valid & self.instruction.ready
        empty = (store.x_size == 0) | (store.y_size == 0)
        last = ~prepares & (empty | (walk.row_ends & walk.last_row))
        index = Mux(prepares, self._parameter_index(store), walk.element)
        m.d.comb += [
            self.instruction.ready.eq(~self.active | (self.step & last)),
            self.step.eq(self.active & (prepares | self.room)),
            self.keeps.eq(self.step & prepares),
            self.address.eq(index),
            self.overrun.eq(self.step & ~empty & (index >= self.config.depth(MemoryType.OUT))),
            walk.taken.eq(self.instruction.payload),
            walk.take.eq(takes),
            walk.stride.eq(store.x_stride),
            walk.width.eq(store.x_size),
            walk.advance.eq(self.step & ~empty & ~prepares),
            self.read.eq(walk.read),
            self.read.valid.eq(self.step & ~prepares),
            self.read.empty.eq(empty),
            self.read.scales.eq(self._has_parameters(store)),
            self.read.burst.beats.eq(Mux(empty, 0, walk.read.burst.beats)),
            self.read.burst.last.eq(last),
            self.read.burst.push_prev.eq(store.push_prev),
        ]
        with m.If(self.keeps):
            m.d.sync += [self.row.eq(self.row + 1), prepares.eq(self.row != Parameter.CLIP)]
        with m.If(self.step & last):
            m.d.sync += self.active.eq(0)
        with m.If(takes):
            taken = decode(isa.Store, self.config, self.instruction.payload)
            m.d.sync += [
                self.active.eq(1),
                word.eq(self.instruction.payload),
                prepares.eq(self._has_parameters(taken)),
            ]
        return m

    def _has_parameters(self, store: data.View) -> Value:
        """Return whether a STORE is to read parameters."""
        return (store.parameters != 0) & (store.x_size != 0) & (store.y_size != 0) if self._requantises else 0

    def _parameter_index(self, store: data.View) -> Value:
        """Return where the next parameter of a STORE stands in the accumulators."""
        if not self._requantises:
            return Const(0)
        return Cat(self.row, (store.parameters - 1)[: len(store.parameters)])


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
        super().__init__(
            {
                "instruction": In(instruction_stream(config)),
                "out": Out(scratchpad_read(config, shadow(config))),
                "bursts": Out(burst_stream(config)),
                "beats": Out(write_stream(config)),
                "idle": Out(1),
                "step": Out(1),
                "overrun": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        on_their_way = store_stages(config.has(Extension.REQUANTISE)) - 1
        m.submodules.issue = issue = ReadIssue(config)
        m.submodules.former = former = BeatFormer(config)
        m.submodules.beat_queue = beats = Queue(
            write_beat_layout(config), BURSTS_STORED_AHEAD * config.burst_beats + on_their_way
        )
        m.submodules.burst_queue = bursts = Queue(burst_layout(config), STORE_REQUESTS_AHEAD + on_their_way)
        stages = [Signal(read_layout(config), name=f"stage_{index}") for index in range(1 + on_their_way)]
        m.d.sync += [stages[0].eq(issue.read), *(later.eq(earlier) for earlier, later in pairwise(stages))]
        in_flight = sum(stage.valid for stage in stages)
        connect(m, flipped(self.instruction), issue.instruction)
        connect(m, beats.o, flipped(self.beats))
        m.d.comb += [
            self.out.address.eq(issue.address),
            issue.room.eq(
                (beats.level + in_flight < beats.depth) & (bursts.level + in_flight < bursts.depth)
            ),
            former.read.eq(stages[-1]),
            former.outputs.eq(self._outputs(m, stages[0], issue)),
            *(
                queue.i.valid.eq(given.valid)
                for queue, given in ((beats, former.beat), (bursts, former.burst))
            ),
            *(
                queue.i.payload.eq(given.payload)
                for queue, given in ((beats, former.beat), (bursts, former.burst))
            ),
            self.bursts.valid.eq(bursts.o.valid),
            self.bursts.payload.eq(bursts.o.payload),
            bursts.o.ready.eq(self.bursts.ready),
            self.idle.eq(~issue.active & (in_flight == 0) & ~bursts.o.valid),
            self.step.eq(issue.step),
            self.overrun.eq(issue.overrun),
        ]
        return m

    def _outputs(self, m: Module, stage: data.View, issue: ReadIssue) -> Value:
        """Return the outputs of a read, in the cycle in which they can enter the queue."""
        if not self.config.has(Extension.REQUANTISE):
            bits = 8 * read_bytes(self.config)
            return self.out.data.word_select(stage.part[: exact_log2(len(self.out.data) // bits)], bits)
        m.submodules.requantiser = requantiser = Requantiser(self.config)
        m.d.sync += [requantiser.keeps.eq(issue.keeps), requantiser.row.eq(issue.row)]
        m.d.comb += [
            requantiser.element.as_value().eq(self.out.data),
            requantiser.part.eq(stage.part),
            requantiser.scales.eq(stage.scales),
        ]
        return requantiser.outputs.as_value()
