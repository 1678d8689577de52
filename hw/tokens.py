"""Dependency-token counters, one per edge between units."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from vdla.hw.queue import counted
from vdla.hw.signatures import token_sink, token_source


class TokenCounter(wiring.Component):
    """Count the tokens of one edge; lose none.

    Parameters:
        depth: tokens it can hold, at least 1.

    Members:
        sink: the pushing unit's side.
        source: the popping unit's side.

    Timing: `available` rises in the cycle after a push; `room` falls in the cycle after the reservation that
    takes the last place, and rises in the cycle after a pop. Both are registers.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        super().__init__({"sink": In(token_sink()), "source": In(token_source())})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        push, reserve, pop = self.sink.push, self.sink.reserve, self.source.pop
        count = Signal(range(self.depth + 1))
        pledged = Signal(range(self.depth + 1))  # tokens held and places reserved
        available, room = Signal(), Signal(init=1)
        m.d.comb += [self.source.available.eq(available), self.sink.room.eq(room)]
        with m.If(push ^ pop):
            m.d.sync += [
                count.eq(counted(count, push)),
                available.eq(push | (count != 1)),
            ]
        with m.If(reserve ^ pop):
            m.d.sync += [
                pledged.eq(counted(pledged, reserve)),
                room.eq(pop | (pledged != self.depth - 1)),
            ]
        return m
