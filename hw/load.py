"""The load unit: INP and WGT loads."""

from amaranth.hdl import Module, Mux
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vdla.hw.loader import LoadEngine
from vdla.hw.signatures import (
    instruction_stream,
    lent_write,
    read_stream,
    request_stream,
    scratchpad_write,
    token_sink,
    token_source,
    unit_status,
)
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memories import loaded_by
from vdla.hw.spec.vocabulary import Extension, MemoryType, Unit
from vdla.hw.start_gate import StartGate


class LoadUnit(wiring.Component):
    """Execute INP and WGT loads in order.

    Parameters:
        config: the accelerator.

    Members:
        instruction: head of the queue; the transfer is the start of the instruction.
        pop_next, push_next: token edges from and to the compute unit.
        request, read_data: DRAM.
        inp, wgt: write ports.
        fed: writes of the store unit into INP; only where the configuration has that path.
        beats: a read beat was taken for that scratchpad.
        status: for counters and run control.

    Timing: as `LoadEngine`. An instruction starts as soon as its tokens are there and the engine takes it. A
    write of `fed` passes to `inp` in its cycle.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "instruction": In(instruction_stream(config)),
                "pop_next": Out(token_source()),
                "push_next": Out(token_sink()),
                "request": Out(request_stream(config)),
                "read_data": In(read_stream(config)),
                "inp": Out(scratchpad_write(config, MemoryType.INP)),
                "wgt": Out(scratchpad_write(config, MemoryType.WGT)),
                **fed_port(config),
                "beats": Out(data.StructLayout({"inp": 1, "wgt": 1})),
                "status": Out(unit_status()),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.gate = gate = StartGate(self.config, ("next",))
        m.submodules.engine = engine = LoadEngine(self.config, loaded_by(Unit.LOAD, self.config))
        connect(m, gate.pop_next, flipped(self.pop_next))
        connect(m, engine.request, flipped(self.request))
        self._write_inputs(m, engine)
        connect(m, engine.wgt, flipped(self.wgt))
        connect(m, flipped(self.read_data), engine.read_data)
        waiting = engine.idle & ~gate.start
        m.d.comb += [
            gate.instruction.eq(self.instruction.payload),
            gate.valid.eq(self.instruction.valid),
            engine.instruction.payload.eq(self.instruction.payload),
            engine.instruction.valid.eq(self.instruction.valid & gate.open),
            self.instruction.ready.eq(gate.open & engine.instruction.ready),
            gate.start.eq(self.instruction.valid & self.instruction.ready),
            gate.push_next.room.eq(self.push_next.room),
            self.push_next.reserve.eq(gate.push_next.reserve),
            self.push_next.push.eq(engine.push_next),
            self.beats.eq(engine.beats),
            self.status.idle.eq(engine.idle),
            self.status.overrun.eq(engine.overrun),
            self.status.busy.eq(engine.step | gate.start),
            self.status.waits_memory.eq(~engine.idle & ~self.status.busy),
            self.status.waits_next.eq(waiting & gate.waits_next),
            self.status.waits_room.eq(waiting & gate.waits_room),
        ]
        return m

    def _write_inputs(self, m: Module, engine: LoadEngine) -> None:
        """Drive the write port of INP, which the engine leaves alone in cycles of the store unit."""
        if not self.config.has(Extension.FEEDBACK):
            connect(m, engine.inp, flipped(self.inp))
            return
        fed = self.fed.enable[0]
        m.d.comb += [
            engine.lent.eq(self.fed.next),
            self.inp.address.eq(Mux(fed, self.fed.address, engine.inp.address)),
            self.inp.data.eq(Mux(fed, self.fed.data, engine.inp.data)),
            self.inp.enable.eq(engine.inp.enable | self.fed.enable),
        ]


def fed_port(config: AcceleratorConfig) -> dict[str, wiring.Member]:
    """Return the member of the load unit by which the store unit writes INP, where it can."""
    return {"fed": In(lent_write(config, MemoryType.INP))} if config.has(Extension.FEEDBACK) else {}
