"""Runs inside the simulator: the request half of a load engine, on LOADs as large as their fields allow."""

from itertools import islice

import cocotb
from cocotb.triggers import FallingEdge
from dram import bursts
from streams import configuration, send, start, unpack

from vdla.hw.signatures import request_layout
from vdla.hw.spec import codec, isa
from vdla.hw.spec.vocabulary import Extension, MemoryType

INPUTS = ("instruction__valid", "instruction__payload", "request__ready")
INP, WGT = MemoryType.INP, MemoryType.WGT
WHOLE = (
    isa.Load(memory_type=WGT, dram_base=3, y_size=2, x_size=0xFFFF, x_stride=0xFFFF),
    isa.Load(memory_type=INP, dram_base=3, y_size=2, x_size=0xFFFF, x_stride=0xFFFE),
    isa.Load(memory_type=INP, dram_base=(1 << 32) - 1, y_size=300, x_size=1),
    isa.Load(memory_type=WGT, dram_base=(1 << 32) - 0x8001, y_size=1, x_size=0x8001),
)
GATHERED = (
    isa.Gather(memory_type=INP, dram_base=3, y_size=2, x_size=0xFFFF, x_stride=0xFFFF, step=255),
    isa.Gather(memory_type=INP, dram_base=(1 << 32) - 3, y_size=9, x_size=1, x_stride=1, step=255),
    isa.Gather(memory_type=INP, dram_base=77, y_size=50, x_size=33, x_stride=90, step=3),
    isa.Gather(memory_type=INP, dram_base=255, y_size=3, x_size=100),
)
"""They run on where the configuration has them."""
FIRST = (
    isa.Load(memory_type=INP, y_size=0xFFFF, x_size=1, x_stride=0xFFFF),
    isa.Load(memory_type=INP, y_size=0x8001, x_size=1, x_stride=1),
    isa.Load(memory_type=WGT, y_size=0x4001, x_size=1, x_stride=0x8000),
)


async def ask(dut, load) -> None:
    """Hand over `load`, and accept every request from now on; the first is offered two cycles later."""
    await start(dut, *INPUTS)
    dut.request__ready.value = 1
    await send(dut, "instruction", [codec.encode(load, configuration())])
    assert int(dut.request__valid.value) == 0
    await FallingEdge(dut.clk)


async def asked(dut, most: int) -> list[dict[str, int]]:
    """Return the requests of this and the next cycles, up to the first cycle without one, at most `most`."""
    layout, requests = request_layout(configuration()), []
    while int(dut.request__valid.value) and len(requests) < most:
        requests.append(unpack(layout, int(dut.request__payload.value)))
        await FallingEdge(dut.clk)
    return requests


@cocotb.test()
@cocotb.parametrize(load=WHOLE + GATHERED)
async def test_every_byte_of_a_load_is_asked_for_without_a_gap(dut, load):
    if isinstance(load, isa.Gather) and not configuration().has(Extension.GATHER):
        return
    await ask(dut, load)
    expected = list(bursts(configuration(), load))
    assert await asked(dut, len(expected) + 1) == expected
    assert int(dut.idle.value)


@cocotb.test()
async def test_the_next_instruction_is_taken_while_the_last_request_is_offered(dut):
    short = codec.encode(isa.Load(memory_type=INP, y_size=1, x_size=1), configuration())
    await start(dut, *INPUTS)
    await send(dut, "instruction", [short])
    assert (int(dut.instruction__ready.value), int(dut.request__valid.value)) == (0, 0)
    await FallingEdge(dut.clk)
    assert (int(dut.instruction__ready.value), int(dut.request__valid.value)) == (1, 1)
    await send(dut, "instruction", [short])
    for _ in range(3):  # the request register is not empty: the second instruction stays
        assert (int(dut.instruction__ready.value), int(dut.request__valid.value)) == (0, 1)
        await FallingEdge(dut.clk)
    dut.request__ready.value = 1
    await FallingEdge(dut.clk)
    assert (int(dut.instruction__ready.value), int(dut.request__valid.value)) == (1, 1)
    await FallingEdge(dut.clk)
    assert int(dut.idle.value)


@cocotb.test()
@cocotb.parametrize(load=FIRST)
async def test_many_rows_do_not_end_early(dut, load):
    await ask(dut, load)
    assert await asked(dut, 50) == list(islice(bursts(configuration(), load), 50))
    assert not int(dut.idle.value)
