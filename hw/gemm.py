"""The multiplier array of the GEMM core."""

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.spec.config import AcceleratorConfig


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
            products, the others spread over the levels of the adder tree.

    Members:
        inp: input[batch][block_in].
        wgt: weight[block_out][block_in].
        drop: make the sums of the next cycle 0.
        sums: exact dot products [batch][block_out], not yet accumulated.

    Timing: one product of blocks per cycle; `sums` follows its operands by `gemm_stages` cycles. No reset, no
    stall.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "inp": In(_matrix(config.inp_bits, config.batch, config.block_in)),
                "wgt": In(_matrix(config.wgt_bits, config.block_out, config.block_in)),
                "drop": In(1),
                "sums": Out(sums_layout(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for row in range(self.config.batch):
            for column in range(self.config.block_out):
                products = [self.inp[row][k] * self.wgt[column][k] for k in range(self.config.block_in)]
                m.d.comb += self.sums[row][column].eq(self._sum(m, products, f"r{row}_c{column}"))
        return m

    def _sum(self, m: Module, terms: list[Value], name: str) -> Value:
        """Add `terms` in a binary tree, with registers after the levels that `_registers_after` names."""
        for level, registers in enumerate(self._registers_after()):
            if level:
                terms = [left + right for left, right in zip(terms[::2], terms[1::2], strict=True)]
            for stage in range(registers):
                if len(terms) == 1 and stage == registers - 1:
                    terms = [Mux(self.drop, Const(0, terms[0].shape()), terms[0])]
                terms = [
                    _register(m, term, f"{name}_l{level}_{stage}_{index}") for index, term in enumerate(terms)
                ]
        return terms[0]

    def _registers_after(self) -> list[int]:
        """Return the registers after the products and after each adder level; they sum to the stages."""
        levels = (self.config.block_in - 1).bit_length()
        counts = [0] * (levels + 1)
        stages = self.config.gemm_stages
        counts[-1] += 1
        if stages > 1:
            counts[0] += 1
        spread = max(0, stages - 2)
        for index in range(spread):
            counts[(index + 1) * levels // (spread + 1)] += 1
        return counts


def _matrix(bits: int, rows: int, columns: int) -> data.ArrayLayout:
    return data.ArrayLayout(data.ArrayLayout(signed(bits), columns), rows)


def _register(m: Module, value: Value, name: str) -> Signal:
    register = Signal(value.shape(), name=name, reset_less=True)
    m.d.sync += register.eq(value)
    return register
