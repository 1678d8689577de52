"""The DMA: four clients share one memory port."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vdla.hw.queue import Queue
from vdla.hw.signatures import memory_port, read_stream, request_layout, request_stream, write_stream
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.timing import ARRIVED_BEATS, Client

PRIORITY = tuple(client.name.lower() for client in Client)
READERS = tuple(client.name.lower() for client in Client if client.reads)


class Dma(wiring.Component):
    """Merge requests by fixed priority, and return read data in order.

    Parameters:
        config: the accelerator; `max_requests` bounds the reads in flight.

    Members:
        fetch_request, compute_request, store_request, load_request: clients, highest priority first.
        fetch_data, compute_data, load_data: beats read for them.
        store_data: beats to write.
        memory: the memory port.
        write_done, error: from memory.

    Timing: takes one request per cycle into the output register, in a cycle in which the register is empty or
    memory accepts its contents. Offers the request from the next cycle on. Passes over readers while
    `max_requests` reads are in flight (taken, last beat not yet arrived). Read beats pass a queue of two: a
    beat that memory hands over in cycle t is offered to its client from t + 1 on. Write beats pass
    combinationally.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                **{f"{client}_request": In(request_stream(config)) for client in PRIORITY},
                **{f"{client}_data": Out(read_stream(config)) for client in READERS},
                "store_data": In(write_stream(config)),
                "memory": Out(memory_port(config)),
                "write_done": Out(1),
                "error": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        beats = request_layout(self.config)["beats"].shape
        tag = data.StructLayout({"client": range(len(READERS)), "beats": beats})
        m.submodules.reads = reads = Queue(tag, self.config.max_requests)
        self._take(m, reads)
        self._deliver(m, reads)
        connect(m, flipped(self.store_data), flipped(self.memory.write_data))
        m.d.comb += [self.write_done.eq(self.memory.write_done), self.error.eq(self.memory.error)]
        return m

    def _take(self, m: Module, reads: Queue) -> None:
        """Choose a request and take it into the output register."""
        offered = self.memory.request
        free = Signal()
        m.d.comb += free.eq(~offered.valid | offered.ready)
        with m.If(free):
            m.d.sync += offered.valid.eq(0)
        taken = 0
        for client in PRIORITY:
            request = getattr(self, f"{client}_request")
            may = reads.i.ready if client in READERS else 1
            chosen = Signal(name=f"{client}_chosen")
            m.d.comb += [chosen.eq(request.valid & may & ~taken), request.ready.eq(chosen & free)]
            taken = taken | chosen
            with m.If(chosen & free):
                m.d.sync += [offered.valid.eq(1), offered.payload.eq(request.payload)]
                if client in READERS:
                    m.d.comb += [
                        reads.i.valid.eq(1),
                        reads.i.payload.client.eq(READERS.index(client)),
                        reads.i.payload.beats.eq(request.payload.beats),
                    ]

    def _deliver(self, m: Module, reads: Queue) -> None:
        """Pass read beats on, each to the client whose request was oldest when it arrived."""
        arrival = data.StructLayout({"data": self.config.bus_bits, "client": range(len(READERS))})
        m.submodules.arrived = arrived = Queue(arrival, ARRIVED_BEATS)
        count = Signal.like(reads.o.payload.beats, init=1)
        last, moves = count == reads.o.payload.beats, arrived.i.valid & arrived.i.ready
        m.d.comb += [
            arrived.i.valid.eq(self.memory.read_data.valid),
            self.memory.read_data.ready.eq(arrived.i.ready),
            arrived.i.payload.data.eq(self.memory.read_data.payload),
            arrived.i.payload.client.eq(reads.o.payload.client),
            reads.o.ready.eq(moves & last),
        ]
        with m.If(moves):
            m.d.sync += count.eq(Mux(last, 1, count + 1))
        for index, client in enumerate(READERS):
            out, mine = getattr(self, f"{client}_data"), arrived.o.payload.client == index
            m.d.comb += [
                out.payload.eq(arrived.o.payload.data),
                out.valid.eq(arrived.o.valid & mine),
            ]
            with m.If(mine):
                m.d.comb += arrived.o.ready.eq(out.ready)
