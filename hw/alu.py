"""The vector ALU: a lane computes on one accumulator value at a time."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from vdla.hw.slots import advance_port, may_advance
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode

NARROW_MULTIPLIER_BITS = 18
"""Widest factors of one DSP block of ECP5; wider products take several."""
LOW_FACTOR_BITS = 17
"""Bits of the low part of a wider factor: an unsigned factor that a single DSP block of each family takes."""
COMPARING = (AluOpcode.MIN, AluOpcode.MAX)
"""The operations whose right operand comes inverted, so that the lane's adder subtracts."""


def accumulator_vector(config: AcceleratorConfig) -> data.ArrayLayout:
    """Return the layout of one accumulator element: batch * block_out signed values, row by row."""
    return data.ArrayLayout(signed(config.acc_bits), config.batch * config.block_out)


def is_one_of(opcode: Value, wanted: tuple[AluOpcode, ...], config: AcceleratorConfig) -> Value:
    """Return whether `opcode` is among the opcodes in `wanted` that the configuration has."""
    return Cat(opcode == member for member in wanted if member in config.alu_opcodes).any()


class AluLane(wiring.Component):
    """Apply one operation to two accumulator values, as `vdla.hw.spec.numerics.alu` defines it.

    Parameters:
        config: the accelerator; only the operations in `alu_opcodes` are built.

    Members:
        opcode: the operation of the next cycle; it holds from the cycle before the operands to that before
            the result.
        advances: see `advance_port`.
        left, right: the operands; `right` is inverted for MIN and MAX.
        result: the result.

    Timing: a pair of operands per cycle; the result follows them by `alu_delay` cycles, 0 of which are
    combinational. Where the accumulators have no shadow, cycles count only if `advances`. No reset.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        value = signed(config.acc_bits)
        super().__init__(
            {
                "opcode": In(3),
                **advance_port(config),
                "left": In(value),
                "right": In(value),
                "result": Out(value),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        opcodes = self.config.alu_opcodes
        result: Value = self.left
        if AluOpcode.SHR in opcodes:
            result = self._shifted(m)
        if AluOpcode.MUL in opcodes:
            result = Mux(self._registered(m, AluOpcode.MUL), self._product(m), result)
        if {AluOpcode.ADD, *COMPARING}.intersection(opcodes):
            result = self._added(m, result)
        m.d.comb += self.result.eq(result)
        return m

    def _registered(self, m: Module, *wanted: AluOpcode) -> Signal:
        """Return a register that tells whether the operation of this cycle is one of `wanted`."""
        flag = Signal(name="is_" + "_".join(member.name.lower() for member in wanted), reset_less=True)
        m.d.sync += flag.eq(is_one_of(self.opcode, wanted, self.config))
        return flag

    def _added(self, m: Module, others: Value) -> Value:
        """Build the adder of ADD, MIN and MAX; return the result, `others` where it is none of theirs."""
        compares, greatest = self._registered(m, *COMPARING), self._registered(m, AluOpcode.MAX)
        total, less = Signal(self.config.acc_bits + 2), Signal()
        m.d.comb += [
            total.eq(Cat(1, self.left, self.left[-1]) + Cat(compares, self.right, self.right[-1])),
            less.eq(total[-1]),
        ]
        unless_compared = Signal(self.config.acc_bits)
        m.d.comb += unless_compared.eq(Mux(self._registered(m, AluOpcode.ADD), total[1:-1], others))
        where_less, where_not = (
            Mux(compares, Mux(greatest ^ reversed_, ~self.right, self.left), unless_compared)
            for reversed_ in (False, True)
        )
        return Mux(less, where_less, where_not)

    def _shifted(self, m: Module) -> Value:
        """Build the shifter: a rotation to the right, in whose middle the second stage begins, then a mask.

        A shift to the left by n is a rotation to the right by -n, so the low bits of the operand say how far
        to rotate in both cases.
        """
        width, steps = self.config.acc_bits, exact_log2(self.config.acc_bits)
        coarse = steps // 2
        distance = self.right[:steps]
        turned, rest, leftwards, whole, fill = (
            self._staged(m, name, value)
            for name, value in {
                "turned": _rotated(m, self.left.as_unsigned(), distance, range(steps - coarse, steps)),
                "rest": distance,
                "leftwards": self.right[-1],
                "whole": _shifts_whole(self.right, width),
                "fill": self.left[-1] & ~self.right[-1],
            }.items()
        )
        kept = Signal(width)
        came_around = _exceeds(m, rest)[::-1]
        m.d.comb += kept.eq(~(came_around ^ leftwards.replicate(width)) & ~whole.replicate(width))
        return _rotated(m, turned, rest, range(steps - coarse)) & kept | fill.replicate(width) & ~kept

    def _product(self, m: Module) -> Value:
        """Build the multiplier: registers before products that each fit one DSP block, and a stage behind."""
        width = self.config.acc_bits
        low_bits = width if width <= NARROW_MULTIPLIER_BITS else LOW_FACTOR_BITS
        rest = width - low_bits
        left, right = (
            self._register(m, f"{side}_factor", value)
            for side, value in (("left", self.left), ("right", self.right))
        )
        low = self._staged(m, "low", (left[:low_bits] * right[:low_bits])[:width])
        if rest == 0:
            return low
        crossed = [_low_product(left[:rest], right[low_bits:]), _low_product(right[:rest], left[low_bits:])]
        if makes_products_of_logic(self.config):
            crossed[1:] = product_of_logic(right[:rest], left[low_bits:])
        addends = [self._staged(m, f"crossed_{index}", value) for index, value in enumerate(crossed)]
        halves = [low[low_bits:], *addends]
        return Cat(low[:low_bits], (sum(halves[::2]) + sum(halves[1::2]))[:rest])

    def _staged(self, m: Module, name: str, value: Value) -> Signal:
        """Return a value as the second stage sees it: a register if there is a second stage."""
        if self.config.alu_stages > 1:
            return self._register(m, name, value)
        staged = Signal(len(value), name=name)
        m.d.comb += staged.eq(value)
        return staged

    def _register(self, m: Module, name: str, value: Value) -> Signal:
        """Return a value as it was in the cycle before that counts."""
        register = Signal(len(value), name=name, reset_less=True)
        with m.If(may_advance(self)):
            m.d.sync += register.eq(value)
        return register


def makes_products_of_logic(config: AcceleratorConfig) -> bool:
    """Return whether lanes make one of three partial products of logic: where there is one lane for a row of
    the batch. Small cores have few DSP blocks, and one lane has few such products."""
    return config.alu_pieces == config.block_out and config.acc_bits > NARROW_MULTIPLIER_BITS


def _low_product(one: Value, other: Value) -> Value:
    """Return the low bits of a product, as many as a factor has."""
    return (one * other)[: len(one)]


def product_of_logic(one: Value, other: Value) -> list[Value]:
    """Return two values whose sum has the low bits of a product, as many as a factor has. A tree of adders
    computes them, so synthesis takes no DSP block; the last addition is left to the next stage."""
    bits = len(one)
    rows = [(index, one[: bits - index] & other[index].replicate(bits - index)) for index in range(bits)]
    while len(rows) > 2:
        pairs = zip(rows[::2], rows[1::2], strict=False)
        rows = [_row_sum(*pair) for pair in pairs] + rows[len(rows) & ~1 :]
    return [Cat(Const(0, weight), value) for weight, value in rows]


def _row_sum(lower: tuple[int, Value], upper: tuple[int, Value]) -> tuple[int, Value]:
    """Return the sum of two rows, each of which has a weight and all bits from there on."""
    weight, value = lower
    distance = upper[0] - weight
    return weight, Cat(value[:distance], (value[distance:] + upper[1])[: len(upper[1])])


def _rotated(m: Module, value: Value, distance: Value, steps: Sequence[int]) -> Value:
    """Return `value` rotated to the right by the bits of `distance` that `steps` names."""
    for step in reversed(steps):
        rotated = Signal(len(value), name=f"rotated_{1 << step}")
        m.d.comb += rotated.eq(Mux(distance[step], value.rotate_right(1 << step), value))
        value = rotated
    return value


def _exceeds(m: Module, value: Value) -> Signal:
    """Return for each number of as many bits whether `value` is greater: bit n for the number n."""
    below: Value = Const(0, 1)
    for place, bit in enumerate(value):
        exceeds = Signal(2 * len(below), name=f"exceeds_{place}")
        m.d.comb += exceeds.eq(Cat(below | bit.replicate(len(below)), below & bit.replicate(len(below))))
        below = exceeds
    return below


def _shifts_whole(amount: Value, width: int) -> Value:
    """Return whether a shift by `amount` to either side leaves nothing of `width` bits."""
    low, high = amount[: exact_log2(width)], amount[exact_log2(width) :]
    return Mux(amount[-1], ~high.all() | (low == 0), high.any())
