"""Runs inside the simulator: the load unit against a memory in Python and the plain-Python model of LOAD."""

import random
from dataclasses import replace

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge
from dram import memory, note_writes, written
from streams import configuration, send, start

from vdla.hw.spec import codec, isa
from vdla.hw.spec.vocabulary import Extension, MemoryType

INPUTS = (
    "instruction__valid",
    "instruction__payload",
    "pop_next__available",
    "push_next__room",
    "request__ready",
    "read_data__valid",
    "read_data__payload",
)
INP, WGT = MemoryType.INP, MemoryType.WGT
LOADS = (
    isa.Load(memory_type=INP, dram_base=5, sram_base=3, y_size=1, x_size=40, x_stride=40, push_next=1),
    isa.Load(memory_type=WGT, dram_base=9, sram_base=0, y_size=3, x_size=5, x_stride=11),
    isa.Load(memory_type=INP, x_size=0, y_size=4, y_pad_0=3, push_next=1),
    isa.Load(
        memory_type=INP,
        dram_base=77,
        sram_base=100,
        y_size=2,
        x_size=3,
        x_stride=2,
        y_pad_0=1,
        y_pad_1=2,
        x_pad_0=1,
        x_pad_1=3,
    ),
    isa.Load(
        memory_type=INP,
        dram_base=1000,
        sram_base=200,
        y_size=0,
        x_size=2,
        y_pad_0=1,
        x_pad_1=1,
        pad_minimum=1,
    ),
    isa.Load(memory_type=WGT, dram_base=63, sram_base=20, y_size=1, x_size=30, x_stride=30, push_next=1),
)
VALUED = (
    isa.Load(memory_type=INP, sram_base=10, x_size=1, x_pad_1=2, y_size=1, pad_value=1),  # the register is 0
    isa.Load(memory_type=WGT, sram_base=0x1A5, y_pad_0=1, pad_value=1),
    isa.Load(memory_type=WGT, sram_base=0x77),  # without the flag: writes nothing
    isa.Load(memory_type=INP, sram_base=20, dram_base=9, x_size=2, y_size=2, x_pad_0=3, pad_value=1),
    isa.Load(memory_type=WGT, sram_base=3, x_size=1, x_pad_1=1, y_pad_1=1, pad_value=1, push_next=1),
    isa.Load(memory_type=WGT, sram_base=9, x_size=2, pad_value=1),  # without rows: writes nothing
    isa.Load(memory_type=INP, sram_base=40, x_size=1, y_pad_0=2, pad_value=1),
    isa.Load(memory_type=INP, sram_base=0x5A, pad_value=1, pad_minimum=1, push_next=1),
    isa.Load(memory_type=INP, sram_base=50, x_size=1, y_pad_0=1),
    isa.Load(memory_type=INP, sram_base=0x12, pad_value=1),
    isa.Load(memory_type=INP, sram_base=0x33, pad_value=1),
    isa.Load(memory_type=INP, sram_base=60, x_size=3, y_size=1, x_pad_1=1, pad_value=1),
    isa.Load(memory_type=INP, sram_base=70, x_size=1, y_pad_0=1, pad_value=1, pad_minimum=1),
)
"""They pad with every value of a pad register that changes while earlier LOADs are written."""


GATHERED = (
    isa.Gather(memory_type=INP, sram_base=1, dram_base=13, y_size=3, x_size=9, x_stride=41, step=3),
    isa.Gather(
        memory_type=INP, sram_base=30, dram_base=8, y_size=2, x_size=5, x_stride=64, step=16, push_next=1
    ),
    isa.Gather(memory_type=INP, sram_base=42, dram_base=7, y_size=2, x_size=3, x_stride=5, step=255),
    isa.Gather(memory_type=INP, sram_base=50, dram_base=99, y_size=1, x_size=1, push_next=1),
    isa.Gather(memory_type=INP, sram_base=51, dram_base=63, y_size=4, x_size=1, x_stride=1, step=9),
    isa.Gather(
        memory_type=INP, sram_base=56, dram_base=501, y_size=1, x_size=20, y_pad_0=1, y_pad_1=2, step=0
    ),
    isa.Gather(memory_type=INP, sram_base=9, x_size=0, y_size=2, pad_value=1, push_next=1),  # moves nothing
    isa.Gather(memory_type=INP, sram_base=140, x_size=3, y_pad_1=2, pad_value=1),
    isa.Load(memory_type=INP, sram_base=0x5C, pad_value=1),
    isa.Gather(
        memory_type=INP, sram_base=150, x_size=2, y_size=2, y_pad_0=2, x_stride=6, step=6, pad_value=1
    ),
    isa.Gather(memory_type=INP, sram_base=160, x_size=2, y_size=1, y_pad_1=1, pad_minimum=1, push_next=1),
    isa.Load(memory_type=WGT, dram_base=3, sram_base=2, y_size=2, x_size=3, x_stride=7),
    isa.Gather(memory_type=INP, sram_base=170, dram_base=1000, y_size=7, x_size=7, x_stride=77, step=7),
    isa.Load(memory_type=INP, dram_base=5, sram_base=3, y_size=1, x_size=4, x_stride=4, push_next=1),
)
"""Elements that overlap, touch, leave gaps and stay where they are, from every byte of a beat on."""


WIDTHS = (
    isa.Load(memory_type=WGT, halvings=1, dram_base=77, sram_base=1, y_size=1, x_size=17, x_stride=17),
    isa.Load(
        memory_type=WGT, halvings=1, dram_base=5, y_size=4, x_size=3, x_stride=5, x_pad_1=1, push_next=1
    ),
    isa.Load(memory_type=INP, halvings=1, dram_base=5, sram_base=3, y_size=1, x_size=4, x_stride=4),
    isa.Load(memory_type=WGT, sram_base=0x1A5, halvings=1, y_pad_0=1, pad_value=1),
    isa.Load(memory_type=WGT, halvings=1, sram_base=18, x_size=2, y_pad_0=1, y_pad_1=1, pad_value=1),
    isa.Load(memory_type=WGT, halvings=1, sram_base=2, x_size=1, y_size=1, x_pad_0=1, pad_minimum=1),
    isa.Load(memory_type=WGT, dram_base=9, sram_base=6, y_size=2, x_size=2, x_stride=3, pad_value=1),
    isa.Load(memory_type=WGT, halvings=1, dram_base=200, sram_base=22, y_size=5, x_size=1, x_stride=1),
)
"""LOADs of weights of half the width, among others."""


def narrow(config) -> tuple[isa.Load, ...]:
    """Return WIDTHS with every width that weights can have in DRAM instead of the half."""
    return tuple(
        replace(load, halvings=load.halvings * halvings)
        for halvings in config.halvings(WGT)[1:]
        for load in WIDTHS
    )


def inputs() -> tuple[str, ...]:
    """Return the inputs of the unit."""
    fed = ("fed__next", "fed__enable", "fed__address", "fed__data")
    return INPUTS + fed * configuration().has(Extension.FEEDBACK)


async def watch(dut, config, pads: dict, pushes: list, busy: list) -> None:
    """Record what is written, lane by lane, the tokens pushed and the cycles with a write."""
    while True:
        await RisingEdge(dut.clk)
        written_now = note_writes(dut, config, (INP, WGT), pads)
        busy += [INP in written_now] + [True] * (WGT in written_now)
        pushes.append(int(dut.push_next__push.value))


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.3, 0.7])
async def test_scratchpads_hold_what_the_loads_say(dut, share):
    has = configuration().has
    loads = LOADS + VALUED * has(Extension.PAD_VALUE) + GATHERED * has(Extension.GATHER)
    loads += narrow(configuration())
    config, pads, pushes, requests, busy = configuration(), {}, [], [], []
    await start(dut, *inputs())
    dut.pop_next__available.value = dut.push_next__room.value = 1
    cocotb.start_soon(memory(dut, config, share, requests))
    cocotb.start_soon(watch(dut, config, pads, pushes, busy))
    await send(dut, "instruction", [codec.encode(load, config) for load in loads], share)
    for _ in range(3000):
        await FallingEdge(dut.clk)
        if int(dut.status__idle.value):
            break
    await FallingEdge(dut.clk)  # the last write follows its step by a cycle
    assert pads == written(config, loads)
    assert sum(pushes) == sum(load.push_next for load in loads)
    for request in requests:
        assert not request["write"]
        assert request["address"] % config.bus_bytes == 0
        assert (
            request["address"] % config.burst_bytes + request["beats"] * config.bus_bytes
            <= config.burst_bytes
        )


@cocotb.test()
async def test_nothing_starts_without_its_token_and_room(dut):
    config = configuration()
    await start(dut, *inputs())
    dut.instruction__valid.value = 1
    dut.instruction__payload.value = codec.encode(
        isa.Load(memory_type=INP, x_size=1, y_size=1, pop_next=1, push_next=1), config
    )
    for available, room, waits in ((0, 0, "next"), (0, 1, "next"), (1, 0, "room"), (1, 1, None)):
        dut.pop_next__available.value, dut.push_next__room.value = available, room
        await RisingEdge(dut.clk)
        starts = available and room
        assert (
            int(dut.instruction__ready.value)
            == int(dut.pop_next__pop.value)
            == int(dut.push_next__reserve.value)
            == starts
        )
        assert [int(getattr(dut, f"status__waits_{name}").value) for name in ("next", "room")] == [
            waits == "next",
            waits == "room",
        ]
        await FallingEdge(dut.clk)


@cocotb.test()
async def test_pads_are_written_one_each_cycle_from_instruction_to_instruction(dut):
    config, pads, pushes, busy = configuration(), {}, [], []
    await start(dut, *inputs())
    pad = codec.encode(isa.Load(memory_type=INP, x_size=1, y_pad_0=8), config)
    cocotb.start_soon(watch(dut, config, pads, pushes, busy))
    await send(dut, "instruction", [pad] * 4)
    for _ in range(60):
        await FallingEdge(dut.clk)
    first = busy.index(True)
    assert busy[first : first + 32] == [True] * 32
    assert sum(busy) == 32


@cocotb.test()
@cocotb.parametrize(kind=[INP, WGT])
async def test_an_overrun_is_reported_from_the_first_element_past_the_end_on(dut, kind):
    config, overruns, expected = configuration(), [], []
    loads = [
        isa.Load(memory_type=kind, sram_base=config.depth(kind) - 2, **fields)
        for count in (1, 2, 3, 4)
        for fields in ({"y_size": 1, "x_size": count}, {"y_pad_0": 1, "x_size": count})
    ]
    for load in loads:
        steps = max(1, config.element_bytes(kind) // config.bus_bytes) if load.y_size else 1
        expected += [place >= 2 for place in range(load.x_size) for _ in range(steps)]
    await start(dut, *inputs())
    cocotb.start_soon(memory(dut, config, 0.0, []))
    cocotb.start_soon(send(dut, "instruction", [codec.encode(load, config) for load in loads]))
    for _ in range(40 + 2 * len(expected)):
        await RisingEdge(dut.clk)
        overrun = bool(int(dut.status__overrun.value))
        if int(getattr(dut, f"{kind.name.lower()}__enable").value):
            overruns.append(overrun)
        else:
            assert not overrun
    assert overruns == expected


@cocotb.test()
async def test_writes_of_the_store_unit_come_first_and_no_load_loses_a_step(dut):
    """The store unit writes an element above the elements of the LOADs, in half of the cycles."""
    config, rng, pads, busy = configuration(), random.Random(3), {}, []
    if not config.has(Extension.FEEDBACK):
        return
    await start(dut, *inputs())
    dut.pop_next__available.value = dut.push_next__room.value = 1
    fed_element, whole = config.depth(INP) - 1, (1 << len(dut.fed__data)) - 1
    pad = isa.Load(memory_type=INP, x_size=1, y_pad_0=8)
    weights = isa.Load(memory_type=WGT, x_size=1, y_pad_0=8)
    cocotb.start_soon(watch(dut, config, pads, [], busy))
    cocotb.start_soon(send(dut, "instruction", [codec.encode(load, config) for load in (pad, weights, pad)]))
    lent, steps = False, 0
    dut.fed__address.value, dut.fed__data.value = fed_element, whole
    for _ in range(120):
        dut.fed__enable.value = ((1 << len(dut.fed__enable)) - 1) * lent
        lent = rng.random() < 0.5
        dut.fed__next.value = int(lent)
        await RisingEdge(dut.clk)
        steps += int(dut.engine.step.value)
        assert not (lent and int(dut.engine.step.value) and steps not in range(9, 17))
        await FallingEdge(dut.clk)
    assert steps == 24
    assert pads == written(config, (pad, weights)) | {(INP, fed_element): whole}
