"""Runs inside the simulator: the DMA with three reads in flight at most."""

import random

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge
from streams import configuration, receive, send, start, unpack

from vdla.hw.dma import PRIORITY, READERS
from vdla.hw.signatures import request_layout

INPUTS = (
    *(f"{client}_request__{part}" for client in PRIORITY for part in ("valid", "payload")),
    *(f"{client}_data__ready" for client in READERS),
    "store_data__valid",
    "store_data__payload",
    "memory__request__ready",
    "memory__read_data__valid",
    "memory__read_data__payload",
    "memory__write_data__ready",
    "memory__write_done",
    "memory__error",
)


def pack(config, **fields: int) -> int:
    """Return a packed request."""
    return sum(value << request_layout(config)[name].offset for name, value in fields.items())


async def memory(dut, config, share: float, accepted: list, in_flight: list) -> None:
    """Answer reads in order: the payload of a beat is its address, so that misrouted beats show."""
    rng, beats, pending = random.Random(6), [], 0
    while True:
        dut.memory__request__ready.value = int(rng.random() >= share)
        dut.memory__read_data__valid.value = int(bool(beats) and rng.random() >= share)
        dut.memory__read_data__payload.value = beats[0][0] if beats else 0
        await RisingEdge(dut.clk)
        if int(dut.memory__read_data__valid.value) and int(dut.memory__read_data__ready.value):
            pending -= beats.pop(0)[1]
        if int(dut.memory__request__valid.value) and int(dut.memory__request__ready.value):
            request = unpack(request_layout(config), int(dut.memory__request__payload.value))
            accepted.append(request)
            if not request["write"]:
                pending += 1
                beats += [
                    (request["address"] + 8 * beat, int(beat == request["beats"] - 1))
                    for beat in range(request["beats"])
                ]
        in_flight.append(pending)
        await FallingEdge(dut.clk)


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.4])
async def test_every_beat_reaches_the_client_that_asked(dut, share):
    config, accepted, in_flight = configuration(), [], []
    await start(dut, *INPUTS)
    rng, asked, got = random.Random(8), {}, {client: [] for client in READERS}
    for index, client in enumerate(PRIORITY):
        asked[client] = [
            {
                "write": int(client == "store"),
                "address": (index << 16) + 256 * item,
                "beats": rng.randint(1, 8),
            }
            for item in range(20)
        ]
        cocotb.start_soon(
            send(
                dut, f"{client}_request", [pack(config, **request) for request in asked[client]], share, index
            )
        )
        if client in READERS:
            cocotb.start_soon(receive(dut, f"{client}_data", got[client], share, index + 9))
    cocotb.start_soon(memory(dut, config, share, accepted, in_flight))
    for _ in range(1500):
        await FallingEdge(dut.clk)
    for index, client in enumerate(PRIORITY):
        assert [request for request in accepted if request["address"] >> 16 == index] == asked[client]
    for client in READERS:
        assert got[client] == [
            request["address"] + 8 * beat for request in asked[client] for beat in range(request["beats"])
        ]
    assert max(in_flight) == config.max_requests


@cocotb.test()
async def test_the_first_client_goes_first_and_an_offer_is_held(dut):
    config = configuration()
    await start(dut, *INPUTS)
    for index, client in enumerate(PRIORITY):
        getattr(dut, f"{client}_request__payload").value = pack(
            config, write=int(client == "store"), address=index << 16, beats=1
        )
        getattr(dut, f"{client}_request__valid").value = 1
    order = []
    for _ in PRIORITY:
        await RisingEdge(dut.clk)
        taken = [client for client in PRIORITY if int(getattr(dut, f"{client}_request__ready").value)]
        order += taken
        await FallingEdge(dut.clk)
        for client in taken:
            getattr(dut, f"{client}_request__valid").value = 0
        held = int(dut.memory__request__payload.value)
        for _ in range(3):  # not accepted: nothing else is taken, and the offer stands
            await FallingEdge(dut.clk)
            assert int(dut.memory__request__payload.value) == held
        dut.memory__request__ready.value = 1
        await RisingEdge(dut.clk)
        more = [client for client in PRIORITY if int(getattr(dut, f"{client}_request__ready").value)]
        order += more
        await FallingEdge(dut.clk)
        dut.memory__request__ready.value = 0
        for client in more:
            getattr(dut, f"{client}_request__valid").value = 0
    assert order == list(PRIORITY)


@cocotb.test()
async def test_two_beats_wait_for_a_client_and_hold_nobody_else_s_ready(dut):
    """A beat is offered in the cycle after it has arrived. What the client does reaches memory a cycle later."""
    config = configuration()
    await start(dut, *INPUTS)
    dut.memory__request__ready.value = 1
    await send(dut, "load_request", [pack(config, address=64, beats=8)])
    dut.memory__read_data__valid.value = 1
    offered = []
    for cycle, (ready, takes) in enumerate(((1, 0), (1, 0), (0, 0), (0, 1), (1, 1), (1, 0), (0, 0))):
        dut.memory__read_data__payload.value, dut.load_data__ready.value = 100 + cycle, takes
        await RisingEdge(dut.clk)
        assert int(dut.memory__read_data__ready.value) == ready
        assert int(dut.load_data__valid.value) == (cycle > 0)
        assert int(dut.fetch_data__valid.value) == int(dut.compute_data__valid.value) == 0
        offered.append(int(dut.load_data__payload.value))
        await FallingEdge(dut.clk)
    assert offered[1:] == [100, 100, 100, 101, 104, 104]


@cocotb.test()
async def test_a_store_is_taken_while_a_read_waits_for_room(dut):
    """As many reads as may be in flight are; the next waits until the last beat of a read has come, a store
    does not wait."""
    config, accepted = configuration(), []
    await start(dut, *INPUTS)
    dut.memory__request__ready.value = 1
    for client in ("load", "store"):
        getattr(dut, f"{client}_request__payload").value = pack(config, write=int(client == "store"), beats=2)
    dut.load_request__valid.value = 1
    cocotb.start_soon(receive(dut, "memory__request", accepted))
    for _ in range(config.max_requests + 4):
        await FallingEdge(dut.clk)
    assert len(accepted) == config.max_requests
    dut.store_request__valid.value = 1
    await RisingEdge(dut.clk)
    assert (int(dut.store_request__ready.value), int(dut.load_request__ready.value)) == (1, 0)
    await FallingEdge(dut.clk)
    dut.store_request__valid.value = 0
    dut.load_data__ready.value = dut.memory__read_data__valid.value = 1
    for ready in (0, 0, 1):  # the two beats of the oldest read, and the cycle after them
        await RisingEdge(dut.clk)
        assert int(dut.load_request__ready.value) == ready
        await FallingEdge(dut.clk)
    assert [unpack(request_layout(config), request)["write"] for request in accepted] == [
        0
    ] * config.max_requests + [1]
