"""Runs inside the simulator: which LOADs of micro-ops the guard lets run beside an instruction."""

import random
from dataclasses import replace

import cocotb
from cocotb.triggers import FallingEdge
from streams import configuration, start

from vdla.hw.spec import codec, isa
from vdla.hw.spec.memories import LOADED_INTO_ACC, unread_by_steps
from vdla.hw.spec.vocabulary import Extension, MemoryType

INPUTS = ("instruction", "stays", "issues")
UOP = MemoryType.UOP


def load(**fields) -> isa.Load:
    """Return a LOAD of the micro-ops 20 to 24."""
    return isa.Load(
        **{"memory_type": UOP, "sram_base": 20, "y_size": 1, "x_size": 5, "x_stride": 5, **fields}
    )


async def is_clear(dut, issued: isa.Instruction, waiting: isa.Instruction) -> bool:
    """Return what the guard says of `waiting` while `issued` is, in the third cycle in which it waits."""
    config = configuration()
    dut.issues.value, dut.stays.value, dut.instruction.value = 1, 0, codec.encode(issued, config)
    await FallingEdge(dut.clk)
    dut.issues.value, dut.stays.value, dut.instruction.value = 0, 1, codec.encode(waiting, config)
    for _ in range(2):
        assert not int(dut.clear.value)
        await FallingEdge(dut.clk)
    return bool(int(dut.clear.value))


@cocotb.test()
async def test_ranges_must_lie_apart(dut):
    """Exactly where no micro-op is in both, for all short ranges around that of the LOAD."""
    await start(dut, *INPUTS)
    for begin in range(16, 28):
        for end in range(begin + 1, 29):
            apart = not set(range(begin, end)) & set(range(20, 25))
            loops = random.Random(begin).choice([isa.Gemm, isa.Alu])(uop_begin=begin, uop_end=end)
            assert await is_clear(dut, loops, load()) == apart, (begin, end)


@cocotb.test()
async def test_the_ends_of_the_fields(dut):
    """No sum is cut to fewer bits."""
    config = configuration()
    await start(dut, *INPUTS)
    depth = config.depth(UOP)
    whole = isa.Gemm(uop_end=depth)
    last = isa.Gemm(uop_begin=depth - 1, uop_end=depth)
    assert not await is_clear(dut, whole, load(sram_base=depth - 1, x_size=1))
    assert await is_clear(dut, whole, load(sram_base=depth, x_size=1))
    assert not await is_clear(dut, last, load(sram_base=(1 << 16) - 1 & depth - 1, x_size=0xFFFF))
    assert await is_clear(dut, last, load(sram_base=0, x_size=depth - 1))
    assert not await is_clear(dut, last, load(sram_base=0, x_size=depth))
    assert await is_clear(dut, isa.Gemm(uop_end=1), load(sram_base=(1 << 16) - 1, x_size=0xFFFF))


@cocotb.test()
async def test_other_loads_and_other_instructions_wait(dut):
    await start(dut, *INPUTS)
    issued = isa.Gemm(uop_end=1)
    assert await is_clear(dut, issued, load())
    assert await is_clear(dut, issued, load(x_size=0))
    assert await is_clear(dut, issued, load(pop_prev=1, pop_next=1))
    for other in (
        *(
            load(**{name: 1})
            for name in ("push_prev", "push_next", "y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
        ),
        *(load(y_size=rows) for rows in (0, 2, 0x8000)),
        load(memory_type=MemoryType.ACC),
        isa.Gemm(uop_begin=9, uop_end=10),
        isa.Finish(),
    ):
        assert not await is_clear(dut, issued, other), other


@cocotb.test()
async def test_it_says_so_only_of_the_instruction_that_stays(dut):
    await start(dut, *INPUTS)
    assert await is_clear(dut, isa.Gemm(uop_end=1), load())
    dut.stays.value = 0
    await FallingEdge(dut.clk)
    assert not int(dut.clear.value)


@cocotb.test()
async def test_an_instruction_that_has_just_come_is_not_clear(dut):
    """Also where the instruction before it stayed, and was."""
    await start(dut, *INPUTS)
    assert await is_clear(dut, isa.Gemm(uop_end=1), load())
    dut.stays.value = 0
    await FallingEdge(dut.clk)
    dut.stays.value = 1
    await FallingEdge(dut.clk)
    assert not int(dut.clear.value)


@cocotb.test()
async def test_what_only_the_store_unit_reads_is_clear_of_all_steps(dut):
    """Whatever its shape, unless it pushes a token."""
    config = configuration()
    await start(dut, *INPUTS)
    for memory in unread_by_steps(config):
        for fields in {}, {"y_size": 3, "x_pad_0": 2}, {"y_pad_1": 1, "x_size": 0}:
            transfer = load(memory_type=memory, **fields)
            assert await is_clear(dut, isa.Gemm(uop_begin=18, uop_end=28), transfer)
            assert not await is_clear(dut, isa.Gemm(), replace(transfer, push_next=1))
            assert not await is_clear(dut, isa.Gemm(), replace(transfer, push_prev=1))


@cocotb.test()
async def test_accumulators_that_are_promised_to_be_of_the_other_half_are_clear(dut):
    """Where the configuration has the flag; whatever their shape, unless they push a token."""
    config = configuration()
    await start(dut, *INPUTS)
    for memory in (*LOADED_INTO_ACC, MemoryType.INP) if config.has(Extension.ACC_HALVES) else ():
        transfer = load(memory_type=memory, beside=1, y_size=3, x_pad_0=2)
        assert await is_clear(dut, isa.Gemm(uop_begin=18, uop_end=28), transfer) == (
            memory in LOADED_INTO_ACC
        )
        for changed in (
            replace(transfer, beside=0),
            replace(transfer, push_next=1),
            replace(transfer, push_prev=1),
        ):
            assert not await is_clear(dut, isa.Gemm(), changed)
