"""What the queue promises."""

from amaranth.hdl import Module

from vdla.hw.formal.proof import Proof, is_taken
from vdla.hw.queue import Queue


class QueueProof(Proof):
    """A queue keeps every item, once and in order, and its flags tell how many it holds.

    Parameters:
        depth: items that the queue holds.
        bits: of an item. The queue only moves items, so that few bits stand for any number.
    """

    def __init__(self, depth: int, bits: int = 2, only: str | None = None) -> None:
        super().__init__(only)
        self.depth, self.bits = depth, bits

    def build(self, m: Module) -> None:
        m.submodules.queue = queue = Queue(self.bits, self.depth)
        m.d.comb += [
            queue.i.valid.eq(self.free("valid")),
            queue.i.payload.eq(self.free("payload", self.bits)),
        ]
        self.sink(m, "output", queue.o)
        entrance = is_taken(queue.i), queue.i.payload
        way_out = queue.o.valid, is_taken(queue.o), queue.o.payload
        held = self.in_order(m, "items", entrance, way_out, self.depth)
        self.claims |= {
            "level: items held": queue.level == held,
            "ready: unless full": queue.i.ready == (held != self.depth),
            "valid: unless empty": queue.o.valid == (held != 0),
        }
