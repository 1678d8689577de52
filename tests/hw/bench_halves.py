"""Runs inside the simulator: accumulators in two halves, written through both ports, against a list of
words."""

import random

import cocotb
from bench_scratchpad import merged
from cocotb.triggers import FallingEdge
from streams import configuration, start

from vdla.hw.signatures import lanes
from vdla.hw.spec.vocabulary import MemoryType

ACC = MemoryType.ACC
PORTS = ("write", "load")
INPUTS = (*(f"{port}__{name}" for port in PORTS for name in ("address", "data", "enable")), "read__address")


@cocotb.test()
async def test_both_ports_write_halves_of_their_own(dut):
    """Each port writes some cycles, in either half, and never both in one; reads may be in either."""
    config, rng, read, words = configuration(), random.Random(3), None, {}
    half = config.depth(ACC) // 2
    places = [0, 1, half // 2, half - 1]
    await start(dut, *INPUTS)
    for cycle in range(1500):
        if read is not None:
            assert int(dut.read__data.value) == words.get(read, 0), cycle
        upper, written = rng.randrange(2), {}
        for port, base in zip(PORTS, (upper * half, (1 - upper) * half), strict=True):
            place, value = base + rng.choice(places), rng.getrandbits(config.element_bits(ACC))
            enable = rng.getrandbits(lanes(config, ACC)) if rng.random() < 0.7 else 0
            getattr(dut, f"{port}__address").value = place if enable else rng.randrange(2 * half)
            getattr(dut, f"{port}__data").value, getattr(dut, f"{port}__enable").value = value, enable
            written[place] = merged(config, words.get(place, 0), value, enable)
        read = rng.choice(
            [base + place for base in (0, half) for place in places if base + place not in written]
        )
        dut.read__address.value = read
        await FallingEdge(dut.clk)
        words |= written


@cocotb.test()
async def test_a_load_into_the_half_that_is_written_does_nothing(dut):
    config = configuration()
    everything = (1 << lanes(config, ACC)) - 1
    await start(dut, *INPUTS)
    for port, place, value in (("write", 1, 0x11), ("load", 2, 0x22)):
        getattr(dut, f"{port}__address").value, getattr(dut, f"{port}__data").value = place, value
        getattr(dut, f"{port}__enable").value = everything
    await FallingEdge(dut.clk)
    dut.write__enable.value = dut.load__enable.value = 0
    for place, expected in ((1, 0x11), (2, 0)):
        dut.read__address.value = place
        await FallingEdge(dut.clk)
        assert int(dut.read__data.value) == expected
