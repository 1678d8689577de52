"""The compute unit's sequencer: turns a GEMM or ALU instruction into one slot per cycle."""

from amaranth.hdl import Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.layouts import decode
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension, MemoryType


def offset_bits(index_bits: int) -> int:
    """Return a width that no sum of this index's loop offsets can overflow."""
    return index_bits + isa.LOOP_BITS + 2


def slot_layout(config: AcceleratorConfig) -> data.StructLayout:
    """Return the payload of a slot in the compute pipeline.

    `empty`: no step, only the end of an instruction. `source`: first slot of an ALU step, which fetches its
    operand.
    """
    acc, inp, wgt = (config.index_bits(memory) for memory in (MemoryType.ACC, MemoryType.INP, MemoryType.WGT))
    return data.StructLayout(
        {
            "empty": 1,
            "source": 1,
            "alu": 1,
            "reset": 1,
            "overwrite": 1,
            "alu_opcode": 3,
            "use_imm": 1,
            "imm": signed(16),
            "last": 1,
            "finish": 1,
            "push_prev": 1,
            "push_next": 1,
            "dst": offset_bits(acc),
            "src": offset_bits(max(acc, inp)),
            "wgt": offset_bits(wgt),
        }
    )


class _Loop:
    """Registers of one index: the step of each loop, and the sum of the steps taken."""

    def __init__(self, name: str, width: int) -> None:
        self.factor_out = Signal(width, name=f"{name}_factor_out")
        self.factor_in = Signal(width, name=f"{name}_factor_in")
        self.outer = Signal(offset_bits(width), name=f"{name}_outer")
        self.offset = Signal(offset_bits(width), name=f"{name}_offset")

    def start(self, factor_out: Value, factor_in: Value) -> list[Value]:
        return [
            self.factor_out.eq(factor_out),
            self.factor_in.eq(factor_in),
            self.outer.eq(0),
            self.offset.eq(0),
        ]

    def next_inner(self) -> list[Value]:
        return [self.offset.eq(self.offset + self.factor_in)]

    def next_outer(self) -> list[Value]:
        following = self.outer + self.factor_out
        return [self.outer.eq(following), self.offset.eq(following)]


Loops = tuple[_Loop, _Loop, _Loop]  # of destination, source and weight


class Sequencer(wiring.Component):
    """Walk the loops of one instruction, with micro-ops as the innermost loop.

    Parameters:
        config: the accelerator.

    Members:
        start: begin with `instruction` (GEMM, ALU or FINISH) in the next cycle; only while `free`.
        free: nothing is being issued, or the last slot of the current instruction is.
        active: a slot is issued in this cycle.
        slot: the slot; its `dst`, `src` and `wgt` are loop offsets, to be added to the micro-op's indices.
        uop_address: the slot's micro-op.
        uop_overrun: the slot's micro-op lies past the end of the micro-op memory.

    Timing: the first slot follows `start` by one cycle, then one slot per cycle without a gap, also from one
    instruction to the next. A GEMM step is one slot; an ALU step is one with an immediate and two without; an
    instruction without steps is one empty slot.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "instruction": In(unsigned(config.instruction_bits)),
                "free": Out(1),
                "active": Out(1),
                "slot": Out(slot_layout(config)),
                "uop_address": Out(config.index_bits(MemoryType.UOP)),
                "uop_overrun": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        acc, inp, wgt = (
            self.config.index_bits(memory) for memory in (MemoryType.ACC, MemoryType.INP, MemoryType.WGT)
        )
        loops = _Loop("dst", acc), _Loop("src", max(acc, inp)), _Loop("wgt", wgt)
        bounds = Signal(_bounds_layout(len(self.uop_address)))
        uop, i, j = Signal.like(bounds.uop_end), Signal(isa.LOOP_BITS), Signal(isa.LOOP_BITS)
        second = Signal()  # this is the destination slot of a two-slot ALU step

        slot = Signal.like(self.slot)
        two_slots = slot.alu & ~slot.use_imm & ~slot.empty
        step_ends = ~two_slots | second
        uops_end, inner_ends, outer_ends = (
            (uop + 1 == bounds.uop_end),
            (j + 1 == bounds.iter_in),
            (i + 1 == bounds.iter_out),
        )
        last = Signal()
        m.d.comb += [
            last.eq(slot.empty | (step_ends & uops_end & inner_ends & outer_ends)),
            self.free.eq(~self.active | last),
            self.uop_address.eq(uop),
            self.uop_overrun.eq(self.active & ~slot.empty & uop[-1]),
            *self._issued(slot, loops, last, two_slots & ~second),
        ]
        with m.If(self.active):
            m.d.sync += second.eq(two_slots & ~second)
            with m.If(step_ends):
                self._advance(m, loops, bounds, (uop, uops_end), (i,), (j, inner_ends))
            with m.If(last):
                m.d.sync += self.active.eq(0)
        with m.If(self.start):
            m.d.sync += [self.active.eq(1), second.eq(0)]
            self._latch(m, slot, loops, bounds, (uop, i, j))
        return m

    def _issued(self, slot: data.View, loops: Loops, last: Value, source: Value) -> list[Value]:
        """Return the assignments of the slot that is issued."""
        return [
            self.slot.eq(slot),
            self.slot.last.eq(last),
            self.slot.source.eq(source),
            *(
                self.slot[name].eq(loop.offset)
                for name, loop in zip(("dst", "src", "wgt"), loops, strict=True)
            ),
        ]

    def _advance(
        self,
        m: Module,
        loops: Loops,
        bounds: data.View,
        uop_loop: tuple[Value, Value],
        outer_loop: tuple[Value],
        inner_loop: tuple[Value, Value],
    ) -> None:
        """Step the innermost loop that has not ended."""
        (uop, uops_end), (i,), (j, inner_ends) = uop_loop, outer_loop, inner_loop
        with m.If(~uops_end):
            m.d.sync += uop.eq(uop + 1)
        with m.Else():
            m.d.sync += uop.eq(bounds.uop_begin)
            with m.If(~inner_ends):
                m.d.sync += [j.eq(j + 1), *(statement for loop in loops for statement in loop.next_inner())]
            with m.Else():
                m.d.sync += [
                    j.eq(0),
                    i.eq(i + 1),
                    *(statement for loop in loops for statement in loop.next_outer()),
                ]

    def _latch(
        self,
        m: Module,
        slot: data.View,
        loops: Loops,
        bounds: data.View,
        counters: tuple[Signal, Signal, Signal],
    ) -> None:
        """Latch a new instruction into the working registers."""
        gemm, alu = (decode(form, self.config, self.instruction) for form in (isa.Gemm, isa.Alu))
        finish = gemm.opcode == isa.Opcode.FINISH
        is_alu = gemm.opcode == isa.Opcode.ALU
        uop, i, j = counters
        m.d.sync += [
            slot.empty.eq(
                finish | (gemm.iter_out == 0) | (gemm.iter_in == 0) | (gemm.uop_begin >= gemm.uop_end)
            ),
            slot.finish.eq(finish),
            slot.alu.eq(is_alu),
            slot.reset.eq(gemm.reset & ~is_alu),
            slot.overwrite.eq(gemm.overwrite & ~is_alu if self.config.has(Extension.OVERWRITE) else 0),
            *(slot[name].eq(getattr(gemm, name)) for name in ("push_prev", "push_next")),
            *(slot[name].eq(getattr(alu, name)) for name in ("alu_opcode", "use_imm", "imm")),
            *(
                bounds[name].eq(getattr(gemm, name))
                for name in ("uop_begin", "uop_end", "iter_out", "iter_in")
            ),
            uop.eq(gemm.uop_begin),
            i.eq(0),
            j.eq(0),
            *_started(loops, gemm, alu, is_alu),
        ]


def _started(loops: Loops, gemm: data.View, alu: data.View, is_alu: Value) -> list[Value]:
    """Return the assignments that set each operand's loop offsets and steps for a new instruction."""
    dst, src, wgt = loops
    return [
        *dst.start(
            Mux(is_alu, alu.dst_factor_out, gemm.dst_factor_out),
            Mux(is_alu, alu.dst_factor_in, gemm.dst_factor_in),
        ),
        *src.start(
            Mux(is_alu, alu.src_factor_out, gemm.src_factor_out),
            Mux(is_alu, alu.src_factor_in, gemm.src_factor_in),
        ),
        *wgt.start(gemm.wgt_factor_out, gemm.wgt_factor_in),
    ]


def _bounds_layout(uop_bits: int) -> data.StructLayout:
    """Return the layout of an instruction's loop bounds."""
    return data.StructLayout(
        {
            "uop_begin": uop_bits,
            "uop_end": uop_bits + 1,
            "iter_out": isa.LOOP_BITS,
            "iter_in": isa.LOOP_BITS,
        }
    )
