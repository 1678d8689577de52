"""What an instruction reaches, access by access, and the error where a memory ends before."""

import numpy as np
import pytest

from tests.sim.helpers import ACC, CONFIG, INP, TABLE, UOP, WGT, alu, gemm, load, store, stream_of
from vdla.hw.spec import codec, encoding, isa
from vdla.hw.spec.assembly import format_instruction
from vdla.hw.spec.errors import AccessError
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType
from vdla.sim.access import check_access, reaches, uop_column
from vdla.sim.decoded import decode_stream

EVERYTHING = CONFIG.with_changes(extensions=tuple(Extension), res_buffer_bytes=64)
RES, OUT = MemoryType.RES, MemoryType.OUT
UOPS = [isa.MicroOp(dst=3, src=2, wgt=1), isa.MicroOp(dst=1, src=5, wgt=4), isa.MicroOp(dst=15)]
DRAM_BYTES = 0x400
LOOPS = {"iter_out": 3, "iter_in": 2, "uop_end": 2, "dst_factor_out": 4, "dst_factor_in": 1}
FACTORS = {"src_factor_out": 2, "src_factor_in": 3, "wgt_factor_out": 1, "wgt_factor_in": 2}


def encoded(*uops: isa.MicroOp) -> np.ndarray:
    """Return a micro-op memory that begins with `uops`."""
    memory = np.zeros(EVERYTHING.depth(UOP), np.uint32)
    memory[: len(uops)] = np.frombuffer(codec.uops_to_bytes(uops, EVERYTHING), np.uint32)
    return memory


CASES = {
    "LOAD with padding": (
        load(INP, sram_base=2, dram_base=5, y_size=2, x_size=3, x_stride=7, y_pad_1=1, x_pad_0=1),
        [(INP, 2, 2 + 3 * 4, 16), (None, 5 * 4, (5 + 7 + 3) * 4, DRAM_BYTES)],
    ),
    "LOAD of nothing": (load(INP, x_size=0), []),
    "GATHER": (
        isa.Gather(memory_type=INP, sram_base=1, dram_base=9, y_size=2, x_size=3, x_stride=50, step=6),
        [(INP, 1, 7, 16), (None, 9, 9 + 50 + 2 * 6 + 4, DRAM_BYTES)],
    ),
    "STORE": (
        store(sram_base=3, dram_base=2, y_size=2, x_size=3, x_stride=9),
        [(OUT, 3, 9, 16), (None, 2 * 4, (2 + 9 + 3) * 4, DRAM_BYTES)],
    ),
    "STORE with a table and a residual": (
        store(parameters=2, table=3, residual=6, x_size=2),
        [
            (OUT, 0, 2, 16),
            (ACC, 4, 8, 16),
            (TABLE, 128, 192, EVERYTHING.depth(TABLE)),
            (ACC, 0, 4, 16),
            (RES, 5, 7, 16),
            (None, 0, 8, DRAM_BYTES),
        ],
    ),
    "GEMM": (
        gemm(**LOOPS, **FACTORS),
        [
            (UOP, 0, 2, 16),
            (ACC, 1, 3 + 2 * 4 + 1 + 1, 16),
            (INP, 2, 5 + 2 * 2 + 3 + 1, 16),
            (WGT, 1, 4 + 2 * 1 + 2 + 1, 16),
        ],
    ),
    "GEMM that resets": (gemm(**LOOPS, reset=1), [(UOP, 0, 2, 16), (ACC, 1, 13, 16)]),
    "GEMM of another micro-op": (
        gemm(uop_begin=2, uop_end=3),
        [(UOP, 2, 3, 16), (ACC, 15, 16, 16), (INP, 0, 1, 16), (WGT, 0, 1, 16)],
    ),
    "GEMM of micro-ops that do not exist": (gemm(uop_begin=15, uop_end=17), [(UOP, 15, 17, 16)]),
    "GEMM of the last micro-op": (
        gemm(reset=1, uop_begin=15, uop_end=16),
        [(UOP, 15, 16, 16), (ACC, 0, 1, 16)],
    ),
    "ALU": (
        alu(AluOpcode.ADD, **LOOPS, src_factor_out=1),
        [(UOP, 0, 2, 16), (ACC, 1, 13, 16), (ACC, 2, 5 + 2 + 1, 16)],
    ),
    "FINISH": (isa.Finish(), []),
}


@pytest.mark.parametrize("title", CASES)
def test_an_instruction_reaches_what_its_fields_say(title):
    instruction, expected = CASES[title]
    ranges = [
        (reach.memory, reach.low, reach.high, reach.limit)
        for reach in reaches(instruction, encoded(*UOPS), EVERYTHING, DRAM_BYTES)
    ]
    assert ranges == expected


def check(instruction: isa.Instruction) -> None:
    program = decode_stream(stream_of([isa.Finish(), instruction], EVERYTHING), EVERYTHING)
    check_access(program, 1, encoded(*UOPS), DRAM_BYTES)


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (load(INP, sram_base=14, x_size=3), "reaches INP elements 14..16, but INP holds 16"),
        (
            store(dram_base=0xFE, x_size=3),
            "reaches DRAM bytes 0x3f8..0x403, but DRAM has 0x400 bytes",
        ),
        (gemm(uop_begin=15, uop_end=17), "reaches UOP elements 15..16, but UOP holds 16"),
        (
            gemm(uop_begin=2, uop_end=3, iter_in=2, dst_factor_in=1),
            "reaches ACC elements 15..16, but ACC holds 16",
        ),
    ],
    ids=str,
)
def test_an_access_beyond_a_memory_is_refused_in_words(instruction, text):
    with pytest.raises(AccessError) as caught:
        check(instruction)
    assert str(caught.value) == f"instruction 1 ({format_instruction(instruction)}) {text}"
    assert caught.value.index == 1


@pytest.mark.parametrize(
    "instruction",
    [
        load(INP, sram_base=14, x_size=2),
        store(dram_base=0xFD, x_size=3),
        gemm(reset=1, uop_begin=14, uop_end=16),
        gemm(uop_begin=2, uop_end=3, iter_in=2),
    ],
    ids=str,
)
def test_an_access_that_ends_with_its_memory_passes(instruction):
    check(instruction)


def test_fields_of_micro_ops_come_as_columns():
    columns = {
        name: uop_column(encoded(*UOPS), name, EVERYTHING)[:4].tolist() for name in ("dst", "src", "wgt")
    }
    assert columns == {"dst": [3, 1, 15, 0], "src": [2, 5, 0, 0], "wgt": [1, 4, 0, 0]}
    most = {field.name: (1 << field.width) - 1 for field in encoding.layout(isa.MicroOp, EVERYTHING)}
    full = encoded(isa.MicroOp(**most))
    assert {name: int(uop_column(full, name, EVERYTHING)[0]) for name in most} == most
