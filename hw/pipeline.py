"""The compute unit's pipeline: micro-op, operands, multiplier array, accumulator."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vdla.hw.accumulate import AccumulatorUpdate
from vdla.hw.gemm import MultiplierArray
from vdla.hw.layouts import decode
from vdla.hw.packing import biased
from vdla.hw.signatures import (
    has_banks,
    has_shadow,
    input_read,
    lent_read,
    scratchpad_read,
    scratchpad_write,
    taken_read,
)
from vdla.hw.slots import advance, has_source_slots, index_sum, slot_layout
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.timing import given_stage
from vdla.hw.spec.vocabulary import MemoryType
from vdla.hw.spec.window import MOST_ROWS, row_distance
from vdla.hw.window import InputWindow, window_ports

INDEX_STAGE = 3
"""Cycles from a slot's issue to its indices: micro-op data, a register for them, the sum with the offsets."""


class Pipeline(wiring.Component):
    """Execute slots in order, one per cycle, without ever stalling.

    Parameters:
        config: the accelerator.

    Members:
        valid, slot: a slot issued in this cycle; its indices are loop offsets.
        uop: the micro-op memory's read data for the slot of the cycle before.
        inp, wgt, acc: scratchpad reads.
        operand: reads of the accumulators' shadow, by the slots of ALU steps with two accumulator operands.
        stored: where there is no shadow, reads of the store unit, which take the slots of their cycles.
        write: the accumulator's write port.
        busy: a slot is in flight.
        retire: the last slot of an instruction is being written; with the instruction's `push_prev`,
            `push_next` and `finish`.
        overrun: a step's index is past the end of its scratchpad (it wraps).

    Timing: a slot issued in cycle t stands at the multiplier array in t + 5, meets its accumulator in
    t + 5 + gemm_stages and is written one cycle later. It gives the addresses of its accumulators in
    t + 3 + gemm_stages; where INP is in banks, each of these is one cycle later. `operand.next` is a
    register. Every slot sees all earlier results. Outputs are
    registers. There may be gaps anywhere where there is no shadow, else only between steps.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "valid": In(1),
                "slot": In(slot_layout(config)),
                "uop": In(config.element_bits(MemoryType.UOP)),
                "inp": Out(input_read(config)),
                "wgt": Out(scratchpad_read(config, MemoryType.WGT)),
                "acc": Out(scratchpad_read(config, MemoryType.ACC)),
                **(
                    {"operand": Out(lent_read(config, MemoryType.ACC))}
                    if has_shadow(config)
                    else {"stored": In(taken_read(config))}
                ),
                "write": Out(scratchpad_write(config, MemoryType.ACC)),
                "busy": Out(1),
                "retire": Out(1),
                "push_prev": Out(1),
                "push_next": Out(1),
                "finish": Out(1),
                "overrun": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.array = array = MultiplierArray(self.config)
        m.submodules.update = update = AccumulatorUpdate(self.config)
        valid, slots = self._slots(m)
        addresses, before = slots[INDEX_STAGE], INDEX_STAGE + has_banks(self.config)
        rows = self._further_rows(m, slots) if has_banks(self.config) else []
        m.submodules.inputs = inputs = InputWindow(self.config)
        wgt = Signal.like(self.wgt.data, reset_less=True)
        m.d.sync += [
            wgt.eq(biased(self.config, self.wgt.data)),
            self.overrun.eq(valid[INDEX_STAGE] & self._overruns(addresses, rows)),
            self.busy.eq(Cat(*valid, update.flying).any()),
        ]
        connect(m, flipped(self.acc), update.acc)
        connect(m, flipped(self.write), update.write)
        if has_shadow(self.config):
            self._operand(m, valid, slots, update)
        else:
            self._share(m, slots)
        m.d.comb += [
            *self._read_inputs(addresses.src, rows),
            self.wgt.address.eq(slots[before].wgt),
            inputs.element.eq(self.inp.data),
            *advance(inputs, valid[before + 1]),
            *(getattr(inputs, name).eq(slots[before + 1][name]) for name in window_ports(self.config)),
            array.inp.eq(inputs.operands),
            array.wgt.as_value().eq(wgt),
            array.drop.eq(update.drop),
            update.valid.eq(valid[-1]),
            update.slot.eq(slots[-1]),
            update.sums.eq(array.sums),
            *(
                getattr(self, name).eq(getattr(update, name))
                for name in ("retire", "push_prev", "push_next", "finish")
            ),
        ]
        return m

    def _read_inputs(self, first: Value, rows: list[Value]) -> list[Value]:
        """Return the assignments of the addresses of inputs: of an element, or of the rows of a window."""
        if not has_banks(self.config):
            return [self.inp.address.eq(first)]
        read = [first, *rows][: self.config.window.rows]
        return [self.inp.address[row].eq(index) for row, index in enumerate(read)]

    def _further_rows(self, m: Module, slots: list[data.View]) -> list[Value]:
        """Return the inputs of the rows of a window but for the first, when `src` is the sum of micro-op and
        offset."""
        offset, rows = slots[INDEX_STAGE - 2].src, []
        distance = row_distance(slots[INDEX_STAGE - 2].row_step)
        for row in range(1, MOST_ROWS):
            offset, moved, index = (
                index_sum(offset, distance),
                Signal.like(offset, name=f"row_offset_{row}", reset_less=True),
                Signal.like(offset, name=f"row_{row}", reset_less=True),
            )
            m.d.sync += [moved.eq(offset), index.eq(index_sum(moved, self._uop.src))]
            rows.append(index)
        return rows

    def _slots(self, m: Module) -> tuple[list[Value], list[data.View]]:
        """Chain the registers of the stages until the accumulator's address is given.

        From `INDEX_STAGE` on the indices are sums of micro-op and offset.
        """
        valid, slots, uop = [self.valid], [self.slot], Signal.like(self.uop, reset_less=True)
        self._uop = fields = decode(isa.MicroOp, self.config, uop)
        m.d.sync += uop.eq(self.uop)
        for stage in range(1, given_stage(self.config.operand_stages) + 1):
            following = Signal(slot_layout(self.config), name=f"slot_{stage}", reset_less=True)
            following_valid = Signal(name=f"valid_{stage}")
            m.d.sync += [following.eq(slots[-1]), following_valid.eq(valid[-1])]
            if stage == INDEX_STAGE:
                m.d.sync += [
                    following[name].eq(index_sum(slots[-1][name], getattr(fields, name)))
                    for name in ("dst", "src", "wgt")
                ]
            slots.append(following)
            valid.append(following_valid)
        return valid, slots

    def _share(self, m: Module, slots: list[data.View]) -> None:
        """Let the store unit's reads, and source slots, have the accumulators' read port in their turn: what
        they read stands where the index of the accumulator that is updated does."""
        taken, address = self.stored.taken, self.stored.address
        for stage in range(1, len(slots) - 1):
            one, other = Signal(name=f"taken_{stage}"), Signal.like(address, name=f"stored_{stage}")
            m.d.sync += [one.eq(taken), other.eq(address)]
            taken, address = one, other
        before, index = slots[-2], slots[-1].dst[: len(address)]
        if has_source_slots(self.config):
            with m.If(before.source):
                m.d.sync += index.eq(before.src)
        with m.If(taken):
            m.d.sync += index.eq(address)
        m.d.comb += self.stored.data.eq(self.acc.data)

    def _operand(
        self, m: Module, valid: list[Value], slots: list[data.View], update: AccumulatorUpdate
    ) -> None:
        """Claim the shadow's read port two cycles before the address."""
        before = given_stage(self.config.operand_stages) - 2
        if self.config.alu_opcodes:
            m.d.sync += self.operand.next.eq(valid[before] & ~slots[before].empty & _reads_two(slots[before]))
        m.d.comb += [
            self.operand.address.eq(update.operand.address),
            update.operand.data.eq(self.operand.data),
        ]

    def _overruns(self, slot: data.View, rows: list[Value]) -> Value:
        acc, inp, wgt = (
            self.config.index_bits(memory) for memory in (MemoryType.ACC, MemoryType.INP, MemoryType.WGT)
        )
        multiplies = ~slot.alu & ~slot.reset
        overruns = (
            slot.dst[acc:].any()
            | (_reads_two(slot) & slot.src[acc:].any())
            | (multiplies & (slot.src[inp:].any() | slot.wgt[wgt:].any()))
        )
        for row, index in enumerate(rows, 1):
            overruns |= slot.window & (slot.more_rows >= row) & index[inp:].any()
        return ~slot.empty & overruns


def _reads_two(slot: data.View) -> Value:
    """Return whether a slot belongs to an ALU step with two accumulator operands, unless it is empty."""
    return slot.alu & ~slot.use_imm
