"""The compute unit's sequencer: turns a GEMM, ALU or DEPTHWISE instruction into one slot per cycle."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.layouts import decode
from vdla.hw.signatures import has_banks, has_shadow
from vdla.hw.slots import WINDOW_FIELDS, has_source_slots, index_sum, slot_layout, turn_bits
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.timing import alu_slots
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.hw.spec.window import window_columns


class _Loop:
    """Registers of one index: the step of each loop, and the sum of the steps taken."""

    def __init__(self, name: str, width: int) -> None:
        self.factor_out = Signal(width, name=f"{name}_factor_out")
        self.factor_in = Signal(width, name=f"{name}_factor_in")
        self.outer = Signal(width + 1, name=f"{name}_outer")
        self.offset = Signal(width + 1, name=f"{name}_offset")

    def start(self, factor_out: Value, factor_in: Value) -> list[Value]:
        """Begin at the index 0, with factors of the two loops."""
        return [
            self.factor_out.eq(factor_out),
            self.factor_in.eq(factor_in),
            self.outer.eq(0),
            self.offset.eq(0),
        ]

    def next_inner(self) -> list[Value]:
        """Go on to the next trip of the inner loop."""
        return [self.offset.eq(index_sum(self.offset, self.factor_in))]

    def next_outer(self) -> list[Value]:
        """Go on to the next trip of the outer loop."""
        following = index_sum(self.outer, self.factor_out)
        return [self.outer.eq(following), self.offset.eq(following)]

    def restart(self) -> list[Value]:
        """Begin the inner loop of the same outer trip again."""
        return [self.offset.eq(self.outer)]


Loops = tuple[_Loop, _Loop, _Loop]  # of destination, source and weight


class _Counter:
    """Registers of one loop: its trips, the trips that are left, and flags known a cycle ahead."""

    def __init__(self, name: str, bits: int) -> None:
        self.trips, self.left = Signal(bits, name=f"{name}_trips"), Signal(bits, name=f"{name}_left")
        self.once = Signal(name=f"{name}_once")
        self.ends = Signal(name=f"{name}_ends", init=1)

    def start(self, trips: Value, empty: Value) -> list[Value]:
        """Begin the first of `trips` trips; an `empty` instruction ends at once."""
        once = trips == 1
        return [self.trips.eq(trips), self.left.eq(trips), self.once.eq(once), self.ends.eq(empty | once)]

    def advance(self) -> list[Value]:
        """Go on to the next trip."""
        return [self.left.eq(self.left - 1), self.ends.eq(self.left == 2)]

    def restart(self) -> list[Value]:
        """Begin the first trip again."""
        return [self.left.eq(self.trips), self.ends.eq(self.once)]


class _MicroOps:
    """Registers of the innermost loop."""

    def __init__(self, bits: int) -> None:
        self.begin = Signal(bits, name="uop_begin")
        self.last_but_one = Signal(bits + 1, name="uop_last_but_one")
        self.index = Signal(bits + 1, name="uop_index")
        self.once = Signal(name="uop_once")
        self.ends = Signal(name="uop_ends", init=1)

    def start(self, begin: Value, end: Value, empty: Value) -> list[Value]:
        """Begin the micro-ops from `begin` to before `end`; an `empty` instruction ends at once."""
        once = begin + 1 == end
        return [
            *(self.begin.eq(begin), self.last_but_one.eq(end - 2), self.index.eq(begin)),
            *(self.once.eq(once), self.ends.eq(empty | once)),
        ]

    def advance(self) -> list[Value]:
        """Go on to the next micro-op."""
        return [self.index.eq(self.index + 1), self.ends.eq(self.index == self.last_but_one)]

    def restart(self) -> list[Value]:
        """Begin the first micro-op again."""
        return [self.index.eq(self.begin), self.ends.eq(self.once)]


class _Turns:
    """Registers of the slots of a step: `source` in the first slot if that reads the second accumulator, then
    turn after turn.

    The first step of a row of a DEPTHWISE fills the window. Each other step of the row begins behind the
    turns that it needs no more.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self.turn = Signal(turn_bits(config), name="step_turn")
        self.most = Signal(turn_bits(config), name="step_turns")
        self.once, self.ends = Signal(name="step_once"), Signal(name="step_ends", init=1)
        self.stride_2 = Signal(name="step_stride_2")
        self.source: Value = Const(0, 1)
        self.sources: Value = Const(0, 1)
        if has_source_slots(config):
            self.source, self.sources = Signal(name="step_source"), Signal(name="step_sources")

    def start(
        self, alu: data.View, is_alu: Value, is_window: Value, last: Value, empty: Value
    ) -> list[Value]:
        """Begin an instruction; `last`: the last turn that fills the window of a DEPTHWISE."""
        most = Mux(is_alu, self._most(alu), 0)
        once = most == 0
        sources = is_alu & ~alu.use_imm & ~empty
        if not has_source_slots(self.config):
            sources = Const(0, 1)
        if self.config.has(Extension.DEPTHWISE):
            most, once = Mux(is_window, last, most), once & ~is_window
        return [
            *(self.most.eq(most), self.turn.eq(0)),
            *(self.once.eq(once), self.ends.eq(empty | once & ~sources)),
            *self._source(sources, sources),
        ]

    def _source(self, source: Value, sources: Value) -> list[Value]:
        """Return the assignments of `source` and `sources`, where there are such registers."""
        if not has_source_slots(self.config):
            return []
        return [self.source.eq(source), self.sources.eq(sources)]

    def _most(self, alu: data.View) -> Value:
        """Return the last turn of a step."""
        pieces, stages = self.config.alu_pieces, self.config.alu_stages
        most: Value = Const(pieces - 1)
        for opcode in self.config.alu_opcodes:
            if (slots := alu_slots(pieces, opcode, stages)) > pieces:
                most = Mux(alu.alu_opcode == opcode, slots - 1, most)
        return most

    def advance(self) -> list[Value]:
        """Go on to the next slot of the step."""
        following = (self.turn + ~self.source)[: len(self.turn)]
        return [
            *(self.turn.eq(following), self.ends.eq(following == self.most)),
            *self._source(Const(0), self.sources),
        ]

    def restart(self) -> list[Value]:
        """Begin the first slot of the next step."""
        return [
            *(self.turn.eq(0), self.ends.eq(self.once & ~self.sources)),
            *self._source(self.sources, self.sources),
        ]

    def slide(self) -> list[Value]:
        """Go on to the next step of a row of a DEPTHWISE."""
        return [self.turn.eq((self.most - self.stride_2)[: len(self.turn)]), self.ends.eq(~self.stride_2)]


class Sequencer(wiring.Component):
    """Walk the loops of one instruction, with micro-ops as the innermost loop; in DEPTHWISE, the inner loop
    is the innermost.

    Parameters:
        config: the accelerator.

    Members:
        taken: the slot of this cycle is another's, where the accumulators have one read port.
        start: begin with `instruction` (GEMM, ALU, DEPTHWISE or FINISH) in the next cycle; only while `free`.
        free: nothing is being issued, or the last slot of the current instruction is.
        running: the current instruction has a slot to issue, in this cycle or later.
        active: a slot is issued in this cycle.
        slot: the slot; its `dst`, `src` and `wgt` are loop offsets, to be added to the micro-op's indices.
        uop_address: the slot's micro-op.
        uop_overrun: the slot's micro-op lies past the end of the micro-op memory.

    Timing: the first slot follows `start` by one cycle, then one slot per cycle without a gap, also from one
    instruction to the next, but for cycles that are `taken`: in these nothing moves. A GEMM step is one slot;
    an ALU step is `alu_slots`; a row of a DEPTHWISE is `depthwise_slots`, and slots that complete no sum are
    empty; an instruction without steps is one empty slot. Outputs depend on registers, and on `taken`,
    alone.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                **({} if has_shadow(config) else {"taken": In(1)}),
                "start": In(1),
                "instruction": In(unsigned(config.instruction_bits)),
                "free": Out(1),
                "running": Out(1),
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
        steps, uops = _Turns(self.config), _MicroOps(len(self.uop_address))
        inner, outer = _Counter("inner", isa.LOOP_BITS), _Counter("outer", isa.LOOP_BITS)
        slot = Signal.like(self.slot)
        taken = Const(0) if has_shadow(self.config) else self.taken & self.running
        ends = Cat(counter.ends for counter in (steps, uops, inner, outer)).all()
        m.d.comb += [
            self.active.eq(self.running & ~taken),
            self.free.eq(ends & ~taken),
            self.uop_address.eq(uops.index),
            self.uop_overrun.eq(self.active & ~slot.empty & uops.index[-1]),
            *self._issued(slot, loops, steps),
        ]
        otherwise = m.If
        if not has_shadow(self.config):
            with m.If(taken):
                pass
            otherwise = m.Elif
        with otherwise(ends):
            m.d.sync += self.running.eq(0)
        with m.Elif(~steps.ends):
            m.d.sync += steps.advance()
            self._next_column(m, slot, loops)
        with m.Else():
            m.d.sync += steps.restart()
            self._next_step(m, slot, loops, (steps, uops), (inner, outer))
        with m.If(self.start):
            m.d.sync += self.running.eq(1)
            self._latch(m, slot, loops, steps, uops, (inner, outer))
        return m

    def _issued(self, slot: data.View, loops: Loops, steps: _Turns) -> list[Value]:
        """Return the assignments of the slot that is issued."""
        return [
            self.slot.eq(slot),
            self.slot.last.eq(self.free),
            self.slot.turn.eq(steps.turn),
            self.slot.step.eq(steps.ends & ~slot.empty),
            *([self.slot.empty.eq(empty)] if (empty := self._touches_none(slot, steps)) is not None else []),
            *([self.slot.source.eq(steps.source)] if has_source_slots(self.config) else []),
            *(
                self.slot[name].eq(loop.offset)
                for name, loop in zip(("dst", "src", "wgt"), loops, strict=True)
            ),
        ]

    def _touches_none(self, slot: data.View, steps: _Turns) -> Value | None:
        """Return whether a slot updates no accumulator, if that differs between slots of an instruction."""
        without = []
        if self._slides:
            without.append(slot.window & ~steps.ends)
        if has_source_slots(self.config):
            without.append(steps.source)
        return slot.empty | Cat(without).any() if without else None

    @property
    def _slides(self) -> bool:
        """Whether there are rows of a DEPTHWISE."""
        return self.config.has(Extension.DEPTHWISE)

    def _next_column(self, m: Module, slot: data.View, loops: Loops) -> None:
        """Move a DEPTHWISE to the next input of its row."""
        if self._slides:
            with m.If(slot.window):
                m.d.sync += loops[1].next_inner()

    def _next_step(
        self,
        m: Module,
        slot: data.View,
        loops: Loops,
        within: tuple[_Turns, _MicroOps],
        counters: tuple[_Counter, _Counter],
    ) -> None:
        """Step the innermost loop that has not ended."""
        (steps, uops), (inner, outer) = within, counters
        if not self._slides:
            self._next_micro_op(m, loops, uops, inner, outer)
            return
        with m.If(~slot.window):
            self._next_micro_op(m, loops, uops, inner, outer)
        with m.Elif(~inner.ends):
            m.d.sync += [*inner.advance(), *steps.slide(), *loops[0].next_inner(), *loops[1].next_inner()]
        with m.Else():
            m.d.sync += inner.restart()
            with m.If(~uops.ends):
                m.d.sync += [*uops.advance(), *loops[0].restart(), *loops[1].restart()]
            with m.Else():
                m.d.sync += [
                    *uops.restart(),
                    *outer.advance(),
                    *(statement for loop in loops for statement in loop.next_outer()),
                ]

    def _next_micro_op(
        self, m: Module, loops: Loops, uops: _MicroOps, inner: _Counter, outer: _Counter
    ) -> None:
        """Step the innermost loop of a GEMM or ALU instruction that has not ended."""
        with m.If(~uops.ends):
            m.d.sync += uops.advance()
        with m.Else():
            m.d.sync += uops.restart()
            with m.If(~inner.ends):
                m.d.sync += [
                    *inner.advance(),
                    *(statement for loop in loops for statement in loop.next_inner()),
                ]
            with m.Else():
                m.d.sync += [
                    *inner.restart(),
                    *outer.advance(),
                    *(statement for loop in loops for statement in loop.next_outer()),
                ]

    def _latch(
        self,
        m: Module,
        slot: data.View,
        loops: Loops,
        steps: _Turns,
        uops: _MicroOps,
        counters: tuple[_Counter, _Counter],
    ) -> None:
        """Latch a new instruction into the working registers."""
        gemm, alu = (decode(form, self.config, self.instruction) for form in (isa.Gemm, isa.Alu))
        finish = gemm.opcode == isa.Opcode.FINISH
        is_alu = gemm.opcode == isa.Opcode.ALU
        is_window = gemm.opcode == isa.Opcode.DEPTHWISE if self._slides else Const(0)
        iter_in, empty = self._inner_trips(gemm, is_window), Signal()
        m.d.comb += empty.eq(
            finish | (gemm.iter_out == 0) | (iter_in == 0) | (gemm.uop_begin >= gemm.uop_end)
        )
        inner, outer = counters
        m.d.sync += [
            slot.empty.eq(empty),
            slot.finish.eq(finish),
            slot.alu.eq(is_alu),
            slot.reset.eq(gemm.reset & ~(is_alu | is_window if self._slides else is_alu)),
            slot.overwrite.eq(self._overwrites(is_alu, is_window)),
            *self._window(slot, steps, is_window),
            *(slot[name].eq(getattr(gemm, name)) for name in ("push_prev", "push_next")),
            *(slot[name].eq(getattr(alu, name)) for name in ("alu_opcode", "use_imm", "imm")),
            *steps.start(alu, is_alu, is_window, self._last_turn(), empty),
            *uops.start(gemm.uop_begin, gemm.uop_end, empty),
            *inner.start(iter_in, empty),
            *outer.start(gemm.iter_out, empty),
            *_started(loops, gemm, alu, is_alu),
        ]

    def _inner_trips(self, gemm: data.View, is_window: Value) -> Value:
        """Return the trips of the inner loop: the field of a DEPTHWISE begins where a GEMM's field does, and
        may be shorter."""
        if not self._slides:
            return gemm.iter_in
        own = decode(isa.Depthwise, self.config, self.instruction)
        return Mux(is_window, own.iter_in, gemm.iter_in)

    def _last_turn(self) -> Value:
        """Return the last turn that fills the window of a DEPTHWISE."""
        if not has_banks(self.config):
            return Const(window_columns(0) - 1)
        own = decode(isa.Depthwise, self.config, self.instruction)
        return Mux(own.wide, *(window_columns(wide) - 1 for wide in (1, 0)))

    def _overwrites(self, is_alu: Value, is_window: Value) -> Value:
        """Return whether the instruction overwrites accumulators."""
        if not self.config.has(Extension.OVERWRITE):
            return Const(0)
        gemm = decode(isa.Gemm, self.config, self.instruction)
        if not self._slides:
            return gemm.overwrite & ~is_alu
        own = decode(isa.Depthwise, self.config, self.instruction)
        return Mux(is_window, own.overwrite, gemm.overwrite & ~is_alu)

    def _window(self, slot: data.View, steps: _Turns, is_window: Value) -> list[Value]:
        """Return the assignments that tell of a DEPTHWISE, its stride and its window."""
        if not self._slides:
            return []
        own = decode(isa.Depthwise, self.config, self.instruction)
        extents = [slot[name].eq(own[name]) for name in WINDOW_FIELDS if has_banks(self.config)]
        return [slot.window.eq(is_window), steps.stride_2.eq(own.stride_2), *extents]


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
