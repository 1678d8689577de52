"""Runs inside the simulator: fetch from a memory in Python, from any place in a beat."""

import random

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge
from streams import configuration, receive, start, unpack

from vdla.hw.signatures import fetched_layout, request_layout
from vdla.hw.spec.timing import BURSTS_FETCHED_AHEAD

INPUTS = (
    "begin",
    "address",
    "count",
    "stop",
    "request__ready",
    "read_data__valid",
    "read_data__payload",
    "instruction__ready",
)

PLACES = (
    (0x1000, 100),
    (0x1230, 41),
    (0x10F0, 1),
    (0x1000, 16),
    (0x1000, 17),
    (0x1000, 18),
    (0x1000, 19),
    (0x1010, 1),
)
"""First address and count of streams that begin and end anywhere in a beat."""


def instruction(address: int) -> int:
    """Return the 16 bytes that stand at `address`."""
    return address * 0x1_0000_0001_0000_0001_0000_0001 + 7


async def memory(dut, config, share: float, requests: list) -> None:
    rng, beats = random.Random(1), []
    while True:
        dut.request__ready.value = int(rng.random() >= share)
        dut.read_data__valid.value = int(bool(beats) and rng.random() >= share)
        dut.read_data__payload.value = beats[0] if beats else 0
        await RisingEdge(dut.clk)
        if int(dut.read_data__valid.value) and int(dut.read_data__ready.value):
            beats.pop(0)
        if int(dut.request__valid.value) and int(dut.request__ready.value):
            request = unpack(request_layout(config), int(dut.request__payload.value))
            requests.append(request)
            beats += [
                beat_at(config, request["address"] + beat * config.bus_bytes)
                for beat in range(request["beats"])
            ]
        await FallingEdge(dut.clk)


def beat_at(config, address: int) -> int:
    base = address // 16 * 16
    word = sum(instruction(base + place) << 8 * place for place in range(0, max(16, config.bus_bytes), 16))
    return word >> 8 * (address - base) & (1 << config.bus_bits) - 1


async def begin(dut, address: int, count: int) -> None:
    dut.begin.value, dut.address.value, dut.count.value = 1, address, count
    await FallingEdge(dut.clk)
    dut.begin.value = 0


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.5], place=PLACES)
async def test_instructions_arrive_in_order(dut, share, place):
    config, got, requests = configuration(), [], []
    await start(dut, *INPUTS)
    cocotb.start_soon(memory(dut, config, share, requests))
    cocotb.start_soon(receive(dut, "instruction", got, share))
    await begin(dut, *place)
    assert int(dut.request__valid.value) == 0
    await FallingEdge(dut.clk)
    assert int(dut.request__valid.value) == 1
    for _ in range(100 + 12 * place[1]):
        await FallingEdge(dut.clk)
    layout = fetched_layout(config)
    assert [unpack(layout, item)["word"] for item in got] == [
        instruction(place[0] + 16 * index) for index in range(place[1])
    ]
    assert int(dut.blocked.value) == 1
    assert all(
        request["address"] % config.burst_bytes + request["beats"] * config.bus_bytes <= config.burst_bytes
        for request in requests
    )


@cocotb.test()
async def test_no_more_is_asked_for_than_the_queue_holds_and_stop_ends_it(dut):
    config, requests = configuration(), []
    await start(dut, *INPUTS)
    cocotb.start_soon(memory(dut, config, 0.0, requests))
    await begin(dut, 0, 10_000)
    for _ in range(400):
        await FallingEdge(dut.clk)
    assert (
        sum(request["beats"] for request in requests) * config.bus_bytes
        == BURSTS_FETCHED_AHEAD * config.burst_bytes
    )
    assert int(dut.blocked.value) == 1
    dut.stop.value = dut.instruction__ready.value = 1
    for _ in range(200):
        await FallingEdge(dut.clk)
    assert len(requests) == BURSTS_FETCHED_AHEAD
