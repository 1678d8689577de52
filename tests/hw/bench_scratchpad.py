"""Runs inside the simulator: the accumulators' scratchpad, written by lanes, against a list of words."""

import random

import cocotb
from cocotb.triggers import FallingEdge
from streams import configuration, start

from vdla.hw.signatures import lanes
from vdla.hw.spec.vocabulary import MemoryType

ACC = MemoryType.ACC


def merged(config, old: int, new: int, enable: int) -> int:
    """Return `old` with the enabled lanes of `new`."""
    bits = config.element_bits(ACC) // lanes(config, ACC)
    mask = sum((1 << bits) - 1 << bits * lane for lane in range(lanes(config, ACC)) if enable >> lane & 1)
    return old & ~mask | new & mask


@cocotb.test()
async def test_written_lanes_are_read_and_the_others_stay(dut):
    config, rng, read = configuration(), random.Random(3), None
    words, depth = {}, config.depth(ACC)
    places = [0, 1, depth // 2, depth - 2, depth - 1]
    await start(dut, "write__address", "write__data", "write__enable", "read__address")
    for cycle in range(600):
        if cycle and read is not None:
            assert int(dut.read__data.value) == words.get(read, 0), cycle
        place, value, enable = (
            rng.choice(places),
            rng.getrandbits(config.element_bits(ACC)),
            rng.getrandbits(lanes(config, ACC)),
        )
        read = rng.choice([other for other in places if other != place])  # a collision may give anything
        dut.write__address.value, dut.write__data.value, dut.write__enable.value = place, value, enable
        dut.read__address.value = read
        await FallingEdge(dut.clk)
        words[place] = merged(config, words.get(place, 0), value, enable)


@cocotb.test()
async def test_reset_keeps_what_is_held(dut):
    config = configuration()
    await start(dut, "write__address", "write__data", "write__enable", "read__address")
    dut.write__address.value, dut.write__data.value, dut.write__enable.value = (
        7,
        0x1234,
        (1 << lanes(config, ACC)) - 1,
    )
    await FallingEdge(dut.clk)
    dut.write__enable.value, dut.rst.value, dut.read__address.value = 0, 1, 7
    for _ in range(3):
        await FallingEdge(dut.clk)
    assert int(dut.read__data.value) == 0x1234
