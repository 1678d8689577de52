"""Which slots of an instruction issue its steps; see `vdla.hw.sequencer`.

The steps of an instruction are rows of equal length. A GEMM or ALU instruction is a single row. A DEPTHWISE
has rows of sums. A step counts in its last slot.
"""

from typing import Any, NamedTuple

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.timing import alu_slots, depthwise_slots, source_slots
from vdla.hw.spec.vocabulary import AluOpcode
from vdla.sim.decoded import ENUM_BITS, DecodedStream
from vdla.sim.records import IntArray


class StepRows(NamedTuple):
    """The rows of instructions, by instruction: int64[n]. Of a single instruction: numbers.

    Attributes:
        steps: of a row; 1 where the instruction makes no step.
        first: slots of a row up to its first step.
        each: slots of each further step.
    """

    steps: Any
    first: Any
    each: Any

    @property
    def slots(self) -> Any:
        """Slots of a row."""
        return self.first + (self.steps - 1) * self.each

    def issued(self, slots: Any) -> Any:
        """Return the steps that the first `slots` slots of an instruction issue."""
        rows, rest = slots // self.slots, slots % self.slots
        return rows * self.steps + np.maximum((rest - self.first) // self.each + 1, 0)

    def slots_until(self, step: Any) -> Any:
        """Return the slots of an instruction up to its step number `step`, counted from 1."""
        rows, place = (step - 1) // self.steps, (step - 1) % self.steps
        return rows * self.slots + self.first + place * self.each


def step_rows(program: DecodedStream, form: type[isa.Instruction], steps: IntArray) -> StepRows:
    """Return the rows of the instructions of a form, in the order of the program; `steps` are their steps."""
    if form is isa.Depthwise:
        fields = program.fields(form)
        first, two = (depthwise_slots(sums, fields("stride_2"), fields("wide")) for sums in (1, 2))
        return StepRows(np.maximum(fields("iter_in"), 1), first, two - first)
    each = _slots_per_alu_step(program) if form is isa.Alu else np.ones_like(steps)
    return StepRows(np.maximum(steps, 1), each, each)


def _slots_per_alu_step(program: DecodedStream) -> IntArray:
    """Return the pipeline slots of a step of the ALU."""
    config, table = program.config, np.ones(1 << ENUM_BITS, np.int64)
    for opcode in AluOpcode:
        table[opcode] = alu_slots(config.alu_pieces, opcode, config.alu_stages)
    sources = source_slots(config.acc_ports, program.column(isa.Alu, "use_imm"))
    slots: IntArray = table[program.column(isa.Alu, "alu_opcode")] + sources
    return slots
