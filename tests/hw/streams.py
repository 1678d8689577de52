"""Runs inside the simulator: what the unit benches share."""

import os
import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

from vdla.hw.spec.files import load

CLOCK_NS = 10
LONGEST_WAIT = 5000  # cycles in which any bench's unit takes what it is offered


def configuration():
    """Return the configuration that the design was built for."""
    return load(os.environ["VDLA_CONFIG"])


async def start(dut, *inputs: str) -> None:
    """Set the inputs to zero, start the clock and reset; return between two rising edges."""
    for name in inputs:
        getattr(dut, name).value = 0
    dut.rst.value = 1
    cocotb.start_soon(Clock(dut.clk, CLOCK_NS, "ns").start())
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0


async def send(dut, name: str, payloads, share: float = 0.0, seed: int = 1) -> None:
    """Drive stream `name` with `payloads`, idle in a random `share` of the cycles; fail if a payload
    is not taken."""
    rng = random.Random(seed)
    valid, ready, payload = (getattr(dut, f"{name}__{part}") for part in ("valid", "ready", "payload"))
    for item in payloads:
        while rng.random() < share:
            await FallingEdge(dut.clk)
        valid.value, payload.value = 1, item
        await RisingEdge(dut.clk)
        for _ in range(LONGEST_WAIT):
            if int(ready.value):
                break
            await RisingEdge(dut.clk)
        else:
            raise AssertionError(f"{name} has not taken {item:#x} in {LONGEST_WAIT} cycles")
        await FallingEdge(dut.clk)
        valid.value = 0


async def receive(dut, name: str, into: list, share: float = 0.0, seed: int = 2) -> None:
    """Take from stream `name` into `into` for ever, not ready in a random `share` of the cycles."""
    rng = random.Random(seed)
    valid, ready, payload = (getattr(dut, f"{name}__{part}") for part in ("valid", "ready", "payload"))
    while True:
        ready.value = int(rng.random() >= share)
        await RisingEdge(dut.clk)
        if int(valid.value) and int(ready.value):
            into.append(int(payload.value))
        await FallingEdge(dut.clk)


def packed(values, bits: int) -> int:
    """Return integers (a list or an array) as a word, the first in its low bits."""
    flat = np.asarray(values, object).reshape(-1)
    return sum((int(value) & (1 << bits) - 1) << bits * place for place, value in enumerate(flat))


def unpack(layout, value: int) -> dict[str, int]:
    """Return the members of a packed payload."""
    return {name: value >> field.offset & (1 << field.width) - 1 for name, field in layout}
