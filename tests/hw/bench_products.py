"""Runs inside the simulator: the products of a multiplier array whose blocks have one input."""

import cocotb
import numpy as np
from bench_array import weights
from cocotb.triggers import FallingEdge
from streams import configuration, packed, start

from vdla.hw.gemm import dot_product_bits


def all_numbers(bits: int, count: int) -> np.ndarray:
    """Return every signed number of `bits` bits, `count` at a time; from the start again to fill the last."""
    numbers = np.arange(-(1 << bits - 1), 1 << bits - 1)
    return np.resize(numbers, (-(-len(numbers) // count), count))


@cocotb.test()
async def test_every_product_is_right_whatever_the_neighbouring_column_multiplies(dut):
    """All inputs meet all weights, in even and in odd columns; the other column's weights differ each time, and are
    the least beside the extremes."""
    config, rng, expected, measured = configuration(), np.random.default_rng(1), [], []
    await start(dut, "inp", "wgt", "drop")
    bits, columns = dot_product_bits(config), config.block_out // 2
    least, greatest = -(1 << config.wgt_bits - 1), (1 << config.wgt_bits - 1) - 1
    everything = all_numbers(config.wgt_bits, columns)
    for other, some in ((least, everything[[0, -1]]), (None, everything)):
        for chosen in some:
            for inputs in all_numbers(config.inp_bits, config.batch):
                inp, wgt = (np.zeros((rows, config.block_in), int) for rows in (config.batch, 2 * columns))
                inp[:, 0], wgt[::2, 0] = inputs, chosen
                wgt[1::2, 0] = (
                    rng.integers(least, greatest, columns, endpoint=True) if other is None else other
                )
                for columns_given in (wgt, wgt[np.arange(2 * columns) ^ 1]):
                    dut.inp.value = packed(inp, config.inp_bits)
                    dut.wgt.value = weights(config, columns_given)
                    expected.append(packed(inp @ columns_given.T, bits))
                    await FallingEdge(dut.clk)
                    measured.append(dut.sums.value)
    behind = config.gemm_stages - 1
    assert [int(sums) for sums in measured[behind:]] == expected[: len(expected) - behind]
