"""Event counters that share one adder and one memory of totals."""

from amaranth.hdl import Array, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from vdla.hw.scratchpad import COLLISIONS_ARE_FREE

INDEX_BITS = 5
COUNT_BITS = 5
ROUND = 2**COUNT_BITS - 1
"""Cycles of a round of visits: as many as a small counter has states."""


class Counters(wiring.Component):
    """Count events in 32 bits each; one total at a time is updated.

    Parameters:
        count: the events; at most 27.
        first: index of the first event's counter; the others follow, modulo 32.

    Members:
        clear: zero all counts; the events of this cycle do not count.
        events: a bit per event, which counts the cycles in which it is high.
        index: the counter to read. Where there is none, `total` has no meaning.
        total: its value.

    Timing: if `index` is held in the cycles t to t + 7, `total` in t + 10 counts the events up to one of the
    cycles t + 1 to t + 8. `total` is a register, and inputs lead through a few gates into registers.

    A small counter for each event holds what came since its last visit. One counter is visited in each cycle;
    a round visits each of them, and every eighth cycle the counter at `index`. A visit adds the small counter
    to the total and clears it. Small counters are shift registers with feedback: a gate counts, and only
    the visited counter is decoded. The first visit after `clear` overwrites the `stale` total.
    """

    def __init__(self, count: int, first: int) -> None:
        self.first = first
        super().__init__({"clear": In(1), "events": In(count), "index": In(INDEX_BITS), "total": Out(32)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        turn, asks = self._turns(m)
        visited, answers = Signal(INDEX_BITS), Signal()
        m.d.sync += [visited.eq(Mux(asks, self.index, turn)), answers.eq(asks)]
        recent, stale = self._take(m, visited)
        self._add(m, visited, recent, stale, answers)
        return m

    def _turns(self, m: Module) -> tuple[Value, Value]:
        """Return the counter whose turn it is, or that it is the turn of the counter at `index`.

        Indices without a counter stand for the turns of the latter.
        """
        counters = [(self.first + event) % 2**INDEX_BITS for event in range(len(self.events))]
        others = [index for index in range(2**INDEX_BITS) if index not in counters]
        asked = ROUND - len(counters)
        turns = [(others if asked * place % ROUND < asked else counters).pop() for place in range(ROUND)]
        turn, asks = Signal(INDEX_BITS, init=turns[0]), Signal(init=1)
        with m.Switch(turn):
            for place, index in enumerate(turns):
                following = (place + 1) % ROUND
                with m.Case(index):
                    m.d.sync += [turn.eq(turns[following]), asks.eq(asked * following % ROUND < asked)]
        return turn, asks

    def _take(self, m: Module, visited: Value) -> tuple[Value, Value]:
        """Take the small counter of `visited` and clear it; return registers: what it counted, including
        this cycle, and whether the total is stale."""
        states: list[Value] = [Const(0, COUNT_BITS)] * 2**INDEX_BITS
        happens: list[Value] = [Const(0, 1)] * 2**INDEX_BITS
        old: list[Value] = [Const(0, 1)] * 2**INDEX_BITS
        for event, happened in enumerate(self.events):
            index = (self.first + event) % 2**INDEX_BITS
            state, stale = Signal(COUNT_BITS, name=f"recent_{event}"), Signal(init=1, name=f"stale_{event}")
            with m.If(self.clear | (visited == index)):
                m.d.sync += state.eq(0)
            with m.Elif(happened):
                m.d.sync += state.eq(_counted(state))
            with m.If(self.clear):
                m.d.sync += stale.eq(1)
            with m.Elif(visited == index):
                m.d.sync += stale.eq(0)
            states[index], happens[index], old[index] = state, happened, stale
        taken, extra, overwrites = Signal(COUNT_BITS), Signal(), Signal()
        m.d.sync += [
            taken.eq(Array(states)[visited]),
            extra.eq(Array(happens)[visited] & ~self.clear),
            overwrites.eq(Array(old)[visited]),
        ]
        return _count_of(m, taken) + extra, overwrites

    def _add(self, m: Module, visited: Value, recent: Value, stale: Value, answers: Value) -> None:
        """Add `recent` to the total of the counter that was visited in the cycle before; show it if the visit
        `answers`."""
        m.submodules.totals = totals = Memory(
            shape=unsigned(32), depth=2**INDEX_BITS, init=[], attrs=COLLISIONS_ARE_FREE
        )
        read, write = totals.read_port(domain="comb"), totals.write_port()
        index, answered = Signal(INDEX_BITS), Signal()
        m.d.sync += [index.eq(visited), answered.eq(answers)]
        m.d.comb += [
            read.addr.eq(index),
            write.addr.eq(index),
            write.en.eq(1),
            write.data.eq(Mux(stale, 0, read.data) + recent),
        ]
        with m.If(answered):
            m.d.sync += self.total.eq(write.data)


def _counted(state: Value) -> Value:
    """Return the state of a small counter after `state`; the 31 states are all but the state of all ones."""
    return state.shift_left(1)[:COUNT_BITS] | ~(state[4] ^ state[2])


def _count_of(m: Module, state: Value) -> Signal:
    """Return how many events bring a small counter from 0 to `state`."""
    count, passed = Signal(COUNT_BITS), 0
    with m.Switch(state):
        for events in range(ROUND):
            with m.Case(passed):
                m.d.comb += count.eq(events)
            passed = passed << 1 & 2**COUNT_BITS - 1 | ~(passed >> 4 ^ passed >> 2) & 1
    return count
