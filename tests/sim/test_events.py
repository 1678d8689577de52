"""Events of instructions, against counts by hand and against the counters of a run."""

import numpy as np
import pytest

from tests.sim.helpers import ACC, CONFIG, INP, OUT, RES, TABLE, UOP, WGT, alu, gemm, load, store, stream_of
from vdla.hw.spec import isa
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType, Statistic
from vdla.sim.decoded import decode_stream
from vdla.sim.events import Events, events_of

EVERYTHING = CONFIG.with_changes(extensions=tuple(Extension))
NOTHING = {"products": 0, "wide_products": 0, "sums": 0, "reads": {}, "writes": {}, "moved": 0}
FOUR_STEPS = {"iter_out": 2, "iter_in": 1, "uop_end": 2}


def normalise(**fields) -> isa.Normalise:
    """Return a NORMALISE of six elements of four values."""
    return isa.Normalise(**{"memory_type": OUT, "y_size": 2, "x_size": 3, "x_stride": 3, **fields})


CASES = {
    "LOAD with padding": (
        load(INP, y_size=3, x_size=2, x_stride=2, y_pad_0=1, x_pad_1=1),
        {"writes": {INP: 4 * 3}, "moved": 6 * 4},
    ),
    "LOAD of narrow accumulators": (
        load(MemoryType.ACC_8BIT, y_size=1, x_size=5),
        {"writes": {ACC: 5}, "moved": 5 * 4},
    ),
    "LOAD of nothing": (load(WGT, y_size=3, x_size=0), {}),
    "GEMM": (
        gemm(**FOUR_STEPS),
        {
            "products": 4 * 16,
            "sums": 4 * 16,
            "reads": {UOP: 4, INP: 4, WGT: 4, ACC: 4},
            "writes": {ACC: 4},
        },
    ),
    "GEMM that overwrites": (
        gemm(overwrite=1, **FOUR_STEPS),
        {"products": 4 * 16, "sums": 4 * 16, "reads": {UOP: 4, INP: 4, WGT: 4}, "writes": {ACC: 4}},
    ),
    "GEMM that resets": (gemm(reset=1, **FOUR_STEPS), {"reads": {UOP: 4}, "writes": {ACC: 4}}),
    "GEMM without steps": (gemm(uop_begin=2, uop_end=2), {}),
    "ALU of two operands": (
        alu(AluOpcode.ADD, **FOUR_STEPS),
        {"sums": 4 * 4, "reads": {UOP: 4, ACC: 8}, "writes": {ACC: 4}},
    ),
    "ALU that multiplies by a constant": (
        alu(AluOpcode.MUL, use_imm=1, **FOUR_STEPS),
        {"wide_products": 4 * 4, "reads": {UOP: 4, ACC: 4}, "writes": {ACC: 4}},
    ),
    "STORE of low bits": (store(y_size=2, x_size=3), {"reads": {ACC: 6}, "moved": 6 * 4}),
    "STORE that requantises": (
        store(y_size=2, x_size=3, parameters=1),
        {"wide_products": 6 * 4, "sums": 2 * 6 * 4, "reads": {ACC: 6 + 4}, "moved": 6 * 4},
    ),
    "STORE with a table and a residual": (
        store(y_size=2, x_size=3, parameters=1, table=2, residual=5),
        {
            "wide_products": 6 * 4,
            "products": 4 * 6 * 4,
            "sums": (2 + 3) * 6 * 4,
            "reads": {ACC: 6 + 8, TABLE: 6 * 4, RES: 6},
            "moved": 6 * 4,
        },
    ),
    "NORMALISE that gathers moments of requantised values": (
        normalise(statistic=Statistic.MOMENTS, parameters=1),
        {"products": 24, "wide_products": 24, "sums": (2 + 2) * 24, "reads": {ACC: 6 + 4}},
    ),
    "NORMALISE that gathers the greatest values; the table is not read": (
        normalise(statistic=Statistic.GREATEST, table=1),
        {"sums": 2 * 24, "reads": {ACC: 6}},
    ),
    "NORMALISE that gathers powers": (
        normalise(statistic=Statistic.POWERS, table=1),
        {"sums": 2 * 24, "reads": {ACC: 6, TABLE: 24}},
    ),
    "NORMALISE that writes powers": (
        normalise(statistic=Statistic.GREATEST, table=1, normal=2),
        {"wide_products": 2 * 24, "sums": 2 * 24, "reads": {ACC: 6 + 4, TABLE: 24}, "moved": 24},
    ),
    "NORMALISE that writes inputs": (
        normalise(statistic=Statistic.MOMENTS, normal=2, memory_type=INP),
        {"wide_products": 2 * 24, "sums": 2 * 24, "reads": {ACC: 6 + 4}, "writes": {INP: 6}},
    ),
}


SLIDING = CONFIG.with_changes(block_in=8, block_out=8, extensions=tuple(Extension))


@pytest.mark.parametrize(("overwrite", "read"), [(0, 8), (1, 0)])
@pytest.mark.parametrize("more_rows", [0, 1])
def test_a_depthwise_reads_inputs_and_weights_in_every_slot_and_accumulators_for_every_sum(
    overwrite, read, more_rows
):
    rows = isa.Depthwise(
        iter_out=2, iter_in=2, uop_end=2, stride_2=1, overwrite=overwrite, more_rows=more_rows
    )  # 4 rows of 2 sums
    totals = events(rows, isa.Finish(), config=SLIDING)
    assert totals.products.tolist() == totals.sums.tolist() == [8 * 3 * (1 + more_rows) * 8, 0]
    reads = {memory: int(counts[0]) for memory, counts in totals.reads.items()}
    assert reads == {UOP: 8, INP: 4 * 5 * (1 + more_rows), WGT: 4 * 5, ACC: read, TABLE: 0, RES: 0}
    assert totals.writes[ACC].tolist() == [8, 0]


def events(*instructions: isa.Instruction, config=EVERYTHING) -> Events:
    return events_of(decode_stream(stream_of(instructions, config), config))


@pytest.mark.parametrize("title", CASES)
def test_an_instruction_has_the_events_of_its_footprint(title):
    instruction, expected = CASES[title]
    totals, expected = events(instruction, isa.Finish()), NOTHING | expected
    for name in ("products", "wide_products", "sums"):
        assert getattr(totals, name).tolist() == [expected[name], 0]
    for name in ("reads", "writes"):
        accesses = {memory: counts.tolist() for memory, counts in getattr(totals, name).items()}
        assert accesses == {memory: [expected[name].get(memory, 0), 0] for memory in accesses}
    assert totals.dram_bytes.tolist() == [expected["moved"] + 16, 16]


def test_what_is_never_dispatched_has_no_events():
    totals = events(isa.Finish(), gemm(), load(INP, x_size=1, y_size=1), store(parameters=1))
    assert totals.dram_bytes.tolist() == [16, 0, 0, 0]
    assert not any(counts.any() for counts in (totals.products, totals.sums, totals.wide_products))
    assert not any(counts.any() for counts in (*totals.reads.values(), *totals.writes.values()))


def test_events_belong_to_the_instruction_that_makes_them():
    single = [events(instruction).reads[ACC][0] for instruction in (gemm(), store(), alu(AluOpcode.MAX))]
    together = events(gemm(), store(), alu(AluOpcode.MAX)).reads[ACC]
    np.testing.assert_array_equal(together, single)
    assert OUT not in events(store()).reads
