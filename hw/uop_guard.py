"""Which LOADs may run beside an instruction that is being issued, as it does not read what they write."""

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.halves import has_halves, writes_other_half
from vdla.hw.layouts import decode
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memories import unread_by_steps
from vdla.hw.spec.vocabulary import MemoryType


def runs_beside(config: AcceleratorConfig, load: data.View, apart: Value) -> Value:
    """Return whether an instruction is a LOAD that may run beside steps.

    It pushes no token, so no unit waits for its end. It loads one of these:

    - a memory that steps do not read
    - accumulators that it promises to be of the other half
    - a single row of micro-ops without padding that lies `apart`; no product is needed to know its range
    """
    others = unread_by_steps(config)
    padding = (load.y_pad_0, load.y_pad_1, load.x_pad_0, load.x_pad_1)
    is_apart = (load.memory_type == MemoryType.UOP) & (load.y_size == 1) & ~Cat(padding).any() & apart
    is_other = Cat(load.memory_type == memory for memory in others).any() if others else Const(0)
    is_clear = is_apart | is_other
    if has_halves(config):
        is_clear |= writes_other_half(load)
    return (load.opcode == isa.Opcode.LOAD) & is_clear & ~(load.push_prev | load.push_next)


class UopGuard(wiring.Component):
    """Compare the LOAD that waits with the micro-ops of the instruction that is being issued.

    A LOAD of a memory that steps do not read is clear of every instruction. So is a LOAD that promises to be.

    Parameters:
        config: the accelerator.

    Members:
        instruction: at the head of the queue.
        stays: it is there in this cycle, and does not start.
        issues: it starts, and its micro-ops are read from the next cycle on.
        clear: it may start beside the instruction being issued: it `runs_beside`, and writes none of that
            instruction's micro-ops.

    Timing: `clear` is a register. It is low in the first two cycles in which an instruction waits: the first
    finds the end of what it writes, the second compares.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "instruction": In(config.instruction_bits),
                "stays": In(1),
                "issues": In(1),
                "clear": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        load, loops = (decode(form, self.config, self.instruction) for form in (isa.Load, isa.Gemm))
        begin, end = (
            Signal.like(bound, name=name, reset_less=True)
            for name, bound in (("begin", loops.uop_begin), ("end", loops.uop_end))
        )
        with m.If(self.issues):
            m.d.sync += [begin.eq(loops.uop_begin), end.eq(loops.uop_end)]
        written_end, stayed = Signal(self.config.sram_base_bits + 1, reset_less=True), Signal()
        apart = (load.sram_base >= end) | (written_end <= begin)
        m.d.sync += [
            written_end.eq(load.sram_base + load.x_size),
            stayed.eq(self.stays),
            self.clear.eq(self.stays & stayed & runs_beside(self.config, load, apart)),
        ]
        return m
