"""Runs inside the simulator: how runs start and end."""

import cocotb
from cocotb.triggers import FallingEdge
from streams import start

from vdla.hw.spec.registers import Fault
from vdla.hw.spec.timing import QUIET_CYCLES

INPUTS = ("start", "finished", "drained", "quiet", "starved", "invalid", "overrun", "memory_error")


async def begin(dut) -> None:
    """Start a run and look at its first two cycles."""
    await start(dut, *INPUTS)
    dut.start.value = 1
    for accepted, begins in ((1, 0), (0, 1), (0, 0)):  # a start during a run is not accepted
        await FallingEdge(dut.clk)
        assert (int(dut.accepted.value), int(dut.begin.value)) == (accepted, begins)
        assert (int(dut.running.value), int(dut.done.value)) == (1, 0)
    dut.start.value = 0


@cocotb.test()
async def test_a_run_is_done_when_it_has_finished_and_drained(dut):
    await begin(dut)
    dut.drained.value = 1
    await FallingEdge(dut.clk)
    assert int(dut.running.value) == 1
    dut.drained.value, dut.finished.value = 0, 1
    await FallingEdge(dut.clk)
    dut.finished.value = 0
    for _ in range(5):
        await FallingEdge(dut.clk)
        assert int(dut.running.value) == 1
    dut.drained.value = 1
    await FallingEdge(dut.clk)
    assert (int(dut.running.value), int(dut.done.value), int(dut.fault.value)) == (0, 1, 0)


@cocotb.test()
@cocotb.parametrize(
    case=[("", Fault.DEADLOCK), ("starved", Fault.UNFINISHED), ("invalid", Fault.INVALID_INSTRUCTION)]
)
async def test_a_run_in_which_nothing_moves_ends_with_the_reason(dut, case):
    signal, fault = case
    await begin(dut)
    if signal:
        getattr(dut, signal).value = 1
    dut.quiet.value = 1
    for _ in range(QUIET_CYCLES - 1):
        await FallingEdge(dut.clk)
    dut.quiet.value = 0  # one cycle short: the count starts again
    await FallingEdge(dut.clk)
    dut.quiet.value = 1
    for _ in range(QUIET_CYCLES):
        assert int(dut.running.value) == 1
        await FallingEdge(dut.clk)
    assert (int(dut.running.value), int(dut.done.value), Fault(int(dut.fault.value))) == (0, 1, fault)


@cocotb.test()
async def test_faults_stay_until_the_next_start(dut):
    await begin(dut)
    dut.overrun.value = 1
    await FallingEdge(dut.clk)
    dut.overrun.value, dut.memory_error.value = 0, 1
    await FallingEdge(dut.clk)
    dut.memory_error.value = 0
    dut.finished.value = 1
    await FallingEdge(dut.clk)
    dut.finished.value, dut.drained.value = 0, 1
    for _ in range(3):
        await FallingEdge(dut.clk)
    assert Fault(int(dut.fault.value)) == Fault.SRAM_OVERRUN | Fault.MEMORY_ERROR
    dut.start.value = 1
    await FallingEdge(dut.clk)
    await FallingEdge(dut.clk)
    assert int(dut.fault.value) == 0


@cocotb.test()
async def test_what_is_seen_outside_of_a_run_is_no_fault_of_it(dut):
    await begin(dut)
    dut.finished.value = dut.drained.value = 1
    for _ in range(2):
        await FallingEdge(dut.clk)
    assert int(dut.done.value) == 1
    dut.quiet.value = dut.invalid.value = dut.overrun.value = dut.memory_error.value = 1
    for _ in range(2 * QUIET_CYCLES):
        await FallingEdge(dut.clk)
    dut.invalid.value = 0
    for _ in range(2 * QUIET_CYCLES):
        await FallingEdge(dut.clk)
    assert (int(dut.running.value), int(dut.done.value), int(dut.fault.value)) == (0, 1, 0)
