"""The store unit: accumulators, narrowed or requantised, to DRAM or to INP."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vdla.hw.queue import Queue
from vdla.hw.signatures import (
    instruction_stream,
    request_stream,
    token_sink,
    token_source,
    unit_status,
    write_stream,
)
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.start_gate import StartGate
from vdla.hw.store_beats import input_port
from vdla.hw.store_outputs import accumulator_ports, further_ports
from vdla.hw.store_reads import ReadHalf


class StoreUnit(wiring.Component):
    """Execute STOREs in order; a STORE is done when memory has accepted all it wrote, or INP has it.

    Parameters:
        config: the accelerator; at most `max_requests` bursts wait for their answer.

    Members:
        instruction: the queue's head; a transfer starts it.
        pop_prev, push_prev: token edges from and to the compute unit.
        out: read port of the accumulators' shadow.
        operand: reads of the compute unit at that port, which have priority over the reads of this unit.
        acc: reads that take slots of the compute unit, in place of `out` and `operand` if there is no shadow.
        res: read port of the residuals; table: write port of the tables; where the configuration has them.
        inp: write port of INP, lent by the load unit, where the configuration has that path.
        request, write_data, write_done: DRAM.
        beats: a beat is written.
        status: for counters and run control.

    Timing: as `ReadHalf`; a burst is offered in the cycle after its last beat was formed, so memory never
    waits for data. Whether an instruction is taken depends on the tokens and on a register. A STORE retires
    in the cycle in which `write_done` answers its last burst, or behind the STOREs before it that wrote
    nothing, one per cycle. A STORE that writes INP retires like a STORE that writes nothing, when its last
    element is there: a unit that gets its token reads it two cycles later at the earliest.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "instruction": In(instruction_stream(config)),
                "pop_prev": Out(token_source()),
                "push_prev": Out(token_sink()),
                **accumulator_ports(config),
                "request": Out(request_stream(config)),
                "write_data": Out(write_stream(config)),
                "write_done": In(1),
                "beats": Out(1),
                "status": Out(unit_status()),
                **further_ports(config),
                **input_port(config),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.gate = gate = StartGate(self.config, ("prev",))
        m.submodules.reads = reads = ReadHalf(self.config)
        m.submodules.written = written = Queue(
            data.StructLayout({"last": 1, "push_prev": 1, "mark": 1}), self.config.max_requests
        )
        connect(m, gate.pop_prev, flipped(self.pop_prev))
        connect(m, reads.beats, flipped(self.write_data))
        for name in accumulator_ports(self.config) | further_ports(self.config) | input_port(self.config):
            connect(m, flipped(getattr(self, name)), getattr(reads, name))
        m.d.comb += [
            gate.instruction.eq(self.instruction.payload),
            gate.valid.eq(self.instruction.valid),
            reads.instruction.payload.eq(self.instruction.payload),
            reads.instruction.valid.eq(self.instruction.valid & gate.open),
            self.instruction.ready.eq(gate.open & reads.instruction.ready),
            gate.start.eq(self.instruction.valid & self.instruction.ready),
            gate.push_prev.room.eq(self.push_prev.room),
            self.push_prev.reserve.eq(gate.push_prev.reserve),
            self.beats.eq(self.write_data.valid & self.write_data.ready),
        ]
        self._send(m, reads, written)
        self._report(m, gate, reads, written)
        return m

    def _send(self, m: Module, reads: ReadHalf, written: Queue) -> None:
        """Offer bursts to memory and remember them until they are answered."""
        burst = reads.bursts.payload
        mark = burst.mark
        # Answers that came while marks stood before their bursts.
        answers = Signal(range(self.config.max_requests + 1))
        answered = written.o.valid & (written.o.payload.mark | self.write_done | (answers != 0))
        m.d.sync += answers.eq(answers + self.write_done - (answered & ~written.o.payload.mark))
        m.d.comb += [
            self.request.valid.eq(reads.bursts.valid & ~mark & written.i.ready),
            self.request.payload.write.eq(1),
            self.request.payload.address.eq(burst.address),
            self.request.payload.beats.eq(burst.beats),
            reads.bursts.ready.eq(written.i.ready & (mark | self.request.ready)),
            written.i.valid.eq(reads.bursts.valid & (mark | self.request.ready)),
            written.i.payload.last.eq(burst.last),
            written.i.payload.push_prev.eq(burst.push_prev),
            written.i.payload.mark.eq(mark),
            written.o.ready.eq(answered),
            self.push_prev.push.eq(answered & written.o.payload.last & written.o.payload.push_prev),
        ]

    def _report(self, m: Module, gate: StartGate, reads: ReadHalf, written: Queue) -> None:
        idle = reads.idle & ~written.o.valid
        waiting = idle & ~gate.start
        m.d.comb += [
            self.status.idle.eq(idle),
            self.status.overrun.eq(reads.overrun),
            self.status.busy.eq(reads.step | gate.start),
            self.status.waits_memory.eq(~idle & ~self.status.busy),
            self.status.waits_prev.eq(waiting & gate.waits_prev),
            self.status.waits_room.eq(waiting & gate.waits_room),
        ]
