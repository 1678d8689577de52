"""A stand-in for the core: it sends a script of bursts to memory and shows what memory does in each cycle."""

from dataclasses import dataclass

from amaranth.back import verilog
from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.signatures import memory_port, register_port
from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.devices.rtl.design import Design

BURSTS = 8
START, TAKE_READS = 4 * BURSTS, 4 * BURSTS + 4

BURST = data.StructLayout({"address": 16, "beats": 8, "write": 1, "wrong_last": 1, "brief": 1})
EVENTS = data.StructLayout(
    {"accept": 1, "read": 1, "write": 1, "write_done": 1, "error": 1, "unused": 11, "data": 16}
)


@dataclass(frozen=True)
class Burst:
    """One burst of the script; `wrong_last` marks the wrong beat, `brief` is withdrawn when memory does not
    take it."""

    write: bool = False
    beats: int = 1
    address: int = 0
    wrong_last: bool = False
    brief: bool = False

    def word(self) -> int:
        """Return it as the probe's registers hold it."""
        return BURST.const({name: int(getattr(self, name)) for name, _ in BURST}).as_value().value


class MemoryProbe(wiring.Component):
    """Offers its bursts one after another; every write beat holds the number of beats written before it.

    Members:
        registers: burst k at 4 * k; writing n to START offers the first n from the next cycle on; TAKE_READS
            holds `read_data.ready`. Whatever is read, is the EVENTS of that cycle.
        memory: memory under test.
        interrupt: never.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        super().__init__(
            {"registers": In(register_port()), "memory": Out(memory_port(config)), "interrupt": Out(1)}
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        bursts = Array(Signal(BURST, name=f"burst{index}") for index in range(BURSTS))
        count, offered = Signal(range(BURSTS + 1)), Signal(range(BURSTS + 1))
        self._accept_settings(m, bursts, count)
        self._request(m, bursts[offered], count, offered)
        self._write(m, bursts, offered)
        self._show(m)
        return m

    def _accept_settings(self, m: Module, bursts: Array, count: Signal) -> None:
        port = self.registers
        take = Signal(init=1)
        m.d.comb += self.memory.read_data.ready.eq(take)
        with m.If(port.write), m.Switch(port.address):
            for index, burst in enumerate(bursts):
                with m.Case(4 * index):
                    m.d.sync += burst.eq(port.write_data)
            with m.Case(START):
                m.d.sync += count.eq(port.write_data)
            with m.Case(TAKE_READS):
                m.d.sync += take.eq(port.write_data)

    def _request(self, m: Module, burst: data.View, count: Signal, offered: Signal) -> None:
        request = self.memory.request
        m.d.comb += [
            request.valid.eq(offered < count),
            request.payload.write.eq(burst.write),
            request.payload.address.eq(burst.address),
            request.payload.beats.eq(burst.beats),
        ]
        with m.If(request.valid & (request.ready | burst.brief)):
            m.d.sync += offered.eq(offered + 1)

    def _write(self, m: Module, bursts: Array, offered: Signal) -> None:
        beats, current, written, total = (
            self.memory.write_data,
            Signal(range(BURSTS + 1)),
            Signal(8),
            Signal(16),
        )
        burst = bursts[current]
        last = written + 1 == burst.beats
        m.d.comb += [
            beats.valid.eq((current < offered) & burst.write),
            beats.payload.data.eq(total),
            beats.payload.strobe.eq(~0),
            beats.payload.last.eq(last ^ burst.wrong_last),
        ]
        with m.If((current < offered) & ~burst.write):
            m.d.sync += current.eq(current + 1)
        with m.Elif(beats.valid & beats.ready):
            m.d.sync += [
                total.eq(total + 1),
                written.eq(Mux(last, 0, written + 1)),
                current.eq(current + last),
            ]

    def _show(self, m: Module) -> None:
        memory, events = self.memory, Signal(EVENTS)
        m.d.sync += [
            events.accept.eq(memory.request.valid & memory.request.ready),
            events.read.eq(memory.read_data.valid & memory.read_data.ready),
            events.write.eq(memory.write_data.valid & memory.write_data.ready),
            events.write_done.eq(memory.write_done),
            events.error.eq(memory.error),
            events.data.eq(memory.read_data.payload),
        ]
        m.d.comb += self.registers.read_data.eq(events)


def _emit(config: AcceleratorConfig) -> str:
    return verilog.convert(MemoryProbe(config), name="vdla_core", emit_src=False)


PROBE = Design(_emit, lambda: "memory probe")
