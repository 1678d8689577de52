"""Runs inside the simulator: the multiplier array against NumPy, a new product every cycle."""

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge
from streams import configuration, packed, start

from vdla.hw.gemm import dot_product_bits
from vdla.hw.window import input_groups


def weights(config, wgt: np.ndarray) -> int:
    """Return a weight element as the array takes it: packed, with half a weight's range added to every even
    column's."""
    given = wgt.copy()
    if config.packed_bits:
        given[::2] += 1 << config.wgt_bits - 1
    return packed(given, config.wgt_bits)


@cocotb.test()
async def test_sums_follow_their_operands_by_the_stages_and_are_dropped_on_request(dut):
    config, rng = configuration(), np.random.default_rng(0)
    await start(dut, "inp", "wgt", "drop")
    bits, groups, expected = dot_product_bits(config), input_groups(config), []
    for cycle in range(40):
        inp = rng.integers(
            -(1 << config.inp_bits - 1), 1 << config.inp_bits - 1, (config.batch, groups, config.block_in)
        )
        wgt = rng.integers(
            -(1 << config.wgt_bits - 1), 1 << config.wgt_bits - 1, (config.block_out, config.block_in)
        )
        if cycle == 3:  # the greatest sum there is
            inp[:], wgt[:] = -(1 << config.inp_bits - 1), -(1 << config.wgt_bits - 1)
        dut.inp.value, dut.wgt.value = packed(inp, config.inp_bits), weights(config, wgt)
        column_inputs = np.repeat(inp, config.block_out // groups, axis=1)  # of every column
        expected.append(packed((column_inputs * wgt).sum(axis=2), bits))
        drop = cycle % 7 == 5
        dut.drop.value = int(drop)
        await FallingEdge(dut.clk)
        if cycle >= config.gemm_stages - 1:
            assert int(dut.sums.value) == (0 if drop else expected[cycle - config.gemm_stages + 1]), cycle
