"""Runs inside the simulator: the inputs of the array against a list of the elements that came, one of each row
every cycle; where there may be gaps, with others between them."""

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge
from streams import configuration, packed, start

from vdla.hw.signatures import has_banks
from vdla.hw.slots import advance_port
from vdla.hw.spec.vocabulary import Extension
from vdla.hw.window import input_groups, window_ports


@cocotb.test()
async def test_columns_have_the_last_elements_of_their_channels_or_the_whole_element(dut):
    config, rng = configuration(), np.random.default_rng(0)
    slides, groups, window = config.has(Extension.DEPTHWISE), input_groups(config), config.window
    assert groups == (config.block_out // window.channels if slides else 1)
    extents = ("more_rows", "wide") if has_banks(config) else ()
    await start(dut, "element", *window_ports(config), *advance_port(config))
    elements = []
    for cycle in range(80):
        most = 1 << config.inp_bits - 1
        for _ in range(int(rng.integers(3)) if advance_port(config) else 0):
            dut.advances.value, dut.element.value = 0, packed(elements[0], config.inp_bits) if elements else 0
            await FallingEdge(dut.clk)
        if advance_port(config):
            dut.advances.value = 1
        elements.append(rng.integers(-most, most, (window.rows, config.batch, config.block_in)))
        slot = {name: int(rng.integers(4 if name == "more_rows" else 2)) for name in extents}
        is_window = int(slides and cycle % 12 > 4)
        dut.element.value = packed(elements[-1], config.inp_bits)
        if slides:
            dut.window.value = is_window
        for name, value in slot.items():
            getattr(dut, name).value = value
        await FallingEdge(dut.clk)
        expected = np.repeat(elements[-1][0][:, None], groups, axis=1)
        if is_window:
            expected = windowed(config, elements, **slot)
        assert int(dut.operands.value) == packed(expected, config.inp_bits), cycle


def windowed(config, elements: list, more_rows: int = 0, wide: int = 0) -> np.ndarray:
    """Return the inputs of every group of columns: row by row, the channels of the last elements."""
    window, columns = config.window, 5 if wide else 3
    inputs = np.zeros((config.batch, input_groups(config), config.block_in), int)
    for row in range(min(window.rows, 1 + more_rows)):
        for channel in range(window.channels):
            for age in range(min(columns, window.columns)):
                place = (row * window.channels + channel) * window.columns + window.columns - 1 - age
                inputs[:, :, place] = elements[-1 - age][row][:, channel :: window.channels]
    return inputs
