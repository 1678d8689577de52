"""Runs inside the simulator: the AXI top with cocotbext-axi's memory and master, under random
back-pressure."""

import os
import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam
from system_program import BYTES, OUT, STREAM, program

from vdla.hw.spec.files import load
from vdla.hw.spec.registers import IDENTITY, OFFSETS, Control, Fault, Status


def stalls(seed: int, share: float):
    """Yield True in a random `share` of the cycles."""
    rng = random.Random(seed)
    while True:
        yield rng.random() < share


async def bring_up(dut, share: float, seed: int = 1):
    """Start clock and reset; return the memory and the register master with stalls on every channel."""
    cocotb.start_soon(Clock(dut.aclk, 10, "ns").start())
    dut.aresetn.value = 0
    ram = AxiRam(
        AxiBus.from_prefix(dut, "m_axi"), dut.aclk, dut.aresetn, reset_active_level=False, size=BYTES
    )
    master = AxiLiteMaster(
        AxiLiteBus.from_prefix(dut, "s_axi"), dut.aclk, dut.aresetn, reset_active_level=False
    )
    await ClockCycles(dut.aclk, 4)
    dut.aresetn.value = 1
    await ClockCycles(dut.aclk, 2)
    if share:
        channels = [
            ram.write_if.aw_channel,
            ram.write_if.w_channel,
            ram.write_if.b_channel,
            ram.read_if.ar_channel,
            ram.read_if.r_channel,
            master.write_if.aw_channel,
            master.write_if.w_channel,
            master.write_if.b_channel,
            master.read_if.ar_channel,
            master.read_if.r_channel,
        ]
        for index, channel in enumerate(channels):
            channel.set_pause_generator(stalls(seed * 100 + index, share))
    return ram, master


async def check_run(dut, ram, master, config) -> None:
    """Write DRAM and registers, run, wait for the interrupt, clear it, compare."""
    dram, expected, count = program(config)
    ram.write(0, dram)
    for name, value in (("STREAM_ADDRESS", STREAM), ("STREAM_COUNT", count), ("INTERRUPT_ENABLE", 1)):
        await master.write_dword(OFFSETS[name], value)
        assert await master.read_dword(OFFSETS[name]) == value
    assert not dut.interrupt.value
    await master.write_dword(OFFSETS["CONTROL"], Control.START)
    await with_timeout(RisingEdge(dut.interrupt), 200, "us")
    assert await master.read_dword(OFFSETS["STATUS"]) == Status.DONE | Status.INTERRUPT
    await master.write_dword(OFFSETS["CONTROL"], Control.CLEAR_INTERRUPT)
    assert await master.read_dword(OFFSETS["STATUS"]) == Status.DONE
    assert not dut.interrupt.value
    assert 0 < await master.read_dword(OFFSETS["CYCLES"]) < 20_000
    assert await master.read_dword(OFFSETS["CYCLES_HIGH"]) == 0
    assert await master.read_dword(OFFSETS["OUT_BEATS"]) == -(-expected.size // config.bus_bytes)
    fetched = count * config.instruction_bytes
    assert await master.read_dword(OFFSETS["FETCH_BEATS"]) == -(-fetched // config.bus_bytes)
    actual = np.frombuffer(bytes(ram.read(OUT, expected.size)), np.int8).reshape(expected.shape)
    np.testing.assert_array_equal(actual, expected)
    after = bytearray(ram.read(0, BYTES))
    after[OUT : OUT + expected.size] = bytes(expected.size)
    assert bytes(after) == dram, "memory outside the outputs was written"


@cocotb.test()
async def test_program_runs_twice_without_stalls(dut):
    ram, master = await bring_up(dut, 0)
    for _ in range(2):
        await check_run(dut, ram, master, load(os.environ["VDLA_CONFIG"]))


@cocotb.test()
@cocotb.parametrize(share=[0.3, 0.5, 0.7])
async def test_program_runs_under_random_stalls(dut, share):
    ram, master = await bring_up(dut, share, seed=int(10 * share))
    await check_run(dut, ram, master, load(os.environ["VDLA_CONFIG"]))


@cocotb.test()
async def test_registers_answer_partial_writes_with_an_error(dut):
    _, master = await bring_up(dut, 0.2)
    assert await master.read_dword(OFFSETS["IDENTITY"]) == IDENTITY
    await master.write_dword(OFFSETS["STREAM_COUNT"], 0x12345678)
    answer = await master.write(OFFSETS["STREAM_COUNT"], b"\x55")
    assert int(answer.resp) == 2
    assert await master.read_dword(OFFSETS["STREAM_COUNT"]) == 0x12345678


@cocotb.test()
async def test_a_stream_beyond_the_bus_is_a_fault_and_the_bus_sees_nothing_of_it(dut):
    config = load(os.environ["VDLA_CONFIG"])
    ram, master = await bring_up(dut, 0.2)
    dram, _, count = program(config)
    ram.write(0, dram)
    beyond = config.address_bits > config.axi_address_width
    address = (1 << config.axi_address_width if beyond else 0) | STREAM
    seen = []

    async def watch() -> None:
        while True:
            await RisingEdge(dut.aclk)
            seen.append(int(dut.m_axi_arvalid.value) | int(dut.m_axi_awvalid.value))

    cocotb.start_soon(watch())
    for name, value in (
        ("STREAM_ADDRESS", address & 0xFFFFFFFF),
        ("STREAM_ADDRESS_HIGH", address >> 32),
        ("STREAM_COUNT", count),
        ("INTERRUPT_ENABLE", 1),
    ):
        await master.write_dword(OFFSETS[name], value)
    await master.write_dword(OFFSETS["CONTROL"], Control.START)
    await with_timeout(RisingEdge(dut.interrupt), 200, "us")
    fault = Fault(await master.read_dword(OFFSETS["FAULT"]))
    assert (Fault.MEMORY_ERROR in fault) == beyond
    assert any(seen) != beyond
    assert (bytes(ram.read(0, BYTES)) == dram) == beyond
