"""Fetch: reads the instruction stream ahead of dispatch."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from vdla.hw.bursts import RowCutter
from vdla.hw.classify import Classifier
from vdla.hw.queue import Queue
from vdla.hw.signatures import fetched_stream, read_stream, request_stream
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
        instruction: the stream, in order; each with its kind.
        beats: a read beat is taken.
        busy: a read is outstanding.
        blocked: no read is outstanding and no request is offered.

    Timing: the first request is offered two cycles after `begin`, then one per accepted request while the
    queue has room for a burst as long as can be. `stop` withdraws it at once. An instruction is offered in
    the cycle after its last beat arrives; a beat that holds several gives one per cycle. Requests and
    instructions come from registers.
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
                "instruction": Out(fetched_stream(config)),
                "beats": Out(1),
                "busy": Out(1),
                "blocked": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth = BURSTS_FETCHED_AHEAD * self.config.burst_bytes // self.config.instruction_bytes
        m.submodules.queue = queue = Queue(self.instruction.payload.shape(), depth)
        m.submodules.classifier = classifier = Classifier(self.config)
        connect(m, queue.o, flipped(self.instruction))
        m.d.comb += [
            queue.i.payload.word.eq(classifier.word),
            queue.i.payload.kind.eq(classifier.kind),
        ]
        self._ask(m)
        self._receive(m, queue, classifier.word)
        return m

    def _ask(self, m: Module) -> None:
        """Offer bursts while the queue has room for one more."""
        per_burst = self.config.burst_bytes // self.config.instruction_bytes
        asked, offered = Signal(range(per_burst + 1)), Signal()
        # Instructions asked for and not yet dispatched; it starts so that a bit tells whether the queue lacks
        # room for a burst.
        promised = Signal(range(2 * BURSTS_FETCHED_AHEAD * per_burst), init=per_burst - 1)
        outstanding = Signal(range(BURSTS_FETCHED_AHEAD * self.config.burst_beats + 1))
        accepted, leaves = Signal(), self.instruction.valid & self.instruction.ready
        m.d.comb += [
            self.request.valid.eq(
                offered & ~promised[exact_log2(BURSTS_FETCHED_AHEAD * per_burst)] & ~self.stop
            ),
            accepted.eq(self.request.valid & self.request.ready),
            self.busy.eq(outstanding != 0),
            self.blocked.eq(~self.busy & ~self.request.valid),
        ]
        m.d.sync += [
            promised.eq(promised + Mux(accepted, asked, 0) - leaves),
            outstanding.eq(outstanding + Mux(accepted, self.request.payload.beats, 0) - self.beats),
        ]
        self._cut(m, asked, offered, accepted)

    def _cut(self, m: Module, asked: Signal, offered: Signal, accepted: Signal) -> None:
        """Keep the next burst in the request register; `asked`: its instructions; `offered`: it is there."""
        item_bits = exact_log2(self.config.instruction_bytes)
        low_bits = exact_log2(self.config.burst_bytes) - item_bits
        item, last, active = Signal(self.config.address_bits - item_bits), Signal(32), Signal()
        m.submodules.cutter = cutter = RowCutter(self.config, 32 + item_bits)
        low, moves = item[:low_bits], Signal()
        final = Mux(cutter.ends, cutter.rest[item_bits : item_bits + low_bits], -1)
        address = Cat(Const(0, item_bits), item)
        m.d.comb += [
            cutter.offset.eq(address),
            cutter.last.eq(Cat(Const(self.config.instruction_bytes - 1, item_bits), last)),
            moves.eq(active & (~offered | accepted)),
        ]
        with m.If(~offered | accepted):
            m.d.sync += [
                offered.eq(active),
                asked.eq(final[:low_bits] - low + 1 if low_bits else 1),
                self.request.payload.address.eq(
                    address & -self.config.bus_bytes,
                ),
                self.request.payload.beats.eq(cutter.beats),
            ]
        with m.If(moves):
            m.d.sync += [
                active.eq(~cutter.ends),
                last.eq(cutter.rest >> item_bits),
                item.eq(Cat(Const(0, low_bits), item[low_bits:] + 1)),
            ]
        with m.If(self.begin):
            m.d.sync += [
                active.eq(self.count.any()),
                last.eq(self.count - 1),
                item.eq(self.address >> item_bits),
            ]

    def _receive(self, m: Module, queue: Queue, word: Signal) -> None:
        """Assemble instructions: several beats per instruction, or several instructions per beat."""
        moves = Signal()
        m.d.comb += [
            self.beats.eq(self.read_data.valid & self.read_data.ready),
            queue.i.valid.eq(moves & ~self.stop),
        ]
        if self.config.bus_bits < self.config.instruction_bits:
            self._gather(m, word, moves)
        else:
            self._pick(m, word, moves)

    def _gather(self, m: Module, word: Signal, moves: Signal) -> None:
        parts = self.config.instruction_bits // self.config.bus_bits
        held = Signal(self.config.instruction_bits - self.config.bus_bits)
        part = Signal(range(parts))
        m.d.comb += [
            self.read_data.ready.eq(1),
            moves.eq(self.read_data.valid & (part == parts - 1)),
            word.eq(Cat(held, self.read_data.payload)),
        ]
        with m.If(self.read_data.valid):
            m.d.sync += [
                part.eq(part + 1),
                held.eq(Cat(held, self.read_data.payload) >> self.config.bus_bits),
            ]

    def _pick(self, m: Module, word: Signal, moves: Signal) -> None:
        lanes = self.config.bus_bits // self.config.instruction_bits
        lane, expected, final = Signal(exact_log2(lanes)), Signal(32), Signal()
        m.d.comb += [
            self.read_data.ready.eq((lane == lanes - 1) | final | self.stop),
            moves.eq(self.read_data.valid),
            word.eq(self.read_data.payload.word_select(lane, self.config.instruction_bits)),
        ]
        with m.If(moves):
            m.d.sync += [lane.eq(lane + 1), expected.eq(expected - 1), final.eq(expected == 2)]
        with m.If(self.begin):
            m.d.sync += [
                lane.eq(self.address >> exact_log2(self.config.instruction_bytes)),
                expected.eq(self.count),
                final.eq(self.count == 1),
            ]
