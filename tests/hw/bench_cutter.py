"""Runs inside the simulator: BurstCutter, address by address and over whole runs of bytes."""

import random

import cocotb
from cocotb.triggers import Timer
from streams import configuration


async def cut(dut, address: int, remaining: int) -> tuple[int, int, int]:
    """Return size, beats and first beat of the first burst."""
    dut.address.value, dut.remaining.value = address, remaining
    await Timer(1, "ns")
    return int(dut.size.value), int(dut.beats.value), int(dut.first_beat.value)


def expected(config, address: int, remaining: int) -> tuple[int, int, int]:
    """Return what the first burst must be."""
    end = min(address + remaining, (address // config.burst_bytes + 1) * config.burst_bytes)
    beats = {byte // config.bus_bytes for byte in range(address, end)}
    return end - address, len(beats), min(beats) * config.bus_bytes


@cocotb.test()
async def test_a_burst_ends_at_the_next_boundary_or_with_the_bytes(dut):
    config, rng = configuration(), random.Random(1)
    around = [
        0,
        1,
        config.bus_bytes - 1,
        config.bus_bytes,
        config.burst_bytes - 1,
        config.burst_bytes,
        config.burst_bytes + 1,
    ]
    cases = [(4096 + offset, count) for offset in around for count in around if count]
    cases += [(rng.getrandbits(config.address_bits - 1), rng.randint(1, 60_000)) for _ in range(300)]
    for address, remaining in cases:
        assert await cut(dut, address, remaining) == expected(config, address, remaining), (
            address,
            remaining,
        )


@cocotb.test()
async def test_bursts_cover_every_byte_once(dut):
    address, remaining, covered = 4096 - 13, 3000, 0
    while remaining:
        size, _, _ = await cut(dut, address, remaining)
        address, remaining, covered = address + size, remaining - size, covered + size
    assert (address, covered) == (4096 - 13 + 3000, 3000)
