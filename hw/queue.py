"""The queue between components."""

from amaranth.hdl import Module, Mux, Shape, ShapeLike, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out


class Queue(wiring.Component):
    """First-word fall-through FIFO queue.

    Parameters:
        shape: of an item.
        depth: items it holds, at least 1.

    Members:
        i, o: the stream in and out.
        level: items held.

    Timing: an item taken in cycle t is offered from t + 1 on; one item in and one out per cycle. `i.ready` is
    low exactly while `depth` items are held. Both handshakes come from registers. Maps to block RAM: the read
    port is synchronous, addressed with the next head and transparent for the write.
    """

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        self.depth = depth
        self._bits = Shape.cast(shape).width
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=unsigned(self._bits), depth=self.depth, init=[])
        write = memory.write_port()
        read = memory.read_port(transparent_for=(write,))
        head, tail = Signal(range(self.depth)), Signal(range(self.depth))
        enters, leaves = self.i.valid & self.i.ready, self.o.valid & self.o.ready
        following = Signal.like(head)
        m.d.comb += [
            self.i.ready.eq(self.level != self.depth),
            self.o.valid.eq(self.level != 0),
            _bits(self.o.payload).eq(read.data),
            following.eq(Mux(leaves, self._after(head), head)),
            write.addr.eq(tail),
            write.data.eq(self.i.payload),
            write.en.eq(enters),
            read.addr.eq(following),
            read.en.eq(1),
        ]
        m.d.sync += [head.eq(following), self.level.eq(self.level + enters - leaves)]
        with m.If(enters):
            m.d.sync += tail.eq(self._after(tail))
        return m

    def _after(self, pointer: Value) -> Value:
        return Mux(pointer == self.depth - 1, 0, pointer + 1)


def _bits(payload: Value) -> Value:
    return payload if isinstance(payload, Signal) else payload.as_value()
