"""What the DMA promises."""

from functools import reduce
from itertools import pairwise
from operator import add, or_

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib.wiring import PureInterface

from vdla.hw.dma import PRIORITY, READERS, Dma
from vdla.hw.formal.proof import ConfiguredProof, implies, is_taken


class DmaProof(ConfiguredProof):
    """The DMA takes requests by priority, offers each once, and returns each beat to the client that asked.

    Any beat of any read may be watched: it is chosen by free inputs when the request is taken. The proof
    counts the beats ahead of it: first the beats that memory still owes, then the beats that have arrived and
    were not delivered. The watched beat must reach its client, unchanged and in its turn.

    Memory promises read beats only for reads that it has accepted. Clients promise bursts of at least one
    beat, and write bursts only of the store unit.

    Parameters:
        config: the accelerator.
    """

    def build(self, m: Module) -> None:
        m.submodules.dma = dma = Dma(self.config)
        for client in PRIORITY:
            request = getattr(dma, f"{client}_request")
            self.source(m, client, request)
            self.assumptions |= {
                f"{client}: bursts have beats": implies(
                    request.valid,
                    (request.payload.beats > 0) & (request.payload.beats <= self.config.burst_beats),
                ),
                f"{client}: reads or writes": implies(
                    request.valid, request.payload.write == (client not in READERS)
                ),
            }
        self.sink(m, "memory_request", dma.memory.request)
        taken = {client: is_taken(getattr(dma, f"{client}_request")) for client in PRIORITY}
        flying = self._memory(m, dma, taken)
        self._arbitrate(m, dma, taken, flying)
        self._watch(m, dma, taken)

    def _memory(self, m: Module, dma: Dma, taken: dict[str, Value]) -> Signal:
        """Let memory answer the reads that it has accepted; return the reads in flight."""
        self.source(m, "read", dma.memory.read_data)
        most = self.config.burst_beats * (self.config.max_requests + 1)
        owed = Signal(range(most + 1))
        request, arrives = dma.memory.request, is_taken(dma.memory.read_data)
        asked = Mux(is_taken(request) & ~request.payload.write, request.payload.beats, 0)
        m.d.sync += owed.eq(owed + asked - arrives)
        self.assumptions["memory: read beats only for accepted reads"] = implies(
            dma.memory.read_data.valid, owed > 0
        )
        flying = Signal(range(self.config.max_requests + 2))
        reads = reduce(or_, (taken[client] for client in READERS))
        m.d.sync += flying.eq(flying + reads - self._last_arrives(m, dma, taken))
        return flying

    def _last_arrives(self, m: Module, dma: Dma, taken: dict[str, Value]) -> Value:
        """Return whether the last beat of the oldest read arrives, by a list of the beats of all reads."""
        size = self.config.max_requests + 1
        beats = [Signal.like(dma.memory.request.payload.beats, name=f"beats_{i}") for i in range(size)]
        count, position = Signal(range(size + 1)), Signal.like(beats[0])
        arrives = is_taken(dma.memory.read_data)
        last = arrives & (position + 1 == beats[0])
        place = Signal.like(count)
        m.d.comb += place.eq(count - last)
        m.d.sync += position.eq(Mux(last, 0, position + arrives))
        with m.If(last):
            m.d.sync += [one.eq(behind) for one, behind in pairwise(beats)]
        m.d.sync += count.eq(place)
        for client in READERS:
            with m.If(taken[client]):
                m.d.sync += count.eq(place + 1)
                for index, one in enumerate(beats):
                    with m.If(place == index):
                        m.d.sync += one.eq(getattr(dma, f"{client}_request").payload.beats)
        return last

    def _arbitrate(self, m: Module, dma: Dma, taken: dict[str, Value], flying: Signal) -> None:
        """Claim that the request of the first client that may go is taken, and offered next."""
        self.claims |= {
            "at most max_requests reads in flight": flying <= self.config.max_requests,
            "one request per cycle": reduce(add, taken.values()) <= 1,
        }
        free, before = ~dma.memory.request.valid | dma.memory.request.ready, Value.cast(0)
        offers, expected = Signal(), Signal(dma.memory.request.payload.shape().size)
        m.d.sync += offers.eq(reduce(or_, taken.values()))
        for client in PRIORITY:
            request = getattr(dma, f"{client}_request")
            may = (flying < self.config.max_requests) if client in READERS else Value.cast(1)
            self.claims[f"{client}: taken in its turn"] = taken[client] == (
                request.valid & may & free & ~before
            )
            before = before | (request.valid & may)
            with m.If(taken[client]):
                m.d.sync += expected.eq(request.payload)
        waits = Signal()
        m.d.sync += waits.eq(dma.memory.request.valid & ~dma.memory.request.ready)
        self.claims |= {
            "memory is offered what was taken, once": dma.memory.request.valid == (offers | waits),
            "a request is offered unchanged": implies(
                offers, Value.cast(dma.memory.request.payload) == expected
            ),
        }

    def _watch(self, m: Module, dma: Dma, taken: dict[str, Value]) -> None:
        """Claim that a watched beat reaches its client in its turn."""
        arrives = is_taken(dma.memory.read_data)
        outputs = {client: getattr(dma, f"{client}_data") for client in READERS}
        for client, output in outputs.items():
            self.sink(m, f"{client}_data", output)
        delivered = reduce(or_, map(is_taken, outputs.values()))
        most = self.config.burst_beats * (self.config.max_requests + 1)
        due, stored = Signal(range(most + 1)), Signal(range(most + 1))
        requested = sum(
            (Mux(taken[client], getattr(dma, f"{client}_request").payload.beats, 0) for client in READERS),
            start=Value.cast(0),
        )
        m.d.sync += [due.eq(due + requested - arrives), stored.eq(stored + arrives - delivered)]
        watches, came, ahead = Signal(), Signal(), Signal(range(most + 1))
        reader, item = Signal(len(READERS)), Signal(len(dma.memory.read_data.payload))
        chosen, beat = self.free("watch"), self.free("beat", len(due))
        for index, client in enumerate(READERS):
            request: PureInterface = getattr(dma, f"{client}_request")
            with m.If(taken[client] & chosen & ~watches & (beat < request.payload.beats)):
                m.d.sync += [watches.eq(1), came.eq(0), ahead.eq(due - arrives + beat), reader.eq(1 << index)]
        with m.If(watches & ~came & arrives):
            m.d.sync += ahead.eq(ahead - 1)
            with m.If(ahead == 0):
                m.d.sync += [came.eq(1), ahead.eq(stored - delivered), item.eq(dma.memory.read_data.payload)]
        with m.If(watches & came & delivered):
            m.d.sync += [ahead.eq(ahead - 1), watches.eq(ahead != 0)]
        oldest = watches & came & (ahead == 0)
        for index, client in enumerate(READERS):
            mine = oldest & reader[index]
            self.claims[f"{client}: gets its beats in turn"] = implies(oldest, outputs[client].valid == mine)
            self.claims[f"{client}: beats are unchanged"] = implies(mine, outputs[client].payload == item)
