"""The inputs that stand at the multiplier array: an element, or the window of a DEPTHWISE."""

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.slots import advance_port, may_advance
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import PAIR, TAPS
from vdla.hw.spec.vocabulary import Extension

WINDOW_INPUTS = TAPS * PAIR


def input_groups(config: AcceleratorConfig) -> int:
    """Return how many groups of columns of the array have inputs of their own: pairs, where there is a
    window, else one group."""
    return config.block_out // PAIR if config.has(Extension.DEPTHWISE) else 1


def operand_layout(config: AcceleratorConfig) -> data.ArrayLayout:
    """Return the layout of the array's inputs: [batch][input_groups][block_in]."""
    row = data.ArrayLayout(signed(config.inp_bits), config.block_in)
    return data.ArrayLayout(data.ArrayLayout(row, input_groups(config)), config.batch)


class InputWindow(wiring.Component):
    """Hold the inputs of the array in registers.

    In a GEMM all columns have the inputs of the element. In a DEPTHWISE the pair p of columns has, as inputs
    h * 3 + t, channel 2 * p + h of the element of t - 2 slots before; its other inputs are 0.

    Parameters:
        config: the accelerator.

    Members:
        element: input[batch][block_in], as the scratchpad gives it.
        window: it is that of a DEPTHWISE.
        advances: see `advance_port`.
        operands: of the array.

    Timing: `operands` follow their element by a cycle. A row begins with slots that fill the window. No
    reset.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "element": In(config.batch * config.block_in * config.inp_bits),
                "window": In(1),
                **advance_port(config),
                "operands": Out(operand_layout(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape = data.ArrayLayout(
            data.ArrayLayout(signed(self.config.inp_bits), self.config.block_in), self.config.batch
        )
        columns = [data.View(shape, self.element)]
        if self.config.has(Extension.DEPTHWISE):
            for age in range(1, TAPS):
                older = Signal(shape, name=f"column_{age}", reset_less=True)
                with m.If(may_advance(self)):
                    m.d.sync += older.eq(columns[-1])
                columns.append(older)
        operands = Signal(operand_layout(self.config), name="operand", reset_less=True)
        for row in range(self.config.batch):
            for group in range(input_groups(self.config)):
                for k in range(self.config.block_in):
                    m.d.sync += operands[row][group][k].eq(self._operand(columns, row, group, k))
        m.d.comb += self.operands.eq(operands)
        return m

    def _operand(self, columns: list[data.View], row: int, group: int, k: int) -> Value:
        """Return the next input `k` of a group of columns."""
        own: Value = columns[0][row][k]
        if not self.config.has(Extension.DEPTHWISE):
            return own
        if k >= WINDOW_INPUTS:
            return Mux(self.window, 0, own)
        channel, tap = PAIR * group + k // TAPS, k % TAPS
        return Mux(self.window, columns[TAPS - 1 - tap][row][channel], own)
