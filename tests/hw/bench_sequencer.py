"""Runs inside the simulator: the sequencer's slots against the loops as Python writes them; no gap
anywhere but where slots are taken."""

import random

import cocotb
from cocotb.triggers import FallingEdge, Timer
from streams import configuration, start, unpack

from vdla.hw.signatures import has_shadow
from vdla.hw.slots import slot_layout
from vdla.hw.spec import codec, isa
from vdla.hw.spec.timing import alu_slots, source_slots
from vdla.hw.spec.vocabulary import Extension, MemoryType

PROGRAM = (
    isa.Gemm(
        uop_begin=2,
        uop_end=5,
        iter_out=2,
        iter_in=3,
        dst_factor_out=7,
        dst_factor_in=2,
        src_factor_out=1,
        src_factor_in=3,
        wgt_factor_out=5,
        wgt_factor_in=1,
        push_prev=1,
    ),
    isa.Gemm(uop_end=1, iter_out=1, iter_in=1, reset=1),
    isa.Gemm(uop_end=1, iter_out=0, iter_in=4, push_next=1),
    isa.Gemm(uop_begin=4, uop_end=4, iter_out=2, iter_in=2),
    isa.Gemm(uop_begin=5, uop_end=3, iter_out=1, iter_in=1, push_prev=1),
    isa.Alu(uop_begin=9, uop_end=0, iter_out=1, iter_in=2, alu_opcode=isa.AluOpcode.MIN),
    isa.Alu(
        uop_end=2, iter_out=2, iter_in=1, dst_factor_out=3, src_factor_out=4, alu_opcode=isa.AluOpcode.ADD
    ),
    isa.Alu(
        uop_end=2, iter_out=1, iter_in=2, dst_factor_in=3, use_imm=1, imm=-5, alu_opcode=isa.AluOpcode.MAX
    ),
    isa.Alu(uop_end=2, iter_out=1, iter_in=1, use_imm=1, imm=3, alu_opcode=isa.AluOpcode.SHR),
    isa.Alu(uop_end=1, iter_out=1, iter_in=2, dst_factor_in=1, alu_opcode=isa.AluOpcode.MUL),
    isa.Gemm(uop_end=2, iter_out=1, iter_in=1, dst_factor_in=1),
    isa.Depthwise(
        uop_begin=3,
        uop_end=5,
        iter_out=3,
        iter_in=4,
        stride_2=1,
        dst_factor_out=7,
        dst_factor_in=2,
        src_factor_out=5,
        src_factor_in=3,
        wgt_factor_out=2,
        push_next=1,
    ),
    isa.Depthwise(
        uop_begin=1, uop_end=3, iter_out=2, iter_in=3, dst_factor_in=1, src_factor_in=1, overwrite=1
    ),
    isa.Depthwise(uop_end=1, iter_out=2, iter_in=1, src_factor_out=1),
    isa.Depthwise(uop_end=2, iter_out=1, iter_in=1, stride_2=1),
    isa.Depthwise(uop_end=1, iter_out=1, iter_in=0, push_prev=1),
    isa.Gemm(uop_end=2, iter_out=1, iter_in=2, src_factor_in=1, reset=1),
    isa.Finish(push_prev=1),
)


def turns(config, instruction) -> list[dict]:
    """Return what differs between the slots of a step."""
    if not isinstance(instruction, isa.Alu):
        return [{"turn": 0, "step": 1}]
    count = alu_slots(config.alu_pieces, instruction.alu_opcode, config.alu_stages)
    differences = [{"turn": turn, "step": int(turn == count - 1), "empty": 0} for turn in range(count)]
    if source_slots(config.acc_ports, instruction.use_imm):
        differences = [
            {"turn": 0, "step": 0, "empty": 1, "source": 1},
            *({**slot, "source": 0} for slot in differences),
        ]
    return differences


def row_slots(work: isa.Depthwise) -> list[dict]:
    """Return the slots of a DEPTHWISE that has any."""
    listed = []
    for i in range(work.iter_out):
        for uop in range(work.uop_begin, work.uop_end):
            done = 0
            last = 4 if work.wide else 2
            for column in range((work.iter_in - 1) * (1 + work.stride_2) + last + 1):
                sums = column >= last and (column - last) % (1 + work.stride_2) == 0
                offsets = {
                    "dst": i * work.dst_factor_out + done * work.dst_factor_in,
                    "src": i * work.src_factor_out + column * work.src_factor_in,
                    "wgt": i * work.wgt_factor_out,
                }
                flags = {"window": 1, "empty": int(not sums), "step": int(sums), "overwrite": work.overwrite}
                listed.append({"uop": uop, "reset": 0, **flags, **offsets})
                done += sums
    return listed


def slots(config, instruction) -> list[dict]:
    """Return the slots of an instruction: micro-op, offsets and what kind each is."""
    listed = step_slots(config, instruction)
    if isinstance(instruction, isa.Depthwise) and instruction.iter_in:
        listed = row_slots(instruction)
    return [{**slot, "last": int(index == len(listed) - 1)} for index, slot in enumerate(listed)] or [
        {"empty": 1, "last": 1, "step": 0}
    ]


def step_slots(config, instruction) -> list[dict]:
    """Return the slots of a GEMM or ALU instruction."""
    loops = (
        []
        if isinstance(instruction, isa.Finish | isa.Depthwise)
        else [
            (i, j, uop)
            for i in range(instruction.iter_out)
            for j in range(instruction.iter_in)
            for uop in range(instruction.uop_begin, instruction.uop_end)
        ]
    )
    names = ("dst", "src") if isinstance(instruction, isa.Alu) else ("dst", "src", "wgt")
    return [
        {
            "uop": uop,
            **turn,
            **{
                name: i * getattr(instruction, f"{name}_factor_out", 0)
                + j * getattr(instruction, f"{name}_factor_in", 0)
                for name in names
            },
        }
        for i, j, uop in loops
        for turn in turns(config, instruction)
    ]


def known(config, instruction) -> bool:
    """Return whether a configuration has an instruction."""
    if isinstance(instruction, isa.Depthwise):
        return config.has(Extension.DEPTHWISE)
    return not isinstance(instruction, isa.Alu) or instruction.alu_opcode in config.alu_opcodes


def inputs(config) -> tuple[str, ...]:
    """Return the inputs of the sequencer."""
    return ("start", "instruction", *(() if has_shadow(config) else ("taken",)))


def check(dut, config, instruction, slot: dict) -> None:
    """Compare this cycle's slot."""
    actual = unpack(slot_layout(config), int(dut.slot.value))
    actual["uop"] = int(dut.uop_address.value)
    assert {name: actual[name] for name in slot} == slot
    assert actual["finish"] == isinstance(instruction, isa.Finish)
    assert (actual["push_prev"], actual["push_next"]) == (instruction.push_prev, instruction.push_next)
    assert actual["alu"] == isinstance(instruction, isa.Alu)


@cocotb.test()
async def test_slots_follow_each_other_without_a_gap(dut):
    config = configuration()
    await start(dut, *inputs(config))
    waiting = [instruction for instruction in PROGRAM if known(config, instruction)]
    expected = [(instruction, slot) for instruction in waiting for slot in slots(config, instruction)]
    for cycle in range(len(expected) + 1):
        dut.start.value = int(bool(waiting) and int(dut.free.value))
        if waiting and int(dut.free.value):
            dut.instruction.value = codec.encode(waiting.pop(0), config)
        if cycle:
            assert int(dut.active.value) == 1
            check(dut, config, *expected[cycle - 1])
        await FallingEdge(dut.clk)
    assert int(dut.active.value) == 0
    assert not waiting


@cocotb.test()
async def test_nothing_moves_in_a_cycle_that_is_taken(dut):
    """An instruction whose last slot was due has it later, and the next instruction starts with it. An
    instruction that starts in such a cycle, with nothing to issue, begins in the next."""
    config, rng = configuration(), random.Random(3)
    if has_shadow(config):
        return
    await start(dut, *inputs(config))
    waiting = [instruction for instruction in PROGRAM if known(config, instruction)] * 3
    expected = [(instruction, slot) for instruction in waiting for slot in slots(config, instruction)]
    due, running = iter(expected), False
    while waiting or running:
        dut.taken.value = taken = rng.randrange(2)
        await Timer(1, "ns")
        assert int(dut.running.value) == running
        assert int(dut.active.value) == (running and not taken)
        if running and not taken:
            check(dut, config, *next(due))
        free = int(dut.free.value)
        starts = bool(waiting and free and rng.randrange(4))
        dut.start.value = int(starts)
        if starts:
            dut.instruction.value = codec.encode(waiting.pop(0), config)
        running = starts or (running and not free)
        await FallingEdge(dut.clk)
    assert next(due, None) is None


@cocotb.test()
async def test_an_index_that_passed_the_end_once_stays_marked(dut):
    """The offset wraps to an index inside the scratchpad; the bit above it must tell."""
    config = configuration()
    await start(dut, *inputs(config))
    bits = config.index_bits(MemoryType.ACC)
    dut.start.value, dut.instruction.value = (
        1,
        codec.encode(isa.Gemm(uop_end=1, iter_out=1, iter_in=5, dst_factor_in=(1 << bits) - 1), config),
    )
    await FallingEdge(dut.clk)
    dut.start.value = 0
    for trip in range(5):
        total = trip * ((1 << bits) - 1)
        index = unpack(slot_layout(config), int(dut.slot.value))["dst"]
        assert index == total % (1 << bits) | (total >= 1 << bits) << bits, trip
        await FallingEdge(dut.clk)
