"""What keeps addresses that a narrow memory bus does not have from reaching it."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.queue import Queue
from vdla.hw.signatures import memory_port, request_layout
from vdla.hw.spec.config import AcceleratorConfig

WRITES_IN_PROGRESS = 4


class AddressGuard(wiring.Component):
    """Answer bursts beyond the bus's addresses as reads of zeros and writes without effect.

    Parameters:
        config: the accelerator; its `axi_address_width` is less than its `address_bits`.

    Members:
        core: the core's side.
        bus: the side of the bus. It gets every burst within reach, and nothing of the others.

    Timing: requests and beats pass in the cycle in which they are offered, except that a write beat passes no
    earlier than the cycle after its request was taken. `core.error` also pulses in the cycle in which a
    request beyond reach is taken. Such a read delivers its zeros after the beats of the reads before it, one
    per cycle. Such a write takes one beat per cycle. Its `write_done` pulses in the cycle after its last
    beat, or later while the bus reports earlier writes. At most `max_requests` reads and 4 writes are in
    progress.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__({"core": In(memory_port(config)), "bus": Out(memory_port(config))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request = self.core.request
        beats = request_layout(self.config)["beats"].shape
        m.submodules.reads = reads = Queue(
            data.StructLayout({"beyond": 1, "beats": beats}), self.config.max_requests
        )
        m.submodules.writes = writes = Queue(1, WRITES_IN_PROGRESS)
        room, beyond = Signal(), Signal()
        m.d.comb += [
            room.eq(Mux(request.payload.write, writes.i.ready, reads.i.ready)),
            beyond.eq(request.payload.address[self.config.axi_address_width :].any()),
            self.bus.request.payload.eq(request.payload),
            self.bus.request.valid.eq(request.valid & room & ~beyond),
            request.ready.eq(room & (beyond | self.bus.request.ready)),
            reads.i.valid.eq(request.valid & request.ready & ~request.payload.write),
            reads.i.payload.beyond.eq(beyond),
            reads.i.payload.beats.eq(request.payload.beats),
            writes.i.valid.eq(request.valid & request.ready & request.payload.write),
            writes.i.payload.eq(beyond),
            self.core.error.eq(self.bus.error | (request.valid & room & beyond)),
        ]
        self._read(m, reads)
        self._write(m, writes)
        return m

    def _read(self, m: Module, reads: Queue) -> None:
        """Deliver the beats of the oldest read."""
        to_core, from_bus, oldest = self.core.read_data, self.bus.read_data, reads.o.payload
        delivered = Signal.like(oldest.beats)
        m.d.comb += [
            to_core.valid.eq(reads.o.valid & (oldest.beyond | from_bus.valid)),
            to_core.payload.eq(Mux(oldest.beyond, 0, from_bus.payload)),
            from_bus.ready.eq(reads.o.valid & ~oldest.beyond & to_core.ready),
            reads.o.ready.eq(to_core.valid & to_core.ready & (delivered + 1 == oldest.beats)),
        ]
        with m.If(to_core.valid & to_core.ready):
            m.d.sync += delivered.eq(Mux(reads.o.ready, 0, delivered + 1))

    def _write(self, m: Module, writes: Queue) -> None:
        """Pass the beats of the oldest write, or drop them; report what was dropped when the bus does not
        report."""
        from_core, to_bus, dropping = self.core.write_data, self.bus.write_data, writes.o.payload
        owed = Signal()
        m.d.comb += [
            to_bus.payload.eq(from_core.payload),
            to_bus.valid.eq(writes.o.valid & ~dropping & from_core.valid),
            from_core.ready.eq(writes.o.valid & Mux(dropping, ~owed, to_bus.ready)),
            writes.o.ready.eq(from_core.valid & from_core.ready & from_core.payload.last),
            self.core.write_done.eq(self.bus.write_done | owed),
        ]
        with m.If(writes.o.ready & dropping):
            m.d.sync += owed.eq(1)
        with m.Elif(~self.bus.write_done):
            m.d.sync += owed.eq(0)
