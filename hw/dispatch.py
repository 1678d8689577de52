"""Dispatch: moves each instruction to the queue of its unit, in program order."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.signatures import fetched_stream, instruction_stream
from vdla.hw.spec.config import AcceleratorConfig


class Dispatch(wiring.Component):
    """Route instructions to the units; stop at FINISH or at an invalid instruction.

    Parameters:
        config: the accelerator.

    Members:
        instruction: from fetch, each with its kind.
        load, compute, store: to the units' queues.
        ended: FINISH or an invalid instruction was met.
        invalid, invalid_index: an invalid instruction was met, at this position in the stream.
        moved: an instruction is taken in this cycle.

    Timing: combinational from input to outputs, one instruction per cycle; of the instruction, only its kind
    decides. An invalid instruction is dropped in the cycle it is met; `ended` and `invalid` rise in the cycle
    after. While `ended`, every instruction is dropped.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "instruction": In(fetched_stream(config)),
                **{unit: Out(instruction_stream(config)) for unit in ("load", "compute", "store")},
                "ended": Out(1),
                "invalid": Out(1),
                "invalid_index": Out(32),
                "moved": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        kind, live = self.instruction.payload.kind, Signal()
        to = {"load": kind.load, "store": kind.store, "compute": ~kind.load & ~kind.store}
        ready = Mux(kind.load, self.load.ready, Mux(kind.store, self.store.ready, self.compute.ready))
        m.d.comb += [
            live.eq(self.instruction.valid & ~self.ended),
            self.instruction.ready.eq(self.ended | kind.invalid | ready),
            self.moved.eq(live & (kind.invalid | ready)),
        ]
        for unit, chosen in to.items():
            out = getattr(self, unit)
            m.d.comb += [
                out.payload.eq(self.instruction.payload.word),
                out.valid.eq(live & ~kind.invalid & chosen),
            ]
        position = Signal(32)
        with m.If(self.moved):
            m.d.sync += [
                position.eq(position + 1),
                self.invalid.eq(kind.invalid),
                self.ended.eq(kind.invalid | kind.finish),
            ]
        with m.If(self.moved & kind.invalid):
            m.d.sync += self.invalid_index.eq(position)
        return m
