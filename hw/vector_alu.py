"""The ALU's lanes, and which values of an element they work on in each slot of a step."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.alu import AluLane, accumulator_vector
from vdla.hw.operand import choice, values_of
from vdla.hw.slots import advance, advance_port, has_source_slots, may_advance, slot_layout
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.timing import alu_delay


class VectorAlu(wiring.Component):
    """Compute ALU steps piece by piece: turn q of a step takes piece q of the operands, and gives piece
    q - `alu_delay` of the result.

    Parameters:
        config: the accelerator. There are batch x block_out / `alu_pieces` lanes. Lane j of a row computes
            column j of each piece.

    Members:
        slot: the slot of the next cycle; if that cycle has no slot, the next slot.
        advances: see `advance_port`.
        value: the accumulator that the slot of this cycle updates.
        rights: the lanes' second operands, see `SourceOperand`.
        results: of the lanes.
        takes: for each piece, whether `results` are its values; never in a source slot.

    Timing: one slot per cycle. The slots of a step follow each other without a gap where the accumulators
    have a shadow. Elsewhere nothing moves in cycles without a slot. `results` depend on
    `value`, `rights` and registers, `takes` on registers alone.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self.lanes = config.batch * config.block_out // config.alu_pieces
        super().__init__(
            {
                "slot": In(slot_layout(config)),
                **advance_port(config),
                "value": In(accumulator_vector(config)),
                "rights": In(data.ArrayLayout(signed(config.acc_bits), self.lanes)),
                "results": Out(data.ArrayLayout(signed(config.acc_bits), self.lanes)),
                "takes": Out(config.alu_pieces),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pieces, starts, first = self.config.alu_pieces, Signal(), Signal(reset_less=True)
        m.d.comb += starts.eq(self.slot.turn == 0)
        m.d.sync += [
            first.eq(starts),
            self.takes.eq(Cat(self._takes(piece) for piece in range(pieces))),
        ]
        for number in range(self.lanes):
            m.submodules[f"lane_{number}"] = lane = AluLane(self.config)
            values = values_of(self.config, self.value, number)
            left = values[0]
            if pieces > 1:
                kept = self._register(m, choice(values, self.slot.turn), f"left_{number}")
                left = Mux(first, values[0], kept)
            m.d.comb += [
                lane.opcode.eq(self.slot.alu_opcode),
                *advance(lane, may_advance(self)),
                lane.left.eq(left),
                lane.right.eq(self.rights[number]),
                self.results[number].eq(lane.result),
            ]
        return m

    def _takes(self, piece: int) -> Value:
        """Return whether the next slot gives `piece` of the result."""
        due = (
            (self.slot.alu_opcode == opcode)
            & (self.slot.turn == piece + alu_delay(opcode, self.config.alu_stages))
            for opcode in self.config.alu_opcodes
        )
        source = self.slot.source if has_source_slots(self.config) else Const(0, 1)
        return self.slot.alu & ~source & Cat(due).any()

    def _register(self, m: Module, value: Value, name: str) -> Signal:
        register = Signal(value.shape(), name=name, reset_less=True)
        with m.If(may_advance(self)):
            m.d.sync += register.eq(value)
        return register
