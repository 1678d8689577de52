"""Runs inside the simulator: the register file, against the table of registers and counters in Python."""

import random

import cocotb
from cocotb.triggers import FallingEdge, Timer
from streams import configuration, start

from vdla.hw.spec.registers import (
    COUNTERS,
    IDENTITY,
    OFFSETS,
    READ_CYCLES,
    REGISTERS,
    VERSION,
    Access,
    Control,
    Status,
)

INPUTS = (
    "port__address",
    "port__write",
    "port__write_data",
    "clear",
    "events",
    "running",
    "done",
    "fault",
    "invalid_index",
)


async def write(dut, name: str, value: int) -> None:
    dut.port__address.value, dut.port__write.value, dut.port__write_data.value = OFFSETS[name], 1, value
    await FallingEdge(dut.clk)
    dut.port__write.value = 0


async def read(dut, name: str) -> int:
    dut.port__address.value = OFFSETS[name]
    for _ in range(READ_CYCLES[name]):
        await FallingEdge(dut.clk)
    return int(dut.port__read_data.value)


@cocotb.test()
async def test_what_the_host_writes_it_reads_and_nothing_else_changes(dut):
    config = configuration()
    await start(dut, *INPUTS)
    values = {"IDENTITY": IDENTITY, "VERSION": VERSION, "CONFIG_DIGEST": int(config.digest[:8], 16)}
    for index, register in enumerate(REGISTERS):
        await write(dut, register.name, (0x9000_0000 + index) & ~Control.START)
        if register.access is Access.WRITE:
            values[register.name] = (0x9000_0000 + index) & ~Control.START
    for register in REGISTERS:
        assert await read(dut, register.name) == values.get(register.name, 0), register.name
    address = values["STREAM_ADDRESS"] | values["STREAM_ADDRESS_HIGH"] << 32
    assert int(dut.stream_address.value) == address & (1 << config.address_bits) - 1
    assert int(dut.stream_count.value) == values["STREAM_COUNT"]


@cocotb.test()
async def test_counters_count_their_own_events_from_the_last_clear(dut):
    await start(dut, *INPUTS)
    rng, counts = random.Random(5), dict.fromkeys(COUNTERS, 0)
    for length in (400, 150, 1, 20, 33):
        for cycle in range(length):
            await count(dut, counts, int(cycle == 0), rng.getrandbits(len(COUNTERS)))
        dut.clear.value = dut.events.value = 0
        for name, value in counts.items():
            assert await read(dut, name) == value, name


@cocotb.test()
async def test_counters_are_zero_after_reset_and_after_a_clear(dut):
    await start(dut, *INPUTS)
    for name in COUNTERS:
        assert await read(dut, name) == 0, name
    for _ in range(100):
        await count(dut, dict.fromkeys(COUNTERS, 0), 0, -1)
    for name in COUNTERS:
        await count(dut, dict.fromkeys(COUNTERS, 0), 1, -1)
        dut.clear.value = dut.events.value = 0
        assert await read(dut, name) == 0, name


@cocotb.test()
async def test_a_counter_is_read_exactly_while_it_counts(dut):
    """Every cycle has an event, or a random cycle does; what is read was true in a cycle of the read."""
    await start(dut, *INPUTS)
    rng, counts, names = random.Random(6), dict.fromkeys(COUNTERS, 0), list(COUNTERS)
    await count(dut, counts, 1, 0)
    for step in range(400):
        name, seen = rng.choice(names), []
        dut.port__address.value = OFFSETS[name]
        clear_at = rng.randrange(100)
        for cycle in range(READ_CYCLES[name]):
            events = -1 if step < 200 else rng.getrandbits(len(COUNTERS))
            await count(dut, counts, int(cycle == clear_at), events)
            seen.append(counts[name])
        assert int(dut.port__read_data.value) in seen, name


async def count(dut, counts: dict[str, int], clear: int, events: int) -> None:
    """Pass a cycle with `events`, those of all counters if -1, and count them in `counts`."""
    events &= (1 << len(COUNTERS)) - 1
    dut.clear.value, dut.events.value = clear, events
    await FallingEdge(dut.clk)
    for bit, name in enumerate(COUNTERS):
        counts[name] = 0 if clear else counts[name] + (events >> bit & 1)


@cocotb.test()
async def test_cycles_carry_into_the_high_word_until_the_next_start(dut):
    await start(dut, *INPUTS)
    await count(dut, dict.fromkeys(COUNTERS, 0), 1, 0)
    dut.clear.value, dut.running.value = 0, 1
    for high in range(1, 4):
        dut.cycles.value = 0xFFFF_FFF0
        for _ in range(20):
            await FallingEdge(dut.clk)
        assert await read(dut, "CYCLES_HIGH") == high
        assert await read(dut, "CYCLES") < 100
    for later in (False, True):  # cleared in the cycle of the carry, and in the next
        dut.cycles.value = 0xFFFF_FFFF
        await Timer(1, "ns")
        if later:
            await FallingEdge(dut.clk)
        dut.clear.value = 1
        await FallingEdge(dut.clk)
        dut.clear.value = 0
        assert await read(dut, "CYCLES_HIGH") == 0


@cocotb.test()
async def test_cycles_are_those_from_start_to_done(dut):
    await start(dut, *INPUTS)
    for length in (1, 2, 37):
        dut.clear.value = 1  # t0
        await FallingEdge(dut.clk)
        dut.clear.value, dut.running.value = 0, 1
        for _ in range(length):
            await FallingEdge(dut.clk)
        dut.running.value = 0  # done rises length + 1 cycles after t0
        for _ in range(3):
            await FallingEdge(dut.clk)
        assert await read(dut, "CYCLES") == length + 1
        assert await read(dut, "CYCLES_HIGH") == 0


@cocotb.test()
async def test_start_is_a_pulse_of_its_own_bit(dut):
    await start(dut, *INPUTS)
    for name, value, starts in (
        ("CONTROL", Control.START, 1),
        ("CONTROL", Control.CLEAR_INTERRUPT, 0),
        ("STREAM_COUNT", 1, 0),
    ):
        dut.port__address.value, dut.port__write.value, dut.port__write_data.value = (
            OFFSETS[name],
            1,
            int(value),
        )
        await Timer(1, "ns")
        assert int(dut.start.value) == starts
        await FallingEdge(dut.clk)
    dut.port__write.value = 0
    assert await read(dut, "CONTROL") == 0


@cocotb.test()
@cocotb.parametrize(enabled=[0, 1])
async def test_interrupt_rises_once_for_each_run_where_enabled(dut, enabled):
    await start(dut, *INPUTS)
    await write(dut, "INTERRUPT_ENABLE", enabled)
    for _ in range(2):
        dut.done.value = 0
        await FallingEdge(dut.clk)
        dut.done.value = 1
        await FallingEdge(dut.clk)
        assert int(dut.interrupt.value) == enabled
        assert await read(dut, "STATUS") == Status.DONE | (Status.INTERRUPT if enabled else 0)
        await write(dut, "CONTROL", Control.CLEAR_INTERRUPT)
        for _ in range(3):
            await FallingEdge(dut.clk)
            assert not int(dut.interrupt.value)


@cocotb.test()
async def test_status_and_faults_are_shown(dut):
    await start(dut, *INPUTS)
    dut.running.value, dut.fault.value, dut.invalid_index.value = 1, 0b10010, 77
    assert await read(dut, "STATUS") == Status.RUNNING | Status.FAULT
    assert await read(dut, "FAULT") == 0b10010
    assert await read(dut, "FAULT_INDEX") == 77
