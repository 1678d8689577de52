"""Dispatch: moves each instruction to the queue of its unit, in program order."""

from collections.abc import Collection
from functools import reduce
from itertools import groupby
from operator import or_

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.layouts import decode
from vdla.hw.signatures import instruction_stream
from vdla.hw.spec import codec, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.meaning import RESTRICTIONS
from vdla.hw.spec.memories import loaded_by
from vdla.hw.spec.vocabulary import Unit


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
                "instruction": In(instruction_stream(config)),
                **{unit: Out(instruction_stream(config)) for unit in ("load", "compute", "store")},
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
            to_load.eq((word.opcode == isa.Opcode.LOAD) & _among(word.memory_type, loaded_by(Unit.LOAD))),
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
        """Build the test of RESTRICTIONS: whether an instruction means something."""
        tests: list[Value] = []
        for restricted, forms in groupby(isa.INSTRUCTIONS, RESTRICTIONS.__contains__):
            if restricted:
                tests += [self._is_meaningful(form) for form in forms]
            else:
                opcode = decode(isa.Instruction, self.config, self.instruction.payload).opcode
                tests.append(_among(opcode, [form.opcode for form in forms]))
        return reduce(or_, tests)

    def _is_meaningful(self, form: type[isa.Instruction]) -> Value:
        """Build the test whether this is an instruction of a restricted `form` and means something."""
        word, rule = decode(form, self.config, self.instruction.payload), RESTRICTIONS[form]
        value = word[rule.field]
        allowed = _among(value, rule.allowed(self.config))
        if rule.moot:
            kind = isa.field_of(form, rule.field, self.config).kind
            allowed |= (word[rule.moot] == 0) & _among(value, codec.members(kind))
        return (word.opcode == form.opcode) & allowed


def _among(value: Value, members: Collection[int]) -> Value:
    """Return whether `value` equals one of `members`; false if there are none."""
    if len(members) == 1:
        return value == next(iter(members))
    found = 0
    for member in members:
        found |= value == member
    return found
