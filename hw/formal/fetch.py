"""What fetch promises."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.utils import exact_log2

from vdla.hw.fetch import Fetch
from vdla.hw.formal.proof import Proof, implies, is_taken
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.timing import BURSTS_FETCHED_AHEAD

START_CYCLES = 4
"""Cycles from `begin`, or from a full queue, to the next request at the latest, and one more."""


class FetchProof(Proof):
    """Fetch asks for the bytes of the stream, once and in order, and delivers every instruction.

    A run begins once after each reset, at any time, with any address and count. The proof watches one
    instruction, whose number is a free input. As many instructions as its number says must be delivered
    before it, and it must hold the bytes that memory returned for it. Memory returns beats only for requests
    that it has accepted.

    Parameters:
        config: the accelerator.
        most: instructions of the longest stream.
        compared: bits of an instruction that are compared with the bits that memory returned; 0: all. Fetch
            moves instructions and derives nothing from their bits but their kind.
        ahead: bursts that are asked for ahead of dispatch.
    """

    def __init__(
        self,
        config: AcceleratorConfig,
        most: int,
        compared: int = 0,
        ahead: int = BURSTS_FETCHED_AHEAD,
        only: str | None = None,
    ) -> None:
        super().__init__(only)
        self.config, self.most, self.ahead = config, most, ahead
        self.bits = config.instruction_bits
        self.compared = compared or self.bits
        self.count_bits = most.bit_length()

    def build(self, m: Module) -> None:
        m.submodules.fetch = fetch = Fetch(self.config)
        began, begins = Signal(), self.free("begins")
        stop, stops = Signal(), self.free("stops")
        count = self.constant(m, "count", self.count_bits)
        address = self.constant(m, "address", self.config.address_bits)
        size = self.config.instruction_bytes
        m.d.comb += [
            fetch.begin.eq(begins & ~began),
            fetch.address.eq(address),
            fetch.count.eq(count),
            fetch.stop.eq(stops | stop),
        ]
        m.d.sync += [began.eq(began | begins), stop.eq(fetch.stop)]
        self.assumptions |= {
            "address: of an instruction": address[: exact_log2(size)] == 0,
            "the stream lies in the address space": Cat(address, 0) + self.most * size
            < 1 << self.config.address_bits,
            "count: at most the longest": count <= self.most,
            "stop: in a run": implies(fetch.stop, began),
        }
        self._request(m, fetch, address, count)
        self._receive(m, fetch, address, count)

    def _request(self, m: Module, fetch: Fetch, address: Value, count: Value) -> None:
        """Claim that bursts cover the stream in order, and stay offered unless fetch is stopped."""
        request, config = fetch.request, self.config
        m.d.comb += request.ready.eq(self.free("request_ready"))
        waits, kept = Signal(), Signal(request.payload.shape().size)
        m.d.sync += [waits.eq(request.valid & ~request.ready), kept.eq(request.payload)]
        covered = Signal(self.count_bits + 7)  # bytes from the start of the stream's first beat on
        start, bus = exact_log2(config.bus_bytes), config.bus_bytes
        first = address & -bus
        beats = request.payload.beats
        end = address + (count << exact_log2(config.instruction_bytes))
        with m.If(is_taken(request)):
            m.d.sync += covered.eq(covered + (beats << start))
        here = first + covered
        burst = exact_log2(config.burst_bytes)
        following = request.payload.address + (beats << start)
        last_byte = following - 1
        self.claims |= {
            "requests stay until ready": implies(waits & ~fetch.stop, request.valid),
            "requests are unchanged until ready": implies(
                waits & request.valid, Value.cast(request.payload) == kept
            ),
            "nothing is asked for after stop": ~(fetch.stop & request.valid),
            "requests are reads": implies(request.valid, ~request.payload.write),
            "requests follow each other": implies(request.valid, request.payload.address == here),
            "requests have beats": implies(request.valid, (beats > 0) & (beats <= config.burst_beats)),
            "requests end at multiples of burst_bytes": implies(
                request.valid, request.payload.address[burst:] == last_byte[burst : config.address_bits]
            ),
            "requests end with the stream": implies(request.valid, following < end + bus),
        }

    def _receive(self, m: Module, fetch: Fetch, address: Value, count: Value) -> None:
        """Let memory answer; claim that instructions are delivered in order, with their bytes."""
        self.source(m, "read", fetch.read_data)
        m.d.comb += fetch.instruction.ready.eq(self.free("instruction_ready"))
        word = fetch.instruction.payload.word[: self.compared]
        self.stays(m, "instruction", fetch.instruction.valid, fetch.instruction.ready, word)
        arrives = is_taken(fetch.read_data)
        owed, delivered = (
            Signal(range(self.ahead * self.config.burst_beats + 2)),
            Signal(self.count_bits + 1),
        )
        asked = Mux(is_taken(fetch.request), fetch.request.payload.beats, 0)
        m.d.sync += [owed.eq(owed + asked - arrives), delivered.eq(delivered + is_taken(fetch.instruction))]
        self.assumptions["memory: beats only for accepted requests"] = implies(
            fetch.read_data.valid, owed > 0
        )
        self.claims |= {
            "beats: a beat is taken": fetch.beats == arrives,
            "busy: a beat is outstanding": fetch.busy == (owed != 0),
            "blocked: nothing outstanding, nothing asked for": fetch.blocked
            == ((owed == 0) & ~fetch.request.valid),
            "at most BURSTS_FETCHED_AHEAD bursts outstanding": owed <= self.ahead * self.config.burst_beats,
            "no instruction beyond count": implies(fetch.instruction.valid, delivered < count),
        }
        number = self.constant(m, "number", self.count_bits)
        item, came = self._watched(m, fetch, address, number)
        mine = fetch.instruction.valid & (delivered == number)
        self.claims |= {
            "instructions have arrived": implies(mine, came),
            "instructions are in order, unchanged": implies(
                mine, (fetch.instruction.payload.word ^ item)[: self.compared] == 0
            ),
        }
        self._ends(m, fetch, count, delivered)

    def _watched(self, m: Module, fetch: Fetch, address: Value, number: Value) -> tuple[Value, Value]:
        """Return the bytes of the watched instruction that memory has offered, and whether that was all."""
        bus, size = self.config.bus_bytes, self.config.instruction_bytes
        data, beat_bits = fetch.read_data, exact_log2(bus)
        arrived, came, item = Signal(self.count_bits + 2), Signal(), Signal(self.bits)
        m.d.sync += arrived.eq(arrived + is_taken(data))
        first = address[:beat_bits] + (
            number << exact_log2(size)
        )  # byte, from the start of the first beat on
        for part in range(0, size, bus):
            place = first + part
            with m.If(data.valid & (arrived == place >> beat_bits)):
                m.d.sync += came.eq(1)
                if size > bus:
                    m.d.sync += item[8 * part :][: 8 * bus].eq(data.payload)
                else:
                    m.d.sync += item.eq(data.payload >> (place[:beat_bits] << 3))
        return item, came

    def _ends(self, m: Module, fetch: Fetch, count: Value, delivered: Value) -> None:
        """Claim that fetch rests only when all instructions are delivered."""
        rests, quiet = Signal(range(START_CYCLES + 1)), Signal()
        m.d.comb += quiet.eq(fetch.blocked & ~fetch.instruction.valid & ~fetch.stop & ~fetch.begin)
        begun = Signal()
        with m.If(fetch.begin):
            m.d.sync += begun.eq(1)
        m.d.sync += rests.eq(Mux(quiet & begun, Mux(rests == START_CYCLES, rests, rests + 1), 0))
        self.claims["fetch rests when all is delivered"] = implies(rests == START_CYCLES, delivered == count)
