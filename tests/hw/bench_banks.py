"""Runs inside the simulator: the input scratchpad in banks, read by rows that are an odd number of elements
apart, against a list of words."""

import random

import cocotb
from cocotb.triggers import FallingEdge
from streams import configuration, packed, start

from vdla.hw.signatures import lanes
from vdla.hw.spec.vocabulary import MemoryType

INP = MemoryType.INP


@cocotb.test()
async def test_elements_of_all_rows_are_read_two_cycles_after_their_addresses(dut):
    config, rng = configuration(), random.Random(4)
    depth, bits, rows = config.depth(INP), config.element_bits(INP), config.window.rows
    index, every = config.index_bits(INP), (1 << lanes(config, INP)) - 1
    await start(dut, "write__address", "write__data", "write__enable", "read__address")
    words = [rng.getrandbits(bits) for _ in range(depth)]
    for place in rng.sample(range(depth), depth):
        dut.write__address.value, dut.write__data.value, dut.write__enable.value = place, words[place], every
        await FallingEdge(dut.clk)
    dut.write__enable.value = 0
    due: list[list[int]] = []
    for cycle in range(400):
        first, apart = rng.randrange(depth), 2 * rng.randrange(depth // 2) + 1
        places = [(first + row * apart) % depth for row in range(rows)]
        dut.read__address.value = packed(places, index)
        due.append(places)
        await FallingEdge(dut.clk)
        if cycle:
            assert int(dut.read__data.value) == packed([words[place] for place in due[-2]], bits), cycle


@cocotb.test()
async def test_the_first_row_is_read_whatever_the_others_are(dut):
    config, rng = configuration(), random.Random(5)
    depth, bits, index = config.depth(INP), config.element_bits(INP), config.index_bits(INP)
    await start(dut, "write__address", "write__data", "write__enable", "read__address")
    for place in range(depth):
        dut.write__address.value, dut.write__data.value = place, place + 1
        dut.write__enable.value = (1 << lanes(config, INP)) - 1
        await FallingEdge(dut.clk)
    dut.write__enable.value = 0
    for _ in range(100):
        places = [rng.randrange(depth) for _ in range(config.window.rows)]
        dut.read__address.value = packed(places, index)
        for _ in range(2):
            await FallingEdge(dut.clk)
        mask = (1 << min(bits, 8 * lanes(config, INP) * config.bus_bytes)) - 1
        assert int(dut.read__data.value) & (1 << bits) - 1 == places[0] + 1 & mask
