"""The compute unit: GEMM, ALU, DEPTHWISE, FINISH, and loads of micro-ops and accumulators."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vdla.hw.alu import accumulator_vector
from vdla.hw.halves import has_halves
from vdla.hw.layouts import decode
from vdla.hw.load_writes import scratchpads
from vdla.hw.loader import LoadEngine
from vdla.hw.pipeline import Pipeline
from vdla.hw.sequencer import Sequencer
from vdla.hw.signatures import (
    has_shadow,
    input_read,
    instruction_stream,
    lent_read,
    read_stream,
    request_stream,
    scratchpad_read,
    scratchpad_write,
    shadow,
    taken_read,
    token_sink,
    token_source,
    unit_status,
)
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memories import counted_as, loaded_by, unread_by_steps
from vdla.hw.spec.timing import retire_stage
from vdla.hw.spec.vocabulary import MemoryType, Unit
from vdla.hw.start_gate import StartGate
from vdla.hw.uop_guard import UopGuard

OPERANDS = (MemoryType.UOP, MemoryType.WGT, MemoryType.ACC)
"""The scratchpads of which the compute unit reads an element at a time."""


class ComputeUnit(wiring.Component):
    """Execute the instructions of its queue in order.

    Parameters:
        config: the accelerator.

    Members:
        instruction: head of the queue; the transfer is the start of the instruction.
        pop_prev, push_prev: token edges from and to the load unit.
        pop_next, push_next: token edges from and to the store unit.
        request, read_data: DRAM, for UOP and ACC loads.
        beats: a read beat was taken for that scratchpad, or for a scratchpad that is counted as it.
        uop_write, acc_write: write ports; out_write, the shadow's write port, where there is a shadow.
        acc_load, out_load: where ACC has halves, separate ports for what LOADs write.
        table_write, res_write: write ports of tables and residuals, where the configuration has them.
        uop, inp, wgt, acc: read ports.
        operand: read port of the shadow, which the store unit lends; where there is none, `stored`: reads of
            the store unit.
        finished: FINISH retires.
        gemm_step, alu_step: a step of that kind is issued; a sum of DEPTHWISE is a GEMM step.
        status: for counters and run control.

    Timing: GEMM, ALU and DEPTHWISE instructions follow each other without a gap, but for slots that the store
    unit takes. A step's results can be
    read by the next step. A LOAD starts at the earliest in the cycle of the last slot of the instruction
    before it, and writes once the pipeline is empty. A LOAD of micro-ops, a table or residuals starts earlier
    where `UopGuard` says that it is clear of that instruction, and writes at any time unless it pushes a
    token. So does a LOAD of accumulators of the other half, but it writes only once slots of earlier
    instructions have left the pipeline. Any other instruction after a LOAD starts in the cycle after the LOAD
    retires.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "instruction": In(instruction_stream(config)),
                "pop_prev": Out(token_source()),
                "pop_next": Out(token_source()),
                "push_prev": Out(token_sink()),
                "push_next": Out(token_sink()),
                "request": Out(request_stream(config)),
                "read_data": In(read_stream(config)),
                "beats": Out(data.StructLayout({"uop": 1, "acc": 1})),
                "uop_write": Out(scratchpad_write(config, MemoryType.UOP)),
                "acc_write": Out(scratchpad_write(config, MemoryType.ACC)),
                **{
                    f"{memory.name.lower()}_write": Out(scratchpad_write(config, memory))
                    for memory in unread_by_steps(config)
                },
                **{memory.name.lower(): Out(scratchpad_read(config, memory)) for memory in OPERANDS},
                "inp": Out(input_read(config)),
                **_shadow_ports(config),
                **_half_ports(config),
                "finished": Out(1),
                "gemm_step": Out(1),
                "alu_step": Out(1),
                "status": Out(unit_status()),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sequencer = sequencer = Sequencer(self.config)
        m.submodules.pipeline = pipeline = Pipeline(self.config)
        m.submodules.loader = loader = LoadEngine(self.config, loaded_by(Unit.COMPUTE, self.config))
        self._issue(m, sequencer, pipeline)
        self._load(m, sequencer, loader, pipeline)
        self._write_accumulators(m, loader, pipeline)
        starts = self._start(m, sequencer, loader)
        self._retire(m, loader, pipeline)
        self._report(m, sequencer, pipeline, loader, starts)
        return m

    def _issue(self, m: Module, sequencer: Sequencer, pipeline: Pipeline) -> None:
        for name in ("inp", "wgt", "acc"):
            connect(m, getattr(pipeline, name), flipped(getattr(self, name)))
        if has_shadow(self.config):
            connect(m, pipeline.operand, flipped(self.operand))
        else:
            connect(m, flipped(self.stored), pipeline.stored)
            m.d.comb += sequencer.taken.eq(self.stored.taken)
        step = sequencer.active & sequencer.slot.step
        m.d.comb += [
            self.uop.address.eq(sequencer.uop_address),
            pipeline.uop.eq(self.uop.data),
            pipeline.valid.eq(sequencer.active),
            pipeline.slot.eq(sequencer.slot),
            self.gemm_step.eq(step & ~sequencer.slot.alu),
            self.alu_step.eq(step & sequencer.slot.alu),
        ]

    def _load(self, m: Module, sequencer: Sequencer, loader: LoadEngine, pipeline: Pipeline) -> None:
        connect(m, loader.request, flipped(self.request))
        connect(m, flipped(self.read_data), loader.read_data)
        connect(m, loader.uop, flipped(self.uop_write))
        for name in (memory.name.lower() for memory in unread_by_steps(self.config)):
            connect(m, getattr(loader, name), flipped(getattr(self, f"{name}_write")))
        m.d.comb += loader.hold.eq(sequencer.running | pipeline.busy)
        if has_halves(self.config):
            self._settle(m, sequencer, loader)
        for scratchpad in scratchpads(loaded_by(Unit.COMPUTE, self.config)):
            name = counted_as(scratchpad).name.lower()
            with m.If(loader.beats[scratchpad.name.lower()]):
                m.d.comb += self.beats[name].eq(1)

    def _settle(self, m: Module, sequencer: Sequencer, loader: LoadEngine) -> None:
        """Tell the load engine while slots of other instructions than the latest are in the pipeline."""
        stages = retire_stage(self.config.operand_stages)
        left = Signal(range(stages + 1))
        with m.If(sequencer.start):
            m.d.sync += [left.eq(stages), loader.settling.eq(1)]
        with m.Elif(loader.settling):
            m.d.sync += [left.eq(left - 1), loader.settling.eq(left != 1)]

    def _write_accumulators(self, m: Module, loader: LoadEngine, pipeline: Pipeline) -> None:
        """Write what steps and loads write, into the shadow too. Without halves they share a port, as loads
        write only while the pipeline is empty."""
        if has_halves(self.config):
            connect(m, pipeline.write, flipped(self.acc_write))
            connect(m, loader.acc, flipped(self.acc_load))
        else:
            self._share_write(m, loader, pipeline)
        if has_shadow(self.config):
            m.d.comb += self._shadowed(self.acc_write, self.out_write)
            if has_halves(self.config):
                m.d.comb += self._shadowed(self.acc_load, self.out_load)

    def _share_write(self, m: Module, loader: LoadEngine, pipeline: Pipeline) -> None:
        """Share the accumulator's write port."""
        m.d.comb += [
            self.acc_write.address.eq(loader.acc.address),
            self.acc_write.data.eq(loader.acc.data),
            self.acc_write.enable.eq(loader.acc.enable | pipeline.write.enable),
        ]
        with m.If(pipeline.write.enable[0]):
            m.d.comb += [
                self.acc_write.address.eq(pipeline.write.address),
                self.acc_write.data.eq(pipeline.write.data),
            ]

    def _shadowed(self, written: wiring.PureInterface, port: wiring.PureInterface) -> list[Value]:
        """Return the assignments that write into the shadow what is written into ACC."""
        values = data.View(accumulator_vector(self.config), written.data)
        kept = self.config.acc_bits if shadow(self.config) is MemoryType.ACC else self.config.out_bits
        return [
            port.address.eq(written.address),
            port.data.eq(Cat(value[:kept] for value in values)),
            port.enable.eq(written.enable),
        ]

    def _start(self, m: Module, sequencer: Sequencer, loader: LoadEngine) -> Signal:
        """Start the head of the queue if tokens, sequencer and load engine allow it; return the pulse."""
        m.submodules.gate = gate = StartGate(self.config, ("prev", "next"))
        self._gate = gate
        for side in ("prev", "next"):
            connect(m, getattr(gate, f"pop_{side}"), flipped(getattr(self, f"pop_{side}")))
            push, own = getattr(gate, f"push_{side}"), getattr(self, f"push_{side}")
            m.d.comb += [push.room.eq(own.room), own.reserve.eq(push.reserve)]
        m.submodules.guard = guard = UopGuard(self.config)
        is_load, may_load = Signal(), Signal()
        word = self.instruction.payload
        m.d.comb += [
            is_load.eq(decode(isa.Instruction, self.config, word).opcode == isa.Opcode.LOAD),
            gate.instruction.eq(word),
            gate.valid.eq(self.instruction.valid),
            gate.start.eq(self.instruction.valid & self.instruction.ready),
            loader.instruction.payload.eq(word),
            sequencer.instruction.eq(word),
            may_load.eq(is_load & (sequencer.free | guard.clear)),
            loader.instruction.valid.eq(self.instruction.valid & may_load & gate.open),
            self.instruction.ready.eq(
                gate.open
                & ((may_load & loader.instruction.ready) | (~is_load & sequencer.free & loader.idle))
            ),
            sequencer.start.eq(gate.start & ~is_load),
            guard.instruction.eq(word),
            guard.stays.eq(self.instruction.valid & ~gate.start),
            guard.issues.eq(sequencer.start),
        ]
        return gate.start

    def _retire(self, m: Module, loader: LoadEngine, pipeline: Pipeline) -> None:
        """Push the tokens of the instruction that retires; a load that pushes any and a step never retire in
        one cycle."""
        m.d.comb += [
            self.push_prev.push.eq(loader.push_prev | pipeline.push_prev),
            self.push_next.push.eq(loader.push_next | pipeline.push_next),
            self.finished.eq(pipeline.finish),
        ]

    def _collides(self) -> Value:
        """Return whether a LOAD and a step write the same half of ACC."""
        both = self.acc_write.enable.any() & self.acc_load.enable.any()
        return both & (self.acc_write.address[-1] == self.acc_load.address[-1])

    def _report(
        self, m: Module, sequencer: Sequencer, pipeline: Pipeline, loader: LoadEngine, starts: Value
    ) -> None:
        working = sequencer.active | loader.step | starts
        waiting = ~working & loader.idle
        overrun = loader.overrun | pipeline.overrun | sequencer.uop_overrun
        if has_halves(self.config):
            overrun |= self._collides()
        m.d.comb += [
            self.status.idle.eq(~sequencer.running & ~pipeline.busy & loader.idle),
            self.status.overrun.eq(overrun),
            self.status.busy.eq(working),
            self.status.waits_memory.eq(~working & ~loader.idle),
            self.status.waits_prev.eq(waiting & self._gate.waits_prev),
            self.status.waits_next.eq(waiting & self._gate.waits_next),
            self.status.waits_room.eq(waiting & self._gate.waits_room),
        ]


def _half_ports(config: AcceleratorConfig) -> dict[str, wiring.Member]:
    """Return the ports by which LOADs write accumulators where these have halves."""
    if not has_halves(config):
        return {}
    load = {"acc_load": Out(scratchpad_write(config, MemoryType.ACC))}
    return load | ({"out_load": Out(scratchpad_write(config, shadow(config)))} if has_shadow(config) else {})


def _shadow_ports(config: AcceleratorConfig) -> dict[str, wiring.Member]:
    """Return the ports of the accumulators' shadow, or what there is instead."""
    if not has_shadow(config):
        return {"stored": In(taken_read(config))}
    return {
        "out_write": Out(scratchpad_write(config, shadow(config))),
        "operand": Out(lent_read(config, MemoryType.ACC)),
    }
