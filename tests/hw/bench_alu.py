"""Runs inside the simulator: one ALU lane against the specification's arithmetic."""

import random

import cocotb
from cocotb.triggers import Timer
from streams import configuration

from vdla.hw.spec import numerics
from vdla.hw.spec.vocabulary import AluOpcode

CORNERS = (0, 1, -1, 2, 5, 31, 32, 33, -31, -32, -33, 15, 16, 17, -15, -16, 127, -128, 32767, -32768)


@cocotb.test()
async def test_every_operation_is_the_specification_s(dut):
    config, rng = configuration(), random.Random(0)
    low, high = -(1 << config.acc_bits - 1), (1 << config.acc_bits - 1) - 1
    values = [value for value in (*CORNERS, low, high, low + 1) if low <= value <= high]
    pairs = [(a, b) for a in values for b in values] + [
        (rng.randint(low, high), rng.randint(low, high)) for _ in range(200)
    ]
    for opcode in AluOpcode:
        dut.opcode.value = int(opcode)
        for left, right in pairs:
            dut.left.value, dut.right.value = (
                left & (1 << config.acc_bits) - 1,
                right & (1 << config.acc_bits) - 1,
            )
            await Timer(1, "ns")
            expected = (
                numerics.alu(opcode, left, right, config.acc_bits) if opcode in config.alu_opcodes else left
            )
            assert dut.result.value.to_signed() == expected, (opcode.name, left, right)
