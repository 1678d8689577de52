"""The multiplier array of the GEMM core."""

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.packing import Packing, packing
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.window import input_groups, operand_layout


def dot_product_bits(config: AcceleratorConfig) -> int:
    """Return the width of an exact dot product of `block_in` inputs and weights."""
    return config.inp_bits + config.wgt_bits + (config.block_in - 1).bit_length()


def sums_layout(config: AcceleratorConfig) -> data.ArrayLayout:
    """Return the layout of the array's sums: [batch][block_out]."""
    row = data.ArrayLayout(signed(dot_product_bits(config)), config.block_out)
    return data.ArrayLayout(row, config.batch)


class MultiplierArray(wiring.Component):
    """Multiply `batch x block_in` inputs with `block_out x block_in` weights.

    Parameters:
        config: the accelerator; `gemm_stages` registers lie between operands and sums, the first after the
            products, the others spread over the levels of the adder tree. With `packed`, a multiplier gives
            the products of two columns, and a level of adders that parts their sums follows the trees.

    Members:
        inp: input[batch][input_groups][block_in]: each group of neighbouring columns has separate inputs.
        wgt: weight[block_out][block_in], as `biased` gives them.
        drop: make the sums of the next cycle 0.
        sums: exact dot products [batch][block_out], not yet accumulated.

    Timing: one product of blocks per cycle; `sums` follows its operands by `gemm_stages` cycles. No reset, no
    stall.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "inp": In(operand_layout(config)),
                "wgt": In(_matrix(config.wgt_bits, config.block_out, config.block_in)),
                "drop": In(1),
                "sums": Out(sums_layout(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for row in range(self.config.batch):
            if self.config.packed_bits:
                self._packed_row(m, row)
            else:
                self._row(m, row)
        return m

    def _row(self, m: Module, row: int) -> None:
        """Give each product of a row of inputs a multiplier."""
        *registers, final = registers_after(self.config.gemm_stages, self._levels)
        for column in range(self.config.block_out):
            inputs = self._inputs(row, column)
            products = [inputs[k] * self.wgt[column][k] for k in range(self.config.block_in)]
            total = _sum(m, products, f"r{row}_c{column}", [*registers, 0])
            self._give(m, row, column, total, final)

    def _packed_row(self, m: Module, row: int) -> None:
        """Give each two products of a row of inputs a multiplier, and part them behind its register."""
        way = packing(self.config)
        first, *tree, final = registers_after(self.config.gemm_stages, self._levels + 1)
        sums = [
            _sum(m, list(inputs), f"r{row}_inputs_{group}", [first, *tree])
            for group, inputs in enumerate(self.inp[row])
        ]
        for column in range(0, self.config.block_out, 2):
            name, weights = f"r{row}_c{column}", (self.wgt[column], self.wgt[column + 1])
            parts = [
                self._packed_product(
                    m, way, self._inputs(row, column)[k], [w[k] for w in weights], first, f"{name}_{k}"
                )
                for k in range(self.config.block_in)
            ]
            upper, carried, lower = (
                _sum(m, list(terms), f"{name}_part_{part}", [0, *tree])
                for part, terms in enumerate(zip(*parts, strict=True))
            )
            for place, total in enumerate(way.sums(upper, carried, lower, sums[self._group(column)])):
                self._give(m, row, column + place, total, final)

    def _give(self, m: Module, row: int, column: int, total: Value, registers: int) -> None:
        """Give a sum behind its registers, the last of which drops it where that is wanted."""
        given, name = self.sums[row][column], f"r{row}_c{column}_sum"
        before = _delayed(m, total[: len(given)].as_signed(), name, registers - 1)
        last = Signal(given.shape(), name=f"{name}_last", reset_less=True)
        m.d.sync += last.eq(Mux(self.drop, 0, before))
        m.d.comb += given.eq(last)

    def _packed_product(
        self, m: Module, way: Packing, factor: Value, weights: list[Value], registers: int, name: str
    ) -> tuple[Value, Value, Value]:
        """Multiply an input with two weights; return the parts of the product behind its registers."""
        product = _delayed(m, factor * way.factor(*weights), f"{name}_product", registers)
        low = _delayed(m, way.low_product(weights[1], factor), f"{name}_low", registers)
        return way.parts(product, low)

    def _group(self, column: int) -> int:
        """Return the group of columns to which a column belongs."""
        return column * input_groups(self.config) // self.config.block_out

    def _inputs(self, row: int, column: int) -> data.View:
        """Return the inputs of a column."""
        inputs: data.View = self.inp[row][self._group(column)]
        return inputs

    @property
    def _levels(self) -> int:
        """Levels of an adder tree over a block."""
        return (self.config.block_in - 1).bit_length()


def registers_after(stages: int, levels: int) -> list[int]:
    """Return the registers after the products and after each level of adders; they sum to the stages."""
    counts = [0] * (levels + 1)
    counts[-1] += 1
    if stages > 1:
        counts[0] += 1
    spread = max(0, stages - 2)
    for index in range(spread):
        counts[(index + 1) * levels // (spread + 1)] += 1
    return counts


def _sum(m: Module, terms: list[Value], name: str, registers: list[int]) -> Value:
    """Add `terms` in a binary tree, with `registers` after the terms and after each level."""
    for level, count in enumerate(registers):
        if level:
            terms = [left + right for left, right in zip(terms[::2], terms[1::2], strict=True)]
        terms = [_delayed(m, term, f"{name}_l{level}_{index}", count) for index, term in enumerate(terms)]
    return terms[0]


def _matrix(bits: int, rows: int, columns: int) -> data.ArrayLayout:
    return data.ArrayLayout(data.ArrayLayout(signed(bits), columns), rows)


def _delayed(m: Module, value: Value, name: str, registers: int) -> Value:
    """Return `value` behind a number of registers."""
    for stage in range(registers):
        register = Signal(value.shape(), name=f"{name}_{stage}", reset_less=True)
        m.d.sync += register.eq(value)
        value = register
    return value
