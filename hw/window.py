"""The inputs that stand at the multiplier array: an element, or the window of a DEPTHWISE."""

from itertools import product

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.signatures import has_banks, input_read
from vdla.hw.slots import advance_port, may_advance, width_of_field
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension
from vdla.hw.spec.window import window_columns


def input_groups(config: AcceleratorConfig) -> int:
    """Return how many groups of columns of the array have separate inputs: a group is the columns that share
    the channels of a window, where there is a window, else all columns."""
    return config.block_out // config.window.channels if config.has(Extension.DEPTHWISE) else 1


def operand_layout(config: AcceleratorConfig) -> data.ArrayLayout:
    """Return the layout of the array's inputs: [batch][input_groups][block_in]."""
    row = data.ArrayLayout(signed(config.inp_bits), config.block_in)
    return data.ArrayLayout(data.ArrayLayout(row, input_groups(config)), config.batch)


def window_ports(config: AcceleratorConfig) -> dict[str, wiring.Member]:
    """Return the members of `InputWindow` that tell of the window of a slot, by the fields of the slot."""
    if not config.has(Extension.DEPTHWISE):
        return {}
    extents = ("more_rows", "wide") if has_banks(config) else ()
    return {"window": In(1), **{name: In(width_of_field(name, config)) for name in extents}}


class InputWindow(wiring.Component):
    """Hold the inputs of the array in registers.

    In a GEMM all columns have the inputs of the first element. In a DEPTHWISE each group of columns has the
    terms of `Window` that its window has; its other inputs are 0. The slot has the element of the last column
    of the window, the slot before it the element of the column before, and so on.

    Parameters:
        config: the accelerator.

    Members:
        element: input[rows][batch][block_in], as the scratchpad gives it.
        window: the slot belongs to a DEPTHWISE.
        more_rows, wide: fields of the DEPTHWISE, where INP has banks.
        advances: see `advance_port`.
        operands: of the array.

    Timing: `operands` follow their element by a cycle. A row begins with slots that fill the window. No
    reset.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "element": input_read(config).members["data"],
                **window_ports(config),
                **advance_port(config),
                "operands": Out(operand_layout(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rows = [self._columns(m, row) for row in range(self.config.window.rows)]
        kept = self._kept() if has_banks(self.config) else {}
        operands = Signal(operand_layout(self.config), name="operand", reset_less=True)
        for row in range(self.config.batch):
            for group in range(input_groups(self.config)):
                for k in range(self.config.block_in):
                    operand = rows[0][0][row][k]
                    if self.config.has(Extension.DEPTHWISE):
                        operand = Mux(self.window, self._input(rows, kept, row, group, k), operand)
                    m.d.sync += operands[row][group][k].eq(operand)
        m.d.comb += self.operands.eq(operands)
        return m

    def _columns(self, m: Module, row: int) -> list[data.View]:
        """Return the elements of a row of the window, the newest first."""
        shape = data.ArrayLayout(
            data.ArrayLayout(signed(self.config.inp_bits), self.config.block_in), self.config.batch
        )
        columns = [data.View(shape, self.element[row] if has_banks(self.config) else self.element)]
        for age in range(1, self.config.window.columns if self.config.has(Extension.DEPTHWISE) else 1):
            older = Signal(shape, name=f"{f'row_{row}_' * bool(row)}column_{age}", reset_less=True)
            with m.If(may_advance(self)):
                m.d.sync += older.eq(columns[-1])
            columns.append(older)
        return columns

    def _kept(self) -> dict[tuple[int, int], Value]:
        """Return whether the window of the slot has an element, by row and age."""
        window = self.config.window
        return {
            (row, age): (self.more_rows >= row if row else Const(1)) & (self.wide | (age < window_columns(0)))
            for row, age in product(range(window.rows), range(window.columns))
        }

    def _input(
        self, rows: list[list[data.View]], kept: dict[tuple[int, int], Value], row: int, group: int, k: int
    ) -> Value:
        """Return input `k` of a group of columns in a DEPTHWISE."""
        window = self.config.window
        if k >= window.inputs:
            return Const(0)
        at, within = divmod(k, window.channels * window.columns)
        channel, column = divmod(within, window.columns)
        age = window.columns - 1 - column
        value = rows[at][age][row][window.channels * group + channel]
        return Mux(kept[at, age], value, 0) if kept else value
