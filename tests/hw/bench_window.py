"""Runs inside the simulator: the inputs of the array against a list of the elements that came, one every
cycle; where there may be gaps, with others between them."""

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge
from streams import configuration, packed, start

from vdla.hw.slots import advance_port
from vdla.hw.spec.vocabulary import Extension
from vdla.hw.window import input_groups


@cocotb.test()
async def test_every_pair_of_columns_has_the_last_three_elements_of_its_channels_or_the_whole_element(dut):
    config, rng = configuration(), np.random.default_rng(0)
    slides, groups = config.has(Extension.DEPTHWISE), input_groups(config)
    assert groups == (config.block_out // 2 if slides else 1)
    await start(dut, "element", "window", *advance_port(config))
    elements = []
    for cycle in range(60):
        most = 1 << config.inp_bits - 1
        for _ in range(int(rng.integers(3)) if advance_port(config) else 0):
            dut.advances.value, dut.element.value = 0, packed(elements[0], config.inp_bits) if elements else 0
            await FallingEdge(dut.clk)
        if advance_port(config):
            dut.advances.value = 1
        elements.append(rng.integers(-most, most, (config.batch, config.block_in)))
        window = int(slides and cycle % 8 > 2)
        dut.element.value, dut.window.value = packed(elements[-1], config.inp_bits), window
        await FallingEdge(dut.clk)
        expected = np.repeat(elements[-1][:, None], groups, axis=1)
        if window:
            recent = np.stack(elements[-3:])
            expected[:] = 0
            for pair in range(groups):
                for k in range(6):
                    expected[:, pair, k] = recent[k % 3, :, 2 * pair + k // 3]
        assert int(dut.operands.value) == packed(expected, config.inp_bits), cycle
