"""Runs inside the simulator: the register file, against the table of registers and counters in Python."""

import random

import cocotb
from cocotb.triggers import FallingEdge, Timer
from streams import configuration, start

from vdla.hw.spec.registers import COUNTERS, IDENTITY, OFFSETS, REGISTERS, VERSION, Access, Control, Status

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
    for cycle in range(400):
        clear, events = int(cycle in (0, 150)), rng.getrandbits(len(COUNTERS))
        dut.clear.value, dut.events.value = clear, events
        await FallingEdge(dut.clk)
        counts = {
            name: 0 if clear else counts[name] + (events >> bit & 1) for bit, name in enumerate(COUNTERS)
        }
    dut.clear.value = dut.events.value = 0
    for name, count in counts.items():
        assert await read(dut, name) == count, name


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
