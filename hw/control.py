"""Run control, counters and host-visible registers."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.counters import INDEX_BITS, Counters
from vdla.hw.signatures import register_port
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.registers import COUNTERS, OFFSETS, REGISTERS, TOTALS, Access, Control, Fault, Status
from vdla.hw.spec.timing import QUIET_CYCLES


class RunControl(wiring.Component):
    """Start runs, end them, and report why they ended.

    Members:
        start: CONTROL.START is being written.
        accepted: pulse in the cycle after a start outside a run, the first of the run; resets the datapath.
        begin: pulse in the cycle after `accepted`: the datapath has been reset, fetch begins.
        running, done: registers of STATUS.
        finished: FINISH retires in this cycle.
        drained: fetch has no read outstanding, the instruction queues are empty and the units idle.
        quiet: nothing moves and nothing is in progress.
        starved: no queue, fetch's included, holds an instruction.
        invalid: dispatch has met an invalid instruction.
        overrun, memory_error: pulses.
        fault: bits of `Fault`.

    Timing: `running` is high from `accepted` on. `done` rises in the cycle after the first in which FINISH
    has retired and `drained` is high, or after 16 consecutive cycles of `quiet`. `accepted`, `begin`,
    `running`, `done` and `fault` are registers.
    """

    start: In(1)
    begin: Out(1)
    accepted: Out(1)
    running: Out(1)
    done: Out(1)
    finished: In(1)
    drained: In(1)
    quiet: In(1)
    starved: In(1)
    invalid: In(1)
    overrun: In(1)
    memory_error: In(1)
    fault: Out(len(Fault))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        finish_seen = Signal()
        quiet_cycles = Signal(range(QUIET_CYCLES))
        stuck = self.quiet & (quiet_cycles == QUIET_CYCLES - 1)
        ends = self.running & ~self.accepted & ((finish_seen & self.drained) | stuck)
        accepts = self.start & ~self.running
        m.d.sync += [
            self.accepted.eq(accepts),
            self.begin.eq(self.accepted),
            quiet_cycles.eq(Mux(self.quiet, quiet_cycles + 1, 0)),
        ]
        with m.If(self.finished):
            m.d.sync += finish_seen.eq(1)
        with m.If(self.running):
            m.d.sync += self.fault.eq(self.fault | self._seen() | Mux(stuck, self._stuck(), 0))
        with m.If(ends):
            m.d.sync += [self.running.eq(0), self.done.eq(1)]
        with m.If(accepts):
            m.d.sync += [self.running.eq(1), self.done.eq(0)]
        with m.If(self.accepted):
            m.d.sync += [self.fault.eq(0), finish_seen.eq(0), quiet_cycles.eq(0)]
        return m

    def _seen(self) -> Value:
        """Return the faults that are detected during the run."""
        return (
            Mux(self.invalid, Fault.INVALID_INSTRUCTION, 0)
            | Mux(self.overrun, Fault.SRAM_OVERRUN, 0)
            | Mux(self.memory_error, Fault.MEMORY_ERROR, 0)
        )

    def _stuck(self) -> Value:
        """Return the fault that ends a run in which nothing moves."""
        return Mux(self.invalid, 0, Mux(self.starved, Fault.UNFINISHED, Fault.DEADLOCK))


class Registers(wiring.Component):
    """The register file of `vdla.hw.spec.registers` with its counters.

    Parameters:
        config: the accelerator; its digest is readable.

    Members:
        port: the host's access.
        clear: zero the counters (a run starts in this cycle).
        events: one bit per register in `COUNTERS`, in order; a register counts the cycles in which its bit is
            high.
        start: CONTROL.START is being written.
        running, done, fault, invalid_index: shown in STATUS, FAULT and FAULT_INDEX.
        stream_address, stream_count: the values that the host has written.
        interrupt: a run is done, INTERRUPT_ENABLE was set, and the interrupt has not been cleared yet.

    Timing: `port.read_data` follows its address by one cycle. CYCLES_HIGH and the counters take longer: when
    an address is held in the cycles t to t + 10, `port.read_data` in t + 11 counts the events up to one of
    them. CYCLES counts from 1 in the cycle after `clear` and stops when `running` falls, so its final value
    is the distance from start to done. A carry into CYCLES_HIGH counts one cycle later.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "port": In(register_port()),
                "clear": In(1),
                "events": In(len(COUNTERS)),
                "start": Out(1),
                "running": In(1),
                "done": In(1),
                "fault": In(len(Fault)),
                "invalid_index": In(32),
                "stream_address": Out(config.address_bits),
                "stream_count": Out(32),
                "interrupt": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        written = {
            register.name: Signal(32, name=register.name.lower())
            for register in REGISTERS
            if register.access is Access.WRITE
        }
        for name, value in written.items():
            with m.If(self._writes(name)):
                m.d.sync += value.eq(self.port.write_data)
        m.d.comb += [
            self.start.eq(self._writes("CONTROL") & self._commands(Control.START)),
            self.stream_address.eq(Cat(written["STREAM_ADDRESS"], written["STREAM_ADDRESS_HIGH"])),
            self.stream_count.eq(written["STREAM_COUNT"]),
        ]
        self._raise_interrupt(m, written["INTERRUPT_ENABLE"])
        values = {**written, **self._status(), **self._counters(m)}
        word = self.port.address[2:]
        with m.Switch(word):
            for register in REGISTERS:
                with m.Case(OFFSETS[register.name] // 4):
                    m.d.sync += self.port.read_data.eq(values.get(register.name, register.reset))
            with m.Default():
                m.d.sync += self.port.read_data.eq(0)
        return m

    def _writes(self, name: str) -> Value:
        return self.port.write & (self.port.address == OFFSETS[name])

    def _commands(self, command: Control) -> Value:
        return (self.port.write_data & command).any()

    def _raise_interrupt(self, m: Module, enable: Value) -> None:
        was_done = Signal()
        m.d.sync += was_done.eq(self.done)
        with m.If(self.done & ~was_done & enable[0]):
            m.d.sync += self.interrupt.eq(1)
        with m.If(self._writes("CONTROL") & self._commands(Control.CLEAR_INTERRUPT)):
            m.d.sync += self.interrupt.eq(0)

    def _status(self) -> dict[str, Value]:
        flags = {
            Status.RUNNING: self.running,
            Status.DONE: self.done,
            Status.INTERRUPT: self.interrupt,
            Status.FAULT: self.fault.any(),
        }
        return {
            "CONFIG_DIGEST": int(self.config.digest[:8], 16),
            "STATUS": sum((Mux(value, flag, 0) for flag, value in flags.items()), start=0),
            "FAULT": self.fault,
            "FAULT_INDEX": self.invalid_index,
        }

    def _counters(self, m: Module) -> dict[str, Value]:
        cycles = Signal(32)
        wraps = Signal()
        following = (cycles + 1)[:33]
        m.d.sync += wraps.eq(self.running & following[-1])
        with m.If(self.running):
            m.d.sync += cycles.eq(following)
        with m.If(self.clear):
            m.d.sync += [cycles.eq(1), wraps.eq(0)]
        first = OFFSETS[TOTALS[0]] // 4 % 2**INDEX_BITS
        m.submodules.counters = counters = Counters(len(TOTALS), first)
        m.d.comb += [
            counters.clear.eq(self.clear),
            counters.events.eq(Cat(wraps, self.events)),
            counters.index.eq(self.port.address[2:]),
        ]
        return {"CYCLES": cycles, **dict.fromkeys(TOTALS, counters.total)}
