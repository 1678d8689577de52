"""The end of the compute pipeline: accumulators are read, updated and written, one slot per cycle."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.alu import accumulator_vector
from vdla.hw.gemm import sums_layout
from vdla.hw.operand import FetchedOperand, SourceOperand, lane_of, piece_of
from vdla.hw.signatures import has_shadow, lanes, scratchpad_read, scratchpad_write
from vdla.hw.slots import advance, has_source_slots, slot_layout
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType
from vdla.hw.vector_alu import VectorAlu

GIVEN, READ, EXECUTED, WRITTEN = range(4)
"""The stages, counted in cycles: the address is given; data come; the result is computed; it is written."""


class AccumulatorUpdate(wiring.Component):
    """Update accumulators by sums of the multiplier array, or by the ALU.

    Parameters:
        config: the accelerator.

    Members:
        valid, slot: a slot whose accumulators `dst` and `src` are read.
        acc: the accumulators' read port, for `dst`.
        operand: a read port of the accumulators' shadow, if there is a shadow, for `src`; its data are used
            only where the slot belongs to an ALU step with two accumulator operands.
        sums: of the slot two cycles before.
        drop: `sums` of the next cycle must be 0.
        flying: a slot is in a stage that is not yet the write's.
        write: the accumulators' write port.
        retire, push_prev, push_next, finish: the last slot of an instruction is written, with its flags.

    Timing: a slot of cycle t is executed in t + 2 and written in t + 3. It sees all earlier results: results
    of the three slots before it are forwarded. `write` and what retires are registers.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "valid": In(1),
                "slot": In(slot_layout(config)),
                "acc": Out(scratchpad_read(config, MemoryType.ACC)),
                **({"operand": Out(scratchpad_read(config, MemoryType.ACC))} if has_shadow(config) else {}),
                "sums": In(sums_layout(config)),
                "drop": Out(1),
                "flying": Out(1),
                "write": Out(scratchpad_write(config, MemoryType.ACC)),
                **{name: Out(1) for name in ("retire", "push_prev", "push_next", "finish")},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        vector = accumulator_vector(self.config)
        valid, slots = self._stages(m)
        current, result = (Signal(vector, name=name, reset_less=True) for name in ("current", "result"))
        value = Signal(vector)
        m.d.comb += [
            self.acc.address.eq(self._index(self.slot.dst)),
            *([self.operand.address.eq(self._index(self.slot.src))] if has_shadow(self.config) else []),
            self.drop.eq(slots[READ].alu | slots[READ].reset),
            self.flying.eq(valid[READ] | valid[EXECUTED]),
        ]
        ends = valid[EXECUTED] & slots[EXECUTED].last
        m.d.sync += [
            self.retire.eq(ends),
            *(
                getattr(self, name).eq(ends & slots[EXECUTED][name])
                for name in ("push_prev", "push_next", "finish")
            ),
        ]
        m.submodules.alu = alu = VectorAlu(self.config)
        m.d.comb += [alu.slot.eq(slots[READ]), alu.value.eq(value), *advance(alu, valid[EXECUTED])]
        self._forward(m, valid, slots, alu, (current, value, result))
        self._update(m, alu, value, result)
        return m

    def _stages(self, m: Module) -> tuple[list[Value], list[data.View]]:
        """Chain the stages' registers."""
        valid, slots = [self.valid], [self.slot]
        for stage in (READ, EXECUTED, WRITTEN):
            following = Signal(slot_layout(self.config), name=f"slot_{stage}", reset_less=True)
            following_valid = Signal(name=f"valid_{stage}")
            m.d.sync += [following.eq(slots[-1]), following_valid.eq(valid[-1])]
            slots.append(following)
            valid.append(following_valid)
        return valid, slots

    def _index(self, index: Value) -> Value:
        return index[: self.config.index_bits(MemoryType.ACC)]

    def _forward(
        self,
        m: Module,
        valid: list[Value],
        slots: list[data.View],
        alu: VectorAlu,
        element: tuple[Value, Value, Value],
    ) -> None:
        """Build `current`, which lacks the result of the slot just before; `value`, which has it; and the
        write."""
        current, value, result = element
        earlier = Signal.like(result, name="earlier", reset_less=True)
        near, second, third, clears = (
            Signal(name=name, reset_less=True) for name in ("near", "second", "third", "clears")
        )
        writes = [valid[GIVEN] & ~slots[GIVEN].empty]
        for stage in (READ, EXECUTED, WRITTEN):
            writes.append(Signal(name=f"writes_{stage}"))
            m.d.sync += writes[-1].eq(writes[-2])
        index = [self._index(slot.dst) for slot in slots]
        if has_source_slots(self.config):
            self._fetch_operand(m, valid, slots, alu, result)
        elif self.config.alu_opcodes:
            self._read_operand(m, writes, slots, alu, (result, earlier))
        m.d.sync += [
            near.eq(writes[EXECUTED] & (index[EXECUTED] == index[READ])),
            second.eq(writes[EXECUTED] & (index[EXECUTED] == index[GIVEN])),
            third.eq(writes[WRITTEN] & (index[WRITTEN] == index[GIVEN])),
            clears.eq(slots[READ].reset | slots[READ].overwrite),
            current.eq(Mux(second | third, Mux(second, result, earlier), self.acc.data)),
            earlier.eq(result),
        ]
        m.d.comb += [
            value.eq(Mux(clears, 0, Mux(near, result, current))),
            self.write.address.eq(index[WRITTEN]),
            self.write.data.eq(result),
            self.write.enable.eq(writes[WRITTEN].replicate(lanes(self.config, MemoryType.ACC))),
        ]

    def _read_operand(
        self,
        m: Module,
        writes: list[Value],
        slots: list[data.View],
        alu: VectorAlu,
        results: tuple[Value, Value],
    ) -> None:
        """Give the ALU its second operand, with the results of the slots before it."""
        m.submodules.operand = operand = SourceOperand(self.config)
        index, source = ([self._index(slot[name]) for slot in slots] for name in ("dst", "src"))
        m.d.comb += [
            operand.given.eq(slots[GIVEN]),
            operand.slot.eq(slots[READ]),
            operand.read.as_value().eq(self.operand.data),
            operand.near.eq(writes[EXECUTED] & (index[EXECUTED] == source[READ])),
            operand.second.eq(writes[EXECUTED] & (index[EXECUTED] == source[GIVEN])),
            operand.third.eq(writes[WRITTEN] & (index[WRITTEN] == source[GIVEN])),
            operand.result.eq(results[0]),
            operand.earlier.eq(results[1]),
            alu.rights.eq(operand.rights),
        ]

    def _fetch_operand(
        self, m: Module, valid: list[Value], slots: list[data.View], alu: VectorAlu, result: Value
    ) -> None:
        """Give the ALU its second operand, of the source slot before it."""
        m.submodules.operand = operand = FetchedOperand(self.config)
        m.d.comb += [
            operand.slot.eq(slots[READ]),
            operand.fetches.eq(valid[EXECUTED] & slots[EXECUTED].source),
            operand.fetched.eq(valid[WRITTEN] & slots[WRITTEN].source),
            operand.result.eq(result),
            alu.rights.eq(operand.rights),
        ]

    def _update(self, m: Module, alu: VectorAlu, value: Value, result: Value) -> None:
        """Build `result`: a value of the ALU, or what was there and the sums, which are 0 unless a GEMM
        accumulates."""
        for index in range(self.config.batch * self.config.block_out):
            row, column = divmod(index, self.config.block_out)
            total = (value[index] + self.sums[row][column])[: self.config.acc_bits]
            taken = alu.results[lane_of(self.config, index)]
            m.d.sync += result[index].eq(Mux(alu.takes[piece_of(self.config, index)], taken, total))
