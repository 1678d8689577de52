"""Runs inside the simulator: one ALU lane against the specification's arithmetic, a pair of operands every
cycle; where there may be gaps, with others between them."""

import random

import cocotb
from cocotb.triggers import FallingEdge, Timer
from streams import configuration, start

from vdla.hw.alu import COMPARING
from vdla.hw.slots import advance_port
from vdla.hw.spec import numerics
from vdla.hw.spec.timing import alu_delay

CORNERS = (0, 1, -1, 2, 5, 31, 32, 33, -31, -32, -33, 15, 16, 17, -15, -16, 127, -128, 32767, -32768)


def operands(bits: int) -> list[tuple[int, int]]:
    """Return pairs: corners, shifts by every distance, and random pairs."""
    rng, (low, high) = random.Random(0), (-(1 << bits - 1), (1 << bits - 1) - 1)
    values = [value for value in (*CORNERS, low, high, low + 1) if low <= value <= high]
    drawn = [(rng.randint(low, high), rng.randint(low, high)) for _ in range(200)]
    shifts = [(rng.randint(low, high), amount) for amount in range(-bits - 2, bits + 3) for _ in range(3)]
    return [(left, right) for left in values for right in values] + drawn + shifts


@cocotb.test()
async def test_every_operation_is_the_specification_s_and_comes_after_its_delay(dut):
    config = configuration()
    await start(dut, "opcode", "left", "right", *advance_port(config))
    mask = (1 << config.acc_bits) - 1
    for opcode in config.alu_opcodes:
        dut.opcode.value = int(opcode)
        await FallingEdge(dut.clk)
        pairs, delay = operands(config.acc_bits), alu_delay(opcode, config.alu_stages)
        for place in range(len(pairs) + delay):
            if advance_port(config):
                await gap(dut, place % 3)
            left, right = pairs[min(place, len(pairs) - 1)]
            dut.left.value, dut.right.value = left & mask, (~right if opcode in COMPARING else right) & mask
            if delay == 0:
                await Timer(1, "ns")
                check(dut, config, opcode, pairs[place])
            await FallingEdge(dut.clk)
            if delay and place >= delay - 1 and place - delay + 1 < len(pairs):
                check(dut, config, opcode, pairs[place - delay + 1])


async def gap(dut, cycles: int) -> None:
    """Let cycles pass in which nothing moves, whatever the operands are."""
    dut.advances.value = 0
    for _ in range(cycles):
        dut.left.value = dut.right.value = 0x5A5A
        await FallingEdge(dut.clk)
    dut.advances.value = 1


def check(dut, config, opcode, pair: tuple[int, int]) -> None:
    expected = numerics.alu(opcode, *pair, config.acc_bits)
    assert dut.result.value.to_signed() == expected, (opcode.name, *pair)
