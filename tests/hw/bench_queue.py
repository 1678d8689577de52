"""Runs inside the simulator: Queue of 16-bit items, as deep as the configuration's `max_requests`."""

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge
from streams import configuration, receive, send, start

INPUTS = ("i__valid", "i__payload", "o__ready")


@cocotb.test()
@cocotb.parametrize(stalls=[(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.3, 0.7)])
async def test_order_is_kept_under_stalls(dut, stalls):
    await start(dut, *INPUTS)
    items, taken = [7 * index % 65521 for index in range(200)], []
    cocotb.start_soon(receive(dut, "o", taken, stalls[1]))
    await send(dut, "i", items, stalls[0])
    for _ in range(60 * configuration().max_requests):
        await FallingEdge(dut.clk)
    assert taken == items


@cocotb.test()
async def test_an_item_falls_through_in_one_cycle_and_a_full_queue_is_not_ready(dut):
    depth = configuration().max_requests
    await start(dut, *INPUTS)
    for held in range(depth):
        assert int(dut.i__ready.value) == 1
        dut.i__valid.value, dut.i__payload.value = 1, 100 + held
        await FallingEdge(dut.clk)
        assert int(dut.o__valid.value) == 1
        assert int(dut.o__payload.value) == 100
        assert int(dut.level.value) == held + 1
    assert int(dut.i__ready.value) == 0
    dut.o__ready.value = 1  # an item that leaves makes room in the next cycle only
    await RisingEdge(dut.clk)
    assert int(dut.i__ready.value) == 0
    await FallingEdge(dut.clk)
    assert int(dut.i__ready.value) == 1
    assert int(dut.o__valid.value) == (depth > 1)
    assert depth == 1 or int(dut.o__payload.value) == 101


@cocotb.test()
@cocotb.parametrize(held=[1, 2, 3, 20])
async def test_one_item_in_and_one_out_in_every_cycle_at_any_level(dut, held):
    held = min(held, configuration().max_requests - 1)
    await start(dut, *INPUTS)
    dut.i__valid.value = 1
    for item in range(300):
        dut.i__payload.value, dut.o__ready.value = item, int(item >= held)
        await RisingEdge(dut.clk)
        assert int(dut.i__ready.value) == 1
        if held:
            assert int(dut.o__valid.value) == (item > 0)
            assert item < held or int(dut.o__payload.value) == item - held
        await FallingEdge(dut.clk)
        if not held:  # a queue of one place is never empty and ready at once: it takes an item in two cycles
            assert (int(dut.i__ready.value), int(dut.o__payload.value)) == (0, item)
            await FallingEdge(dut.clk)
