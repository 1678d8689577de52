"""The ALU's second operand: an immediate, or pieces of another accumulator."""

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.alu import COMPARING, accumulator_vector, is_one_of
from vdla.hw.slots import slot_layout
from vdla.hw.spec.config import AcceleratorConfig


def lane_of(config: AcceleratorConfig, value: int) -> int:
    """Return the lane that computes value `value` of an accumulator element."""
    row, column = divmod(value, config.block_out)
    at_once = config.block_out // config.alu_pieces
    return row * at_once + column % at_once


def piece_of(config: AcceleratorConfig, value: int) -> int:
    """Return the piece of an accumulator element to which its value `value` belongs."""
    return value % config.block_out // (config.block_out // config.alu_pieces)


def values_of(config: AcceleratorConfig, element: data.View, lane: int) -> list[Value]:
    """Return the values of an element that a lane computes, piece by piece."""
    return [element[index] for index in range(len(element)) if lane_of(config, index) == lane]


def choice(values: Sequence[Value], place: Value) -> Value:
    """Return the value at `place` modulo their number, as a tree of multiplexers."""
    if len(values) == 1:
        return values[0]
    pairs = zip(values[::2], values[1::2], strict=True)
    return choice([Mux(place[0], odd, even) for even, odd in pairs], place[1:])


class SourceOperand(wiring.Component):
    """Give each lane its second operand, for one slot per cycle.

    Every slot of a step reads element acc[src]. Turn 0 works on piece 0 of what it reads itself, turn q on
    piece q of what turn q - 1 has read. The element that is read may lack the results of the last three slots
    before turn 0. These results are forwarded, as far as the turn that reads can lack them. Turns of the step
    itself change no piece that is still to be read.

    Parameters:
        config: the accelerator.

    Members:
        given: the slot of the cycle after the next.
        slot: the slot of the next cycle.
        read: acc[src] as the scratchpad gives it for `slot`.
        near: the slot just before `slot` writes acc[src] of `slot`.
        second, third: the second or third slot before `given` writes acc[src] of `given`.
        result, earlier: the results of the second and the third slot before `slot`.
        rights: the operands of this cycle's slot; inverted where the lanes compare.

    Timing: the slots of a step follow each other without a gap. `rights` depend on registers and `result`,
    through one LUT.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self.lanes = config.batch * config.block_out // config.alu_pieces
        super().__init__(
            {
                "given": In(slot_layout(config)),
                "slot": In(slot_layout(config)),
                "read": In(accumulator_vector(config)),
                "near": In(1),
                "second": In(1),
                "third": In(1),
                "result": In(accumulator_vector(config)),
                "earlier": In(accumulator_vector(config)),
                "rights": Out(data.ArrayLayout(signed(config.acc_bits), self.lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._near, self._second, self._third, self._other, inverts = (
            Signal(name=name, reset_less=True)
            for name in ("takes_result", "takes_second", "takes_third", "takes_other", "inverts")
        )
        first = self.slot.turn == 0
        m.d.sync += [
            self._near.eq(self.near & first & ~self.slot.use_imm),
            self._second.eq(self.second),
            self._third.eq(self.third),
            self._other.eq(self.second | self.third | self.given.use_imm | (self.given.turn != 0)),
            inverts.eq(is_one_of(self.slot.alu_opcode, COMPARING, self.config)),
        ]
        for lane in range(self.lanes):
            operand = Signal(self.config.acc_bits, name=f"operand_{lane}", reset_less=True)
            result = values_of(self.config, self.result, lane)[0]
            m.d.sync += operand.eq(self._operand(m, first, lane))
            m.d.comb += self.rights[lane].eq(
                Mux(self._near, result, operand) ^ inverts.replicate(self.config.acc_bits)
            )
        return m

    def _operand(self, m: Module, first: Value, lane: int) -> Value:
        """Return a lane's operand for `slot`, but for the result of the slot just before the step.

        What the scratchpad reads passes one multiplexer with a registered choice.
        """
        read, result, earlier = (
            values_of(self.config, element, lane) for element in (self.read, self.result, self.earlier)
        )
        other = Mux(self._second, result[0], earlier[0])
        if len(read) > 1:
            kept = [
                self._kept(m, piece, f"kept_{lane}_{piece}", read, result, earlier)
                for piece in range(1, len(read))
            ]
            kept[0] = Mux(self._near, result[1], kept[0])
            other = Mux(first, other, choice([kept[0], *kept], self.slot.turn))
        other = Mux(self.slot.use_imm, self.slot.imm, other)
        return Mux(self._other, other[: self.config.acc_bits], read[0])

    def _kept(
        self, m: Module, piece: int, name: str, read: list[Value], result: list[Value], earlier: list[Value]
    ) -> Signal:
        """Return a register of a piece behind the first. Turn `piece` - 1 reads it for the turn after. A
        later turn lacks fewer results."""
        value = read[piece]
        if piece <= 3:
            value = Mux(self._third, earlier[piece], value)
        if piece <= 2:
            value = Mux(self._second, result[piece], value)
        kept = Signal.like(value, name=name, reset_less=True)
        m.d.sync += kept.eq(value)
        return kept


class FetchedOperand(wiring.Component):
    """Give each lane its second operand, for one slot per cycle, where source slots exist.

    A source slot comes before each step with two accumulators. Its result is what it has read, and is kept.

    Parameters:
        config: the accelerator.

    Members:
        slot: the slot of the next cycle; if that cycle has no slot, the next slot.
        fetches: this cycle's slot is a source slot.
        fetched: the slot of the cycle before was a source slot.
        result: of the slot of the cycle before.
        rights: the operands of this cycle's slot; inverted where the lanes compare.

    Timing: a step may begin in the cycle after its source slot, or later. `rights` depend on registers and
    `result`, through one LUT.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self.lanes = config.batch * config.block_out // config.alu_pieces
        super().__init__(
            {
                "slot": In(slot_layout(config)),
                "fetches": In(1),
                "fetched": In(1),
                "result": In(accumulator_vector(config)),
                "rights": Out(data.ArrayLayout(signed(config.acc_bits), self.lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        kept = Signal(accumulator_vector(self.config), reset_less=True)
        near, inverts = (Signal(name=name, reset_less=True) for name in ("takes_result", "inverts"))
        m.d.sync += [
            near.eq(self.fetches),
            inverts.eq(is_one_of(self.slot.alu_opcode, COMPARING, self.config)),
        ]
        with m.If(self.fetched):
            m.d.sync += kept.eq(self.result)
        for lane in range(self.lanes):
            operand = Signal(self.config.acc_bits, name=f"operand_{lane}", reset_less=True)
            results, pieces = (values_of(self.config, element, lane) for element in (self.result, kept))
            # Behind a source slot comes turn 0, two behind it turn 0 or 1.
            recent = [Mux(self.fetched, *pair) for pair in zip(results[:2], pieces[:2], strict=True)]
            source = choice([*recent, *pieces[2:]], self.slot.turn)
            m.d.sync += operand.eq(Mux(self.slot.use_imm, self.slot.imm, source))
            m.d.comb += self.rights[lane].eq(
                Mux(near, results[0], operand) ^ inverts.replicate(self.config.acc_bits)
            )
        return m
