"""Runs inside the simulator: the address guard between random bursts and a bus of 32 address bits."""

import random

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge
from streams import configuration, receive, send, start, unpack

from vdla.hw.signatures import request_layout, write_beat_layout

INPUTS = (
    "core__request__valid",
    "core__request__payload",
    "core__write_data__valid",
    "core__write_data__payload",
    "core__read_data__ready",
    "bus__request__ready",
    "bus__write_data__ready",
    "bus__read_data__valid",
    "bus__read_data__payload",
    "bus__write_done",
    "bus__error",
)
BEATS = 6


def pack(layout, **fields: int) -> int:
    """Return a packed payload."""
    return sum(value << layout[name].offset for name, value in fields.items())


def requests(config, count: int) -> list[dict[str, int]]:
    """Return bursts within reach of 32 bits and beyond, in runs of either kind."""
    rng, bursts, beyond = random.Random(5), [], False
    top = 1 << config.address_bits - config.axi_address_width
    for _ in range(count):
        beyond ^= rng.random() < 0.4
        high = rng.randrange(1, top) << config.axi_address_width if beyond else 0
        bursts.append(
            {
                "write": rng.randrange(2),
                "address": high | rng.randrange(1 << 20) * 256,
                "beats": rng.randint(1, BEATS),
            }
        )
    return bursts


async def memory(dut, config, share: float, accepted: list, written: list) -> None:
    """Answer reads with the addresses of their beats, and writes some cycles after their last beat."""
    rng, reads, done = random.Random(6), [], 0
    while True:
        dut.bus__request__ready.value = int(rng.random() >= share)
        dut.bus__write_data__ready.value = int(rng.random() >= share)
        dut.bus__read_data__valid.value = int(bool(reads) and rng.random() >= share)
        dut.bus__read_data__payload.value = reads[0] if reads else 0
        answers = int(done > 0 and rng.random() >= share)
        dut.bus__write_done.value = answers
        done -= answers
        await RisingEdge(dut.clk)
        if int(dut.bus__read_data__valid.value) and int(dut.bus__read_data__ready.value):
            reads.pop(0)
        if int(dut.bus__write_data__valid.value) and int(dut.bus__write_data__ready.value):
            beat = unpack(write_beat_layout(config), int(dut.bus__write_data__payload.value))
            written.append(beat["data"])
            done += beat["last"]
            writes = sum(request["write"] for request in accepted)
            assert writes, "a beat was offered before the request of its burst"
        if int(dut.bus__request__valid.value) and int(dut.bus__request__ready.value):
            request = unpack(request_layout(config), int(dut.bus__request__payload.value))
            accepted.append(request)
            if not request["write"]:
                reads += [request["address"] + 8 * beat for beat in range(request["beats"])]
        await FallingEdge(dut.clk)


async def pulses(dut, counts: dict[str, int]) -> None:
    """Count the cycles in which `write_done` and `error` are high."""
    while True:
        await RisingEdge(dut.clk)
        for name in counts:
            counts[name] += int(getattr(dut, f"core__{name}").value)


def beats(config, asked: list[dict[str, int]]) -> list[int]:
    """Return the packed beats of the writes; the data of a beat tells where it belongs."""
    return [
        pack(
            write_beat_layout(config),
            data=request["address"] + 8 * beat,
            strobe=255,
            last=int(beat == request["beats"] - 1),
        )
        for request in asked
        if request["write"]
        for beat in range(request["beats"])
    ]


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.4])
async def test_the_bus_sees_bursts_within_reach_and_nothing_of_the_others(dut, share):
    config, accepted, written, read = configuration(), [], [], []
    counts = {"write_done": 0, "error": 0}
    await start(dut, *INPUTS)
    asked = requests(config, 120)
    within = [request for request in asked if not request["address"] >> config.axi_address_width]
    for task in (
        memory(dut, config, share, accepted, written),
        receive(dut, "core__read_data", read, share),
        pulses(dut, counts),
        send(dut, "core__write_data", beats(config, asked), share),
    ):
        cocotb.start_soon(task)
    packed = [pack(request_layout(config), **request) for request in asked]
    await send(dut, "core__request", packed, share)
    for _ in range(200):
        await FallingEdge(dut.clk)
    assert accepted == within
    assert written == [
        request["address"] + 8 * beat
        for request in within
        if request["write"]
        for beat in range(request["beats"])
    ]
    assert read == [
        0 if request["address"] >> config.axi_address_width else request["address"] + 8 * beat
        for request in asked
        if not request["write"]
        for beat in range(request["beats"])
    ]
    assert counts["write_done"] == sum(request["write"] for request in asked)
    assert counts["error"] == len(asked) - len(within) > 20


@cocotb.test()
async def test_an_error_of_the_bus_is_passed_on(dut):
    await start(dut, *INPUTS)
    dut.bus__error.value = 1
    await RisingEdge(dut.clk)
    assert int(dut.core__error.value) == 1
