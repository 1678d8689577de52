"""The queue between components."""

from amaranth.hdl import Cat, Const, Module, Mux, Shape, ShapeLike, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from vdla.hw.scratchpad import COLLISIONS_ARE_FREE

ONE_LUT_RAM = 16
"""Words of one LUT RAM. A queue that fits is read from there directly; its words need not be chosen among."""

LUT_RAM_WORDS = 32
"""A deeper queue with at most as many words behind its output register keeps them in LUT RAM, others in block
RAM."""


class Queue(wiring.Component):
    """First-word fall-through FIFO queue.

    Parameters:
        shape: of an item.
        depth: items it holds, at least 1.

    Members:
        i, o: the stream in and out.
        level: items held.

    Timing: an item taken in cycle t is offered from t + 1 on; one item in and one out per cycle. `i.ready` is
    low exactly while `depth` items are held. `i.ready` and `o.valid` are registers.

    `o.payload` is a register in queues of 1 or 2 items and in queues deeper than ONE_LUT_RAM. There, the
    oldest item stands in the output register, and the others in a memory behind it. An item enters the
    register directly while the memory is empty. Queues of other depths offer a word of LUT RAM, at an address
    from a register.
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
        if is_one_lut_ram(self.depth):
            self._build_in_lut_ram(m)
        else:
            self._build_with_register(m)
        return m

    def _build_in_lut_ram(self, m: Module) -> None:
        """Offer the oldest word of a LUT RAM."""
        enters, leaves = self.i.valid & self.i.ready, self.o.valid & self.o.ready
        ready = Signal(init=1)
        m.submodules.memory = memory = Memory(
            shape=unsigned(self._bits), depth=self.depth, init=[], attrs=COLLISIONS_ARE_FREE
        )
        head, tail = Signal(range(self.depth)), Signal(range(self.depth))
        write, read = memory.write_port(), memory.read_port(domain="comb")
        m.d.comb += [
            self.i.ready.eq(ready),
            _bits(self.o.payload).eq(read.data),
            *(write.addr.eq(tail), write.data.eq(_bits(self.i.payload)), write.en.eq(enters)),
            read.addr.eq(head),
        ]
        with m.If(enters):
            m.d.sync += tail.eq(_after(tail, self.depth))
        with m.If(leaves):
            m.d.sync += head.eq(_after(head, self.depth))
        with m.If(enters ^ leaves):
            m.d.sync += [
                self.level.eq(counted(self.level, enters)),
                ready.eq(~enters | (self.level != self.depth - 1)),
                self.o.valid.eq(enters | (self.level != 1)),
            ]

    def _build_with_register(self, m: Module) -> None:
        """Offer what stands in the output register, in front of a memory."""
        ready, more = Signal(init=1), Signal()  # more: the memory holds items
        enters, leaves = self.i.valid & ready, self.o.valid & self.o.ready
        follows = leaves & more
        stored = enters & self.o.valid & (~leaves | more)
        moves = enters ^ leaves
        m.d.comb += self.i.ready.eq(ready)
        m.d.sync += self.o.valid.eq(enters | more | (self.o.valid & ~leaves))
        with m.If(moves):
            m.d.sync += [
                self.level.eq(counted(self.level, enters)),
                ready.eq(~enters | (self.level != self.depth - 1)),
                more.eq(Mux(enters, self.o.valid, more & (self.level != 2))),
            ]
        payload = _bits(self.i.payload)
        behind = self._memory(m, stored, follows, follows & (self.level == 2) | ~more)
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += _bits(self.o.payload).eq(Mux(more, behind, payload))

    def _memory(self, m: Module, stored: Value, follows: Value, empties: Value) -> Value:
        """Add the memory behind the output register; return its oldest item.

        `stored`: the input is written. `follows`: the oldest item leaves. `empties`: without the input, no
        item is there in the next cycle.
        """
        words, payload = self.depth - 1, _bits(self.i.payload)
        if not words:
            return Const(0, self._bits)
        if words == 1:
            only = Signal(self._bits, reset_less=True)
            with m.If(stored):
                m.d.sync += only.eq(payload)
            return only
        m.submodules.memory = memory = Memory(
            shape=unsigned(self._bits), depth=words, init=[], attrs=COLLISIONS_ARE_FREE
        )
        head, tail = Signal(range(words)), Signal(range(words))
        write, following = memory.write_port(), Mux(follows, _after(head, words), head)
        m.d.comb += [write.addr.eq(tail), write.data.eq(payload), write.en.eq(stored)]
        m.d.sync += head.eq(following)
        with m.If(stored):
            m.d.sync += tail.eq(_after(tail, words))
        if words <= LUT_RAM_WORDS:
            read = memory.read_port(domain="comb")
            m.d.comb += read.addr.eq(head)
            return read.data
        read = memory.read_port()
        newest, is_newest = Signal(self._bits, reset_less=True), Signal()
        m.d.comb += [read.addr.eq(following), read.en.eq(1)]
        m.d.sync += [newest.eq(payload), is_newest.eq(stored & empties)]
        return Mux(is_newest, newest, read.data)


def is_one_lut_ram(depth: int) -> bool:
    """Return whether a queue so deep is one LUT RAM, without an output register."""
    return 2 < depth <= ONE_LUT_RAM


def counted(count: Signal, up: Value) -> Value:
    """Return `count` one up, or one down; one adder."""
    return count + Cat(Const(1, 1), (~up).replicate(len(count) - 1))


def _after(pointer: Value, words: int) -> Value:
    return Mux(pointer == words - 1, 0, pointer + 1)


def _bits(payload: Value) -> Value:
    return payload if isinstance(payload, Signal) else payload.as_value()
