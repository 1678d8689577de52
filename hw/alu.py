"""The vector ALU: one combinational lane per accumulator value."""

from amaranth.hdl import Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode


def accumulator_vector(config: AcceleratorConfig) -> data.ArrayLayout:
    """Return the layout of one accumulator element: batch * block_out signed values, row by row."""
    return data.ArrayLayout(signed(config.acc_bits), config.batch * config.block_out)


class AluLane(wiring.Component):
    """Apply one operation to two accumulator values, as `vdla.hw.spec.numerics.alu` defines it.

    Parameters:
        config: the accelerator; only the operations in `alu_opcodes` are built, others give `left`.

    Timing: combinational.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        value = signed(config.acc_bits)
        super().__init__({"opcode": In(3), "left": In(value), "right": In(value), "result": Out(value)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        results = {
            AluOpcode.MIN: Mux(self.left < self.right, self.left, self.right),
            AluOpcode.MAX: Mux(self.left < self.right, self.right, self.left),
            AluOpcode.ADD: self.left + self.right,
            AluOpcode.SHR: self._shift(m) if AluOpcode.SHR in self.config.alu_opcodes else None,
            AluOpcode.MUL: self.left * self.right,
        }
        m.d.comb += self.result.eq(self.left)
        with m.Switch(self.opcode):
            for opcode in self.config.alu_opcodes:
                with m.Case(opcode):
                    m.d.comb += self.result.eq(results[opcode])
        return m

    def _shift(self, m: Module) -> Value:
        """Build the bidirectional shifter and return its result."""
        width = self.config.acc_bits
        magnitude, whole = Signal(unsigned(width)), Signal()
        amount = Signal(range(width))
        m.d.comb += [
            magnitude.eq(Mux(self.right < 0, -self.right, self.right)),
            whole.eq(magnitude >= width),
            amount.eq(magnitude),
        ]
        left = Mux(whole, 0, (self.left << amount)[:width].as_signed())
        right = Mux(whole, self.left >> (width - 1), self.left >> amount)
        return Mux(self.right < 0, left, right)
