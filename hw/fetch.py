"""Fetch: reads the instruction stream ahead of dispatch."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from vdla.hw.bursts import BurstCutter
from vdla.hw.queue import Queue
from vdla.hw.signatures import instruction_stream, read_stream, request_stream
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.timing import BURSTS_FETCHED_AHEAD


class Fetch(wiring.Component):
    """Read `count` instructions from `address`, at most 4 bursts ahead of dispatch.

    Parameters:
        config: the accelerator.

    Members:
        begin: latch `address` (bytes, a multiple of an instruction's) and `count`.
        stop: make no more requests; beats that still arrive are dropped.
        request, read_data: DRAM.
        instruction: the stream, in order.
        beats: a read beat is taken.
        busy: a read is outstanding.
        blocked: no read is outstanding and no request is offered.

    Timing: the first request is offered in the cycle after `begin`. An instruction is offered in the cycle
    after its last beat arrives; a beat that holds several gives one per cycle.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "begin": In(1),
                "address": In(config.address_bits),
                "count": In(32),
                "stop": In(1),
                "request": Out(request_stream(config)),
                "read_data": In(read_stream(config)),
                "instruction": Out(instruction_stream(config)),
                "beats": Out(1),
                "busy": Out(1),
                "blocked": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth = BURSTS_FETCHED_AHEAD * self.config.burst_bytes // self.config.instruction_bytes
        m.submodules.queue = queue = Queue(self.config.instruction_bits, depth)
        connect(m, queue.o, flipped(self.instruction))
        self._ask(m, depth)
        self._receive(m, queue)
        return m

    def _ask(self, m: Module, depth: int) -> None:
        """Offer bursts while the queue has room for everything that was requested."""
        size = self.config.instruction_bytes
        address, remaining = Signal(self.config.address_bits), Signal(32 + exact_log2(size))
        m.submodules.cutter = cutter = BurstCutter(self.config, len(remaining))
        promised, outstanding = Signal(range(depth + 1)), Signal(range(depth * size + 1))
        asked = cutter.size >> exact_log2(size)
        accepted = self.request.valid & self.request.ready
        leaves = self.instruction.valid & self.instruction.ready
        m.d.comb += [
            cutter.address.eq(address),
            cutter.remaining.eq(remaining),
            self.request.valid.eq((remaining != 0) & (promised + asked <= depth) & ~self.stop),
            self.request.payload.address.eq(cutter.first_beat),
            self.request.payload.beats.eq(cutter.beats),
            self.busy.eq(outstanding != 0),
            self.blocked.eq(~self.busy & ~self.request.valid),
        ]
        with m.If(accepted):
            m.d.sync += [address.eq(address + cutter.size), remaining.eq(remaining - cutter.size)]
        m.d.sync += [
            promised.eq(promised + Mux(accepted, asked, 0) - leaves),
            outstanding.eq(outstanding + Mux(accepted, cutter.beats, 0) - self.beats),
        ]
        with m.If(self.begin):
            m.d.sync += [address.eq(self.address), remaining.eq(self.count << exact_log2(size))]

    def _receive(self, m: Module, queue: Queue) -> None:
        """Assemble instructions: several beats per instruction, or several instructions per beat."""
        expected = Signal(32)
        moves = Signal()
        m.d.comb += [
            self.beats.eq(self.read_data.valid & self.read_data.ready),
            queue.i.valid.eq(moves & ~self.stop),
        ]
        with m.If(moves):
            m.d.sync += expected.eq(expected - 1)
        with m.If(self.begin):
            m.d.sync += expected.eq(self.count)
        if self.config.bus_bits < self.config.instruction_bits:
            self._gather(m, queue, moves)
        else:
            self._pick(m, queue, moves, expected)

    def _gather(self, m: Module, queue: Queue, moves: Value) -> None:
        parts = self.config.instruction_bits // self.config.bus_bits
        held = Signal(self.config.instruction_bits - self.config.bus_bits)
        part = Signal(range(parts))
        m.d.comb += [
            self.read_data.ready.eq(1),
            moves.eq(self.read_data.valid & (part == parts - 1)),
            queue.i.payload.eq(Cat(held, self.read_data.payload)),
        ]
        with m.If(self.read_data.valid):
            m.d.sync += [
                part.eq(part + 1),
                held.eq(Cat(held, self.read_data.payload) >> self.config.bus_bits),
            ]

    def _pick(self, m: Module, queue: Queue, moves: Value, expected: Value) -> None:
        lanes = self.config.bus_bits // self.config.instruction_bits
        lane = Signal(exact_log2(lanes))
        ends = (lane == lanes - 1) | (expected == 1)
        m.d.comb += [
            self.read_data.ready.eq(ends | self.stop),
            moves.eq(self.read_data.valid),
            queue.i.payload.eq(self.read_data.payload.word_select(lane, self.config.instruction_bits)),
        ]
        with m.If(moves):
            m.d.sync += lane.eq(lane + 1)
        with m.If(self.begin):
            m.d.sync += lane.eq(self.address >> exact_log2(self.config.instruction_bytes))
