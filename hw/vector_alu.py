"""The ALU's lanes, and which values of an element they work on in each slot of a step."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.alu import COMPARING, AluLane, accumulator_vector, is_one_of
from vdla.hw.sequencer import slot_layout
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.timing import alu_delay


def lane_of(config: AcceleratorConfig, value: int) -> int:
    """Return the lane that computes value `value` of an accumulator element."""
    row, column = divmod(value, config.block_out)
    at_once = config.block_out // config.alu_pieces
    return row * at_once + column % at_once


def piece_of(config: AcceleratorConfig, value: int) -> int:
    """Return the piece of an accumulator element to which its value `value` belongs."""
    return value % config.block_out // (config.block_out // config.alu_pieces)


class VectorAlu(wiring.Component):
    """Compute ALU steps piece by piece: turn q of a step takes piece q of the operands, and gives piece
    q - `alu_delay` of the result.

    Parameters:
        config: the accelerator. There are batch x block_out / `alu_pieces` lanes. Lane j of a row computes
            column j of each piece.

    Members:
        slot: the slot of the next cycle.
        value: the accumulator that the slot of this cycle reads: what it updates, or what a source slot
            fetches.
        results: of the lanes.
        takes: for each piece, whether `results` are its values.

    Timing: one slot per cycle. The slots of a step follow each other without a gap. `results` depend on
    `value` and registers, `takes` on registers alone.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self.lanes = config.batch * config.block_out // config.alu_pieces
        super().__init__(
            {
                "slot": In(slot_layout(config)),
                "value": In(accumulator_vector(config)),
                "results": Out(data.ArrayLayout(signed(config.acc_bits), self.lanes)),
                "takes": Out(config.alu_pieces),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pieces, starts, first = self.config.alu_pieces, Signal(), Signal(reset_less=True)
        inverts = Signal()
        m.d.comb += [
            starts.eq(self.slot.turn == 0),
            inverts.eq(is_one_of(self.slot.alu_opcode, COMPARING, self.config)),
        ]
        m.d.sync += [
            first.eq(starts),
            self.takes.eq(Cat(self._takes(piece) for piece in range(pieces))),
        ]
        for number in range(self.lanes):
            m.submodules[f"lane_{number}"] = lane = AluLane(self.config)
            values = [
                self.value[index] for index in range(len(self.value)) if lane_of(self.config, index) == number
            ]
            left = values[0]
            if pieces > 1:
                kept = _register(m, _choice(values, self.slot.turn), f"left_{number}")
                left = Mux(first, values[0], kept)
            m.d.comb += [
                lane.opcode.eq(self.slot.alu_opcode),
                lane.left.eq(left),
                lane.right.eq(self._right(m, values, starts, inverts, number)),
                self.results[number].eq(lane.result),
            ]
        return m

    def _right(self, m: Module, values: Sequence[Value], starts: Value, inverts: Value, number: int) -> Value:
        """Return a lane's second operand: the immediate, or what the source slot just before fetched.

        A register holds the pieces of the latter for the turns behind the first.
        """
        fetched = values[0]
        if len(values) > 1:
            held = [Signal.like(value, name=f"held_{number}", reset_less=True) for value in values[1:]]
            with m.If(starts & ~self.slot.use_imm):
                m.d.sync += [kept.eq(value) for kept, value in zip(held, values[1:], strict=True)]
            fetched = Mux(starts, fetched, _choice([held[0], *held], self.slot.turn))
        right = Mux(self.slot.use_imm, self.slot.imm, fetched)[: self.config.acc_bits]
        return _register(m, right ^ inverts.replicate(self.config.acc_bits), f"right_{number}")

    def _takes(self, piece: int) -> Value:
        """Return whether the next slot gives `piece` of the result."""
        due = (
            (self.slot.alu_opcode == opcode)
            & (self.slot.turn == piece + alu_delay(opcode, self.config.alu_stages))
            for opcode in self.config.alu_opcodes
        )
        return self.slot.alu & ~self.slot.source & Cat(due).any()


def _choice(values: Sequence[Value], place: Value) -> Value:
    """Return the value at `place` modulo their number, as a tree of multiplexers."""
    if len(values) == 1:
        return values[0]
    pairs = zip(values[::2], values[1::2], strict=True)
    return _choice([Mux(place[0], odd, even) for even, odd in pairs], place[1:])


def _register(m: Module, value: Value, name: str) -> Signal:
    register = Signal(value.shape(), name=name, reset_less=True)
    m.d.sync += register.eq(value)
    return register
