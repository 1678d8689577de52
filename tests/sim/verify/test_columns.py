"""What the verifier reads of each instruction: its walks in the order in which they are followed, counted by
hand."""

import numpy as np
import pytest

from tests.sim import helpers
from tests.sim.helpers import ACC, ACC_8BIT, INP, OUT, RES, TABLE, UOP, WGT, alu, gemm, load, store, stream_of
from vdla.hw.spec import encoding, isa
from vdla.hw.spec.footprint import MOST_ACCESSES
from vdla.hw.spec.vocabulary import AluOpcode, Extension
from vdla.sim import decoded
from vdla.sim.decoded import decode_stream
from vdla.sim.verify.columns import DRAM, ITEM, LOAD_FROM_DRAM, LOAD_ON_CHIP, WALK, footprint_columns

CONFIG = helpers.CONFIG.with_changes(
    name="everything", extensions=tuple(Extension), res_buffer_bytes=64, wgt_bits=4, wgt_buffer_bytes=128
)
"""16 elements in each scratchpad: of WGT 8 bytes, of ACC 16, of the others 4."""
LOOPS = {"uop_begin": 2, "uop_end": 5, "iter_out": 7, "iter_in": 4}
STEPS = {
    "dst_factor_out": 1,
    "dst_factor_in": 2,
    "src_factor_out": 3,
    "src_factor_in": 4,
    "wgt_factor_out": 5,
}
FIELDS = {name: encoding.field_of(isa.MicroOp, name, CONFIG) for name in ("dst", "src", "wgt")}


def walk(memory: int, base: int, outer: tuple[int, int], inner: tuple[int, int], **fields: object) -> dict:
    """Return a walk that reads; `outer` and `inner` are trips and the step between them."""
    return {
        "happens": True,
        "memory": memory,
        "base": base,
        "trips_out": outer[0],
        "step_out": outer[1],
        "trips_in": inner[0],
        "step_in": inner[1],
        **fields,
    }


def operand(memory: int, name: str, outer: tuple[int, int], inner: tuple[int, int], **fields: object) -> dict:
    """Return the walk of an operand that a micro-op names."""
    placed = {"uop_start": FIELDS[name].start, "uop_width": FIELDS[name].width}
    return walk(memory, 0, outer, inner, **{"needs": True, **placed, **fields})


PADS = {"y_pad_0": 1, "y_pad_1": 2, "x_pad_0": 3, "x_pad_1": 1}
NOTHING: list[dict] = []
FITS = {"fits": True}
LOOPING = {"steps": True, "fits": True, **LOOPS}
SUMS = operand(ACC, "dst", (7, 1), (4, 2), writes=True)

CASES = {
    "LOAD with padding": (
        load(
            WGT,
            sram_base=1,
            dram_base=9,
            y_size=2,
            x_size=2,
            x_stride=5,
            **(PADS | {"y_pad_1": 0, "x_pad_0": 2}),
        ),
        FITS,
        [
            walk(DRAM, 9 * 8, (2, 5 * 8), (2, 8)),
            walk(WGT, 1, (3, 5), (5, 1), writes=True, before_out=1, before_in=2),
        ],
    ),
    "LOAD that ends with its memory": (
        load(INP, sram_base=10, x_size=6),
        FITS,
        [walk(DRAM, 0, (1, 4), (6, 4)), walk(INP, 10, (1, 6), (6, 1), writes=True)],
    ),
    "LOAD that goes beyond": (
        load(INP, sram_base=11, x_size=6),
        {},
        [walk(DRAM, 0, (1, 4), (6, 4)), walk(INP, 11, (1, 6), (6, 1), writes=True)],
    ),
    "LOAD of micro-ops beside steps": (
        load(UOP, beside=1),
        {**FITS, "fills": True},
        [walk(DRAM, 0, (1, 4), (1, 4)), walk(UOP, 0, (1, 1), (1, 1), writes=True)],
    ),
    "LOAD of accumulators beside steps": (
        load(ACC, beside=1),
        {**FITS, "beside": True},
        [walk(DRAM, 0, (1, 16), (1, 16)), walk(ACC, 0, (1, 1), (1, 1), writes=True)],
    ),
    "LOAD of narrow accumulators beside steps": (
        load(ACC_8BIT, beside=1),
        {**FITS, "beside": True},
        [walk(DRAM, 0, (1, 4), (1, 4)), walk(ACC, 0, (1, 1), (1, 1), writes=True)],
    ),
    "LOAD of accumulators that pushes to the store unit": (
        load(ACC, beside=1, push_next=1),
        FITS,
        [walk(DRAM, 0, (1, 16), (1, 16)), walk(ACC, 0, (1, 1), (1, 1), writes=True)],
    ),
    "LOAD of accumulators that pushes to the load unit": (
        load(ACC, beside=1, push_prev=1),
        FITS,
        [walk(DRAM, 0, (1, 16), (1, 16)), walk(ACC, 0, (1, 1), (1, 1), writes=True)],
    ),
    "LOAD of accumulators that promises nothing": (
        load(ACC),
        FITS,
        [walk(DRAM, 0, (1, 16), (1, 16)), walk(ACC, 0, (1, 1), (1, 1), writes=True)],
    ),
    "GATHER": (
        isa.Gather(
            memory_type=INP, sram_base=1, dram_base=9, y_size=2, x_size=3, x_stride=50, step=6, y_pad_0=1
        ),
        FITS,
        [walk(DRAM, 9, (2, 50), (2 * 6 + 4, 1)), walk(INP, 1, (3, 3), (3, 1), writes=True, before_out=1)],
    ),
    "STORE with a table and a residual": (
        store(sram_base=4, dram_base=2, y_size=2, x_size=3, x_stride=9, parameters=2, table=3, residual=6),
        FITS,
        [
            walk(DRAM, 2 * 4, (2, 9 * 4), (3, 4), writes=True),
            walk(RES, 5, (2, 3), (3, 1), needs=True),
            walk(ACC, 0, (1, 0), (4, 1), needs=True),
            walk(TABLE, 128, (1, 0), (64, 1), needs=True),
            walk(ACC, 4, (1, 0), (4, 1), needs=True),
            walk(ACC, 4, (2, 3), (3, 1), needs=True),
        ],
    ),
    "STORE of a set that does not exist": (
        store(parameters=5),
        {},
        [
            walk(DRAM, 0, (1, 4), (1, 4), writes=True),
            walk(ACC, 16, (1, 0), (4, 1), needs=True),
            walk(ACC, 0, (1, 1), (1, 1), needs=True),
        ],
    ),
    "STORE of nothing": (store(y_size=0, sram_base=99, parameters=5), FITS, NOTHING),
    "GEMM": (
        gemm(**LOOPS, **STEPS, wgt_factor_in=6),
        LOOPING,
        [
            operand(INP, "src", (7, 3), (4, 4)),
            operand(WGT, "wgt", (7, 5), (4, 6)),
            {**SUMS},
        ],
    ),
    "GEMM that overwrites": (
        gemm(**LOOPS, **STEPS, overwrite=1),
        LOOPING,
        [
            operand(INP, "src", (7, 3), (4, 4)),
            operand(WGT, "wgt", (7, 5), (4, 0)),
            {**SUMS, "needs": False},
        ],
    ),
    "GEMM that resets": (gemm(**LOOPS, **STEPS, reset=1), LOOPING, [{**SUMS, "needs": False}]),
    "GEMM without steps": (gemm(**LOOPS | {"uop_end": 2}), LOOPING | {"uop_end": 2}, NOTHING),
    "ALU": (
        alu(AluOpcode.ADD, **LOOPS, dst_factor_out=1, dst_factor_in=2, src_factor_out=3, src_factor_in=4),
        LOOPING,
        [operand(ACC, "src", (7, 3), (4, 4)), SUMS],
    ),
    "ALU by a constant": (
        alu(AluOpcode.ADD, **LOOPS, dst_factor_out=1, dst_factor_in=2, use_imm=1),
        LOOPING,
        [SUMS],
    ),
    "FINISH": (isa.Finish(), FITS, NOTHING),
}
WINDOWS = CONFIG.with_changes(
    name="windows",
    block_in=8,
    block_out=8,
    inp_buffer_bytes=128,
    wgt_buffer_bytes=512,
    acc_buffer_bytes=512,
    res_buffer_bytes=128,
)


def record(row: np.void) -> dict[str, object]:
    return {name: row[name].item() for name in row.dtype.names}


def records_of(instructions, config=CONFIG) -> list[tuple[dict[str, object], list[dict[str, object]]]]:
    """Return, of each instruction, its item and the walks that happen."""
    items, walks = footprint_columns(decode_stream(stream_of(instructions, config), config))
    return [
        (record(item), [record(walk) for walk in row if walk["happens"]])
        for item, row in zip(items, walks.reshape(-1, MOST_ACCESSES), strict=True)
    ]


@pytest.mark.parametrize("title", CASES)
def test_an_instruction_makes_the_walks_of_its_fields(title):
    instruction, item, walks = CASES[title]
    ((actual_item, actual_walks),) = records_of([instruction])
    assert actual_item == dict.fromkeys(ITEM.names, 0) | item
    assert actual_walks == [dict.fromkeys(WALK.names, 0) | walk for walk in walks]


@pytest.mark.parametrize(("stride", "columns"), [(0, 4 + 2), (1, 2 * 4 + 1)])
def test_a_depthwise_makes_rows_of_windows(stride, columns):
    ((item, walks),) = records_of([isa.Depthwise(**LOOPS, **STEPS, stride_2=stride)], WINDOWS)
    assert item == dict.fromkeys(ITEM.names, 0) | LOOPING | {"rows": True}
    assert [
        (it["memory"], it["trips_out"], it["step_out"], it["trips_in"], it["step_in"]) for it in walks
    ] == [
        (INP, 7, 3, columns, 4),
        (WGT, 7, 5, columns, 0),
        (ACC, 7, 1, 4, 2),
    ]
    assert [(it["writes"], it["needs"]) for it in walks] == [(False, True), (False, True), (True, True)]


def test_the_walks_of_a_load_have_their_places():
    _, walks = footprint_columns(decode_stream(stream_of([load(INP)], CONFIG), CONFIG))
    assert (walks[LOAD_FROM_DRAM]["memory"], walks[LOAD_ON_CHIP]["memory"]) == (DRAM, INP)
    assert OUT not in walks["memory"]


def test_every_instruction_makes_the_walks_that_it_makes_alone(monkeypatch):
    """A stream is looked at a few instructions at a time."""
    monkeypatch.setattr(decoded, "BLOCK", 3)
    instructions = [instruction for instruction, _, _ in CASES.values()]
    assert records_of(instructions) == [entry for single in instructions for entry in records_of([single])]
