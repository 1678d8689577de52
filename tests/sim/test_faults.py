"""Illegal programs are refused with an error that says where, what and how far; and they change nothing."""

import numpy as np
import pytest

from tests.programs.model import Model
from tests.sim.helpers import (
    ACC,
    ACC_8BIT,
    CONFIG,
    INP,
    UOP,
    WGT,
    alu,
    gemm,
    load,
    machine_with,
    run,
    store,
    stream_of,
)
from vdla.hw.spec import codec, encoding, isa
from vdla.hw.spec.assembly import format_instruction
from vdla.hw.spec.errors import AccessError, InvalidInstructionError
from vdla.hw.spec.isa import MicroOp
from vdla.hw.spec.vocabulary import AluOpcode
from vdla.sim.decoded import decode_stream

LAST = [MicroOp(dst=15, src=15, wgt=15)]
DRAM_BYTES = 4096

OVERRUNS = [
    (load(INP, sram_base=15, x_size=2), "INP elements 15..16, but INP holds 16"),
    (load(WGT, sram_base=16), "WGT elements 16..16, but WGT holds 16"),
    (load(UOP, x_size=17), "UOP elements 0..16, but UOP holds 16"),
    (load(ACC, sram_base=10, y_size=2, x_size=2, x_pad_1=2), "ACC elements 10..17, but ACC holds 16"),
    (load(ACC_8BIT, sram_base=9, y_size=0, y_pad_0=8), "ACC_8BIT elements 9..16, but ACC_8BIT holds 16"),
    (load(INP, x_size=65535, y_size=65535), f"INP elements 0..{65535 * 65535 - 1}, but INP holds 16"),
    (store(sram_base=8, y_size=3, x_size=3), "OUT elements 8..16, but OUT holds 16"),
    (gemm(iter_in=2, dst_factor_in=1), "ACC elements 15..16, but ACC holds 16"),
    (gemm(iter_in=2, src_factor_in=1), "INP elements 15..16, but INP holds 16"),
    (gemm(iter_out=3, wgt_factor_out=2), "WGT elements 15..19, but WGT holds 16"),
    (gemm(reset=1, iter_out=3, dst_factor_out=2), "ACC elements 15..19, but ACC holds 16"),
    (gemm(uop_begin=1, uop_end=17), "UOP elements 1..16, but UOP holds 16"),
    (alu(AluOpcode.ADD, iter_in=2, src_factor_in=1), "ACC elements 15..16, but ACC holds 16"),
    (alu(AluOpcode.ADD, use_imm=1, iter_in=2, dst_factor_in=15), "ACC elements 15..30, but ACC holds 16"),
    (load(INP, dram_base=1024), "DRAM bytes 0x1000..0x1003, but DRAM has 0x1000 bytes"),
    (load(WGT, dram_base=0xFFFFFFFF), "DRAM bytes 0xffffffff0..0xfffffffff, but DRAM has 0x1000 bytes"),
    (load(INP, dram_base=1000, y_size=2, x_stride=24), "DRAM bytes 0xfa0..0x1003, but DRAM has 0x1000 bytes"),
    (store(dram_base=1022, x_size=3), "DRAM bytes 0xff8..0x1003, but DRAM has 0x1000 bytes"),
]


@pytest.mark.parametrize("native", [True, False], ids=["native", "reference"])
@pytest.mark.parametrize(("instruction", "reach"), OVERRUNS)
def test_an_overrun_is_refused_and_changes_nothing(instruction, reach, native):
    machine, dram = (
        machine_with(uops=LAST * 16, acc=np.arange(64), inp=[[1] * 4] * 16),
        np.ones(DRAM_BYTES, np.uint8),
    )
    before = [array.copy() for array in (dram, machine.pads.uop, machine.pads.inp, machine.pads.wgt)]
    with pytest.raises(AccessError) as caught:
        run(
            machine,
            alu(AluOpcode.ADD, use_imm=1, imm=1),
            instruction,
            gemm(reset=1),
            dram=dram,
            native=native,
        )
    assert str(caught.value) == f"instruction 1 ({format_instruction(instruction)}) reaches {reach}"
    assert caught.value.index == 1
    after = (dram, machine.pads.uop, machine.pads.inp, machine.pads.wgt)
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    # what stands before it has executed
    expected = np.arange(64).reshape(16, 4) + (np.arange(16) == 15)[:, None]
    assert np.array_equal(machine.pads.acc[:, 0], expected)


WITHIN = [  # an instruction, the memory that it changes, and the elements (DRAM: bytes) of it
    (load(INP, sram_base=14, x_size=2), "inp", [14, 15]),
    (load(INP, dram_base=1023), "inp", [0]),
    (load(WGT, dram_base=255), "wgt", [0]),
    (load(ACC, y_size=0, y_pad_0=15, y_pad_1=1, dram_base=0xFFFFFFFF), "acc", range(16)),
    (store(dram_base=1021, sram_base=13, x_size=3), "dram", range(4084, 4096)),
    (gemm(iter_in=1, iter_out=1, dst_factor_in=15, src_factor_out=15), "acc", [15]),
    (gemm(reset=1, iter_in=4, src_factor_in=15, wgt_factor_in=15), "acc", [15]),
    (alu(AluOpcode.ADD, use_imm=1, imm=1, iter_in=9, src_factor_in=15), "acc", [15]),
    (gemm(uop_end=16), "acc", [15]),
    (gemm(uop_begin=15, uop_end=31, iter_out=0), "acc", []),
    (gemm(uop_begin=15, uop_end=3, iter_out=9, iter_in=9), "acc", []),
]


@pytest.mark.parametrize("native", [True, False], ids=["native", "reference"])
@pytest.mark.parametrize(("instruction", "changes", "elements"), WITHIN)
def test_the_last_element_can_be_reached(instruction, changes, elements, native):
    model = Model(CONFIG, bytearray(range(1, 251)) * 17)
    del model.dram[DRAM_BYTES:]
    for first, memory in enumerate((INP, WGT, ACC), 1):
        model.pads[memory] = [
            [first + 3 * index + place for place in range(len(values))]
            for index, values in enumerate(model.pads[memory])
        ]
    model.pads[UOP] = [[codec.encode(uop, CONFIG)] for uop in LAST * 16]
    machine = machine_with(uops=LAST * 16, inp=model.pads[INP], wgt=model.pads[WGT], acc=model.pads[ACC])
    dram, before = np.array(model.dram), contents(machine, np.array(model.dram))
    run(machine, instruction, dram=dram, native=native)
    after, expected = contents(machine, dram), model.run([instruction])
    differs = {name: np.flatnonzero((after[name] != before[name]).any(axis=1)).tolist() for name in after}
    assert differs == {name: list(elements) if name == changes else [] for name in after}
    assert after["dram"].tobytes() == expected
    for memory in (INP, WGT, ACC):
        assert np.array_equal(after[memory.name.lower()], model.pads[memory])


def contents(machine, dram: np.ndarray) -> dict[str, np.ndarray]:
    """Return copies of DRAM, uint8[bytes, 1], and of the scratchpads, int[elements, values], by name."""
    pads = {name: getattr(machine.pads, name) for name in ("uop", "inp", "wgt", "acc")}
    return {name: array.reshape(len(array), -1).copy() for name, array in {"dram": dram, **pads}.items()}


OPCODES = "LOAD (0), STORE (1), GEMM (2), FINISH (3), ALU (4)"
MEMORIES = "UOP (0), WGT (1), INP (2), ACC (3), OUT (4), ACC_8BIT (5)"
INVALID = [
    (7, f"opcode 7 is not an instruction; there are {OPCODES}"),
    (0 | 6 << 7, f"LOAD.memory_type = 6 is none of {MEMORIES}"),
    (0 | 4 << 7, "LOAD.memory_type = OUT cannot be loaded; UOP, WGT, INP, ACC, ACC_8BIT can"),
    (1 | 3 << 7 | 1 << 80, "STORE.memory_type = ACC cannot be stored; only OUT can"),
    (
        4 | 7 << encoding.field_of(isa.Alu, "alu_opcode", CONFIG).start,
        "ALU.alu_opcode = 7 is none of MIN (0), MAX (1), ADD (2), SHR (3), MUL (4)",
    ),
]


@pytest.mark.parametrize(("word", "reason"), INVALID)
def test_a_bit_pattern_without_a_meaning_is_refused(word, reason):
    stream = stream_of([gemm(reset=1), gemm(reset=1), isa.Finish()]).copy()
    stream[1] = np.frombuffer(word.to_bytes(16, "little"), np.uint8)
    with pytest.raises(InvalidInstructionError) as caught:
        machine_with().run(decode_stream(stream, CONFIG), np.zeros(64, np.uint8))
    assert str(caught.value) == f"instruction 1 ({word:#034x}) is invalid: {reason}"
    assert caught.value.index == 1


def test_an_operation_that_is_not_built_is_refused():
    stream = stream_of([alu(AluOpcode.MUL), isa.Finish()])
    machine = machine_with(CONFIG.with_changes(alu_opcodes=("MIN", "MAX")))
    with pytest.raises(InvalidInstructionError) as caught:
        machine.run(decode_stream(stream, machine.config), np.zeros(64, np.uint8))
    assert str(caught.value).endswith(
        "ALU.alu_opcode = MUL is not built into this configuration; it has MIN, MAX"
    )


def test_the_message_reads_well():
    with pytest.raises(AccessError) as caught:
        run(machine_with(), load(INP, sram_base=15, x_size=2))
    assert str(caught.value) == (
        "instruction 0 (LOAD(memory_type=INP, sram_base=15, y_size=1, x_size=2, x_stride=1)) "
        "reaches INP elements 15..16, but INP holds 16"
    )
