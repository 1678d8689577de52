"""Runs inside the simulator: the window of GATHERs against the rows' bytes, with beats that come at random."""

import random

import cocotb
from cocotb.triggers import FallingEdge, Timer
from dram import word
from streams import configuration, start

from vdla.hw.spec.vocabulary import MemoryType

INPUTS = ("start", "lane", "lane_stride", "step", "enable", "row_ends", "ends", "beat", "taken")
ROWS = (
    (0, 0, 3, 1, 40),
    (5, 3, 3, 4, 9),
    (7, 1, 16, 3, 5),
    (2, 90, 6, 3, 11),
    (1, 7, 255, 2, 4),
    (6, 13, 0, 3, 3),
    (3, 5, 8, 4, 1),
    (0, 8, 1, 2, 30),
)
"""First byte, bytes from row to row, step, rows, elements of each."""


def beats_of(config, first: int, stride: int, step: int, rows: int, count: int) -> list[int]:
    """Return the beats that the rows touch, row by row."""
    bus, size = config.bus_bytes, config.element_bytes(MemoryType.INP)
    begins = [first + y * stride for y in range(rows)]
    ends = [begin + (count - 1) * step + size - 1 for begin in begins]
    return [
        word(beat * bus, bus)
        for begin, end in zip(begins, ends, strict=True)
        for beat in range(begin // bus, end // bus + 1)
    ]


async def take(dut, first: int, stride: int, step: int) -> None:
    """Let the window begin with a GATHER."""
    bus = configuration().bus_bytes
    dut.start.value, dut.step.value = 1, step
    dut.lane.value, dut.lane_stride.value = first % bus, stride % bus
    await FallingEdge(dut.clk)
    dut.start.value = 0


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.4])
async def test_elements_come_in_order_and_all_beats_are_taken(dut, share):
    config, rng = configuration(), random.Random(1)
    size = config.element_bytes(MemoryType.INP)
    await start(dut, *INPUTS)
    for first, stride, step, rows, count in ROWS:
        await take(dut, first, stride, step)
        beats = beats_of(config, first, stride, step, rows, count)
        places, cycles = [(y, x) for y in range(rows) for x in range(count)], 0
        touched = len(beats)
        while places:
            y, x = places[0]
            dut.enable.value = int(rng.random() >= share)
            dut.row_ends.value, dut.ends.value = int(x == count - 1), int(len(places) == 1)
            dut.beat.value = beats[0] if beats else 0
            await Timer(1, "ns")
            assert beats or not int(dut.wants.value)
            if int(dut.enable.value) and int(dut.due.value):
                assert int(dut.element.value) == word(first + y * stride + x * step, size), (step, y, x)
                places.pop(0)
            takes = bool(beats) and rng.random() >= share and int(dut.wants.value)
            dut.taken.value = int(takes)
            if takes:
                beats.pop(0)
            await FallingEdge(dut.clk)
            cycles += 1
        assert not beats
        dut.enable.value = dut.taken.value = 0
        if not share:
            assert cycles <= max(touched, rows * count) + rows * (-(-size // config.bus_bytes) + 1)
