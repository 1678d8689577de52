"""Runs inside the simulator: TokenCounter of depth 2, against a pure model, on random legal traffic."""

import random

import cocotb
from cocotb.triggers import FallingEdge
from streams import start


@cocotb.test()
async def test_counter_follows_the_model(dut):
    await start(dut, "sink__reserve", "sink__push", "source__pop")
    rng, held, reserved, full = random.Random(0), 0, 0, 0
    for _ in range(2000):
        assert int(dut.source__available.value) == (held > 0)
        assert int(dut.sink__room.value) == (held + reserved < 2)
        reserve = int(held + reserved < 2 and rng.random() < 0.6)
        push, pop = int(reserved > 0 and rng.random() < 0.5), int(held > 0 and rng.random() < 0.4)
        dut.sink__reserve.value, dut.sink__push.value, dut.source__pop.value = reserve, push, pop
        await FallingEdge(dut.clk)
        held, reserved = held + push - pop, reserved + reserve - push
        full += held == 2
    assert full > 50
