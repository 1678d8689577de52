"""Dispatch: moves each instruction to the queue of its unit, in program order."""

from collections.abc import Iterable

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.layouts import decode
from vdla.hw.signatures import instruction_stream
from vdla.hw.spec import codec, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.units import LOAD_UNIT_MEMORIES
from vdla.hw.spec.vocabulary import MemoryType


class Dispatch(wiring.Component):
    """Route instructions to the units; stop at FINISH or at an invalid instruction.

    Parameters:
        config: the accelerator.

    Members:
        instruction: from fetch.
        load, compute, store: to the units' queues.
        ended: FINISH or an invalid instruction was met.
        invalid, invalid_index: an invalid instruction was met, at this position in the stream.
        moved: an instruction is taken in this cycle.

    Timing: combinational from input to outputs, one instruction per cycle. An invalid instruction is dropped
    in the cycle it is met; `ended` and `invalid` rise in the cycle after. While `ended`, every instruction is
    dropped.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "instruction": In(instruction_stream()),
                **{unit: Out(instruction_stream()) for unit in ("load", "compute", "store")},
                "ended": Out(1),
                "invalid": Out(1),
                "invalid_index": Out(32),
                "moved": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word = decode(isa.Load, self.config, self.instruction.payload)
        meaningful, to_load, to_store = Signal(), Signal(), Signal()
        position = Signal(32)
        live = self.instruction.valid & ~self.ended
        to = {"load": to_load, "store": to_store, "compute": ~to_load & ~to_store}
        ready = Mux(to_load, self.load.ready, Mux(to_store, self.store.ready, self.compute.ready))
        m.d.comb += [
            meaningful.eq(self._meaningful()),
            to_load.eq((word.opcode == isa.Opcode.LOAD) & _among(word.memory_type, LOAD_UNIT_MEMORIES)),
            to_store.eq(word.opcode == isa.Opcode.STORE),
            self.instruction.ready.eq(self.ended | ~meaningful | ready),
            self.moved.eq(live & self.instruction.ready),
        ]
        for unit, chosen in to.items():
            out = getattr(self, unit)
            m.d.comb += [out.payload.eq(self.instruction.payload), out.valid.eq(live & meaningful & chosen)]
        with m.If(self.moved):
            m.d.sync += position.eq(position + 1)
            with m.If(~meaningful):
                m.d.sync += [self.ended.eq(1), self.invalid.eq(1), self.invalid_index.eq(position)]
            with m.Elif(word.opcode == isa.Opcode.FINISH):
                m.d.sync += self.ended.eq(1)
        return m

    def _meaningful(self) -> Value:
        """Build the test by which `codec.decode` accepts an instruction."""
        word, alu = (decode(form, self.config, self.instruction.payload) for form in (isa.Load, isa.Alu))
        storable = (word.memory_type == MemoryType.OUT) | (
            (word.x_size == 0) & _among(word.memory_type, MemoryType)
        )
        return (
            ((word.opcode == isa.Opcode.LOAD) & _among(word.memory_type, codec.LOADABLE))
            | ((word.opcode == isa.Opcode.STORE) & storable)
            | _among(word.opcode, (isa.Opcode.GEMM, isa.Opcode.FINISH))
            | ((word.opcode == isa.Opcode.ALU) & _among(alu.alu_opcode, self.config.alu_opcodes))
        )


def _among(value: Value, members: Iterable[int]) -> Value:
    """Return whether `value` equals one of `members`; false if there are none."""
    found = 0
    for member in members:
        found |= value == member
    return found
