"""The compute unit's pipeline: micro-op, operands, multiplier array, accumulator."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.alu import AluLane, accumulator_vector
from vdla.hw.gemm import MultiplierArray
from vdla.hw.layouts import decode
from vdla.hw.sequencer import slot_layout
from vdla.hw.signatures import lanes, scratchpad_read, scratchpad_write
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.timing import execute_stage, retire_stage
from vdla.hw.spec.vocabulary import MemoryType

Stage = tuple[Value, data.View]  # whether it holds a step, and the step


class Pipeline(wiring.Component):
    """Execute slots in order, one per cycle, without ever stalling.

    Parameters:
        config: the accelerator.

    Members:
        valid, slot: a slot issued in this cycle; its indices are loop offsets.
        uop: the micro-op memory's read data for the slot of the cycle before.
        inp, wgt, acc: scratchpad reads.
        write: the accumulator's write port.
        busy: a slot is in flight.
        retire: the last slot of an instruction is being written; with the instruction's `push_prev`,
            `push_next` and `finish`.
        overrun: a step's index is past the end of its scratchpad (it wraps).

    Timing: a slot issued in cycle t meets its accumulator in t + 3 + gemm_stages and is written one cycle
    later. Results of the two slots before it are forwarded, so every slot sees all earlier results.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "valid": In(1),
                "slot": In(slot_layout(config)),
                "uop": In(config.element_bits(MemoryType.UOP)),
                "inp": Out(scratchpad_read(config, MemoryType.INP)),
                "wgt": Out(scratchpad_read(config, MemoryType.WGT)),
                "acc": Out(scratchpad_read(config, MemoryType.ACC)),
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
        valid, slots = self._slots(m)
        execute = execute_stage(self.config.gemm_stages)
        m.submodules.array = array = MultiplierArray(self.config)
        m.d.comb += [
            self.inp.address.eq(slots[2].src),
            self.wgt.address.eq(slots[2].wgt),
            array.inp.as_value().eq(self.inp.data),
            array.wgt.as_value().eq(self.wgt.data),
            self.acc.address.eq(self._acc_index(slots[execute - 1])),
            self.busy.eq(Cat(valid[1:]).any()),
            self.overrun.eq(valid[2] & self._overruns(slots[2])),
        ]
        self._accumulate(
            m, (valid[execute], slots[execute]), (valid[execute + 1], slots[execute + 1]), array.sums
        )
        final = slots[execute + 1]
        m.d.comb += [
            self.retire.eq(valid[execute + 1] & final.last),
            *(
                getattr(self, name).eq(self.retire & final[name])
                for name in ("push_prev", "push_next", "finish")
            ),
        ]
        return m

    def _slots(self, m: Module) -> tuple[list[Value], list[data.View]]:
        """Chain the stages' registers; from stage 2 on the indices are sums of micro-op and offset."""
        valid, slots = [self.valid], [self.slot]
        for stage in range(1, retire_stage(self.config.gemm_stages) + 1):
            following = Signal(slot_layout(self.config), name=f"slot_{stage}", reset_less=True)
            following_valid = Signal(name=f"valid_{stage}")
            m.d.sync += [following.eq(slots[-1]), following_valid.eq(valid[-1])]
            if stage == 2:
                uop = decode(isa.MicroOp, self.config, self.uop)
                m.d.sync += [
                    following[name].eq(slots[-1][name] + getattr(uop, name)) for name in ("dst", "src", "wgt")
                ]
            slots.append(following)
            valid.append(following_valid)
        return valid, slots

    def _acc_index(self, slot: data.View) -> Value:
        """Return the accumulator that `slot` reads: its operand in a source slot, else its destination."""
        return Mux(slot.source, slot.src, slot.dst)[: self.config.index_bits(MemoryType.ACC)]

    def _overruns(self, slot: data.View) -> Value:
        acc, inp, wgt = (
            self.config.index_bits(memory) for memory in (MemoryType.ACC, MemoryType.INP, MemoryType.WGT)
        )
        multiplies = ~slot.alu & ~slot.reset
        return ~slot.empty & (
            slot.dst[acc:].any()
            | (slot.source & slot.src[acc:].any())
            | (multiplies & (slot.src[inp:].any() | slot.wgt[wgt:].any()))
        )

    def _accumulate(self, m: Module, executing: Stage, writing: Stage, sums: data.View) -> None:
        """Build the read-modify-write: execute stage, write stage and the forwarding between them."""
        vector = accumulator_vector(self.config)
        (valid, slot), (write_valid, write_slot) = executing, writing
        result, operand, earlier = (
            Signal(vector, name=name, reset_less=True) for name in ("result", "operand", "earlier")
        )
        earlier_valid, earlier_index = Signal(), Signal.like(self.acc.address)
        index, write_index = self._acc_index(slot), self._acc_index(write_slot)
        writes = Signal()
        current = Signal(vector)
        m.d.comb += [
            writes.eq(write_valid & ~write_slot.empty & ~write_slot.source),
            current.as_value().eq(self.acc.data),
            self.write.address.eq(write_index),
            self.write.data.eq(result),
            self.write.enable.eq(writes.replicate(lanes(self.config, MemoryType.ACC))),
        ]
        with m.If(writes & (write_index == index)):
            m.d.comb += current.eq(result)
        with m.Elif(earlier_valid & (earlier_index == index)):
            m.d.comb += current.eq(earlier)
        m.d.sync += [earlier.eq(result), earlier_valid.eq(writes), earlier_index.eq(write_index)]
        with m.If(valid & slot.source):
            m.d.sync += operand.eq(current)
        m.d.sync += self._update(m, slot, result, current, operand, sums)

    def _update(
        self, m: Module, slot: data.View, result: Value, current: Value, operand: Value, sums: data.View
    ) -> list[Value]:
        """Return the assignments of the next `result`, value by value."""
        statements = []
        for index in range(self.config.batch * self.config.block_out):
            row, column = divmod(index, self.config.block_out)
            lane = AluLane(self.config)
            m.submodules[f"alu_{index}"] = lane
            m.d.comb += [
                lane.opcode.eq(slot.alu_opcode),
                lane.left.eq(current[index]),
                lane.right.eq(Mux(slot.use_imm, slot.imm, operand[index])),
            ]
            multiplied = Mux(slot.reset, 0, Mux(slot.overwrite, 0, current[index]) + sums[row][column])
            statements.append(result[index].eq(Mux(slot.alu, lane.result, multiplied)))
        return statements
