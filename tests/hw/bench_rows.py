"""Runs inside the simulator: RowCutter, address by address and over whole rows."""

import random

import cocotb
from cocotb.triggers import Timer
from streams import configuration


async def cut(dut, config, address: int, remaining: int) -> tuple[int, int]:
    """Return the size and the beats of the first burst, after a look at what it says of the rest."""
    dut.offset.value, dut.last.value = address % config.burst_bytes, remaining - 1
    await Timer(1, "ns")
    ends = int(dut.ends.value)
    size = remaining if ends else remaining - int(dut.rest.value) - 1
    return size, int(dut.beats.value)


def expected(config, address: int, remaining: int) -> tuple[int, int]:
    """Return what the first burst must be."""
    end = min(address + remaining, (address // config.burst_bytes + 1) * config.burst_bytes)
    return end - address, len({byte // config.bus_bytes for byte in range(address, end)})


@cocotb.test()
async def test_a_burst_ends_at_the_next_boundary_or_with_the_row(dut):
    config, rng = configuration(), random.Random(1)
    bus, burst = config.bus_bytes, config.burst_bytes
    around = sorted({0, 1, bus - 1, bus, bus + 1, burst - 1, burst, burst + 1, 2 * burst})
    cases = [(offset, count) for offset in around for count in around if count]
    cases += [(rng.randrange(burst), rng.randint(1, 1 << rng.randint(1, 20))) for _ in range(300)]
    for address, remaining in cases:
        case = (address, remaining)
        assert await cut(dut, config, *case) == expected(config, *case), case


@cocotb.test()
async def test_bursts_cover_every_byte_once(dut):
    config, address, remaining, covered = configuration(), 4096 - 13, 3000, 0
    while remaining:
        size, _ = await cut(dut, config, address, remaining)
        address, remaining, covered = address + size, remaining - size, covered + size
        assert not remaining or address % config.burst_bytes == 0
    assert covered == 3000
