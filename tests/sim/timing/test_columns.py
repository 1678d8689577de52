"""What the timing model reads of each instruction, field by field, against sizes counted by hand."""

from dataclasses import replace

import pytest

from tests.sim.helpers import ACC, ACC_8BIT, INP, RES, TABLE, UOP, WGT, alu, gemm, load, store, stream_of
from vdla.hw.spec import isa
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.units import Unit
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType, Statistic
from vdla.sim import decoded
from vdla.sim.decoded import decode_stream
from vdla.sim.timing.columns import INSTRUCTION, timing_columns

CONFIG = TINY.with_changes(
    name="uneven",
    batch=2,
    block_in=8,
    block_out=8,
    acc_buffer_bytes=1 << 14,
    alu_lanes=2,
    requantise_lanes=2,
    extensions=tuple(Extension),
)
"""Elements of INP, RES and OUT have 16 bytes, of WGT and ACC 64, of UOP and TABLE 4; the bus has 8. A read of
the store unit moves 2 bytes, and the ALU computes an element in 4 pieces."""
TWO_PORTS = CONFIG.with_changes(name="two ports", acc_ports=2)
LOADS = {"unit": Unit.LOAD, "transfers": True, "ordered": True}
INTO_COMPUTE = {**LOADS, "unit": Unit.COMPUTE}
STEPS = {"unit": Unit.COMPUTE}
STORES = {"unit": Unit.STORE, "transfers": True, "beats": 4, "lane_bytes": 2, "stride_bytes": 16}
PADDED = {"y_size": 3, "x_size": 2, "x_stride": 5, "y_pad_0": 1, "y_pad_1": 2, "x_pad_0": 3, "x_pad_1": 1}
LOOPS = {"uop_begin": 2, "uop_end": 5, "iter_out": 7, "iter_in": 4}
ONE = {"rows": 1, "lane_bytes": 8}
UOPS = {"beats": 0, "stride_bytes": 4, "row_bytes": 4, "row_steps": 1, "rows": 1, "lane_bytes": 4}
SUMS = {"beats": 3, "stride_bytes": 64, "row_bytes": 64, "row_steps": 8, **ONE}

CASES = {
    "LOAD with padding on each side": (
        load(INP, dram_base=9, push_next=1, **PADDED),
        {
            **LOADS,
            "inputs": True,
            "pushes": 1,
            "beats": 2,
            "address": 9 * 16,
            "stride_bytes": 5 * 16,
            "row_bytes": 2 * 16,
            "rows": 3,
            "row_steps": 2 * 2,
            "lead_steps": 1 * (3 + 2 + 1) + 3,
            "gap_steps": 3 + 1,
            "tail_steps": 1 + 2 * (3 + 2 + 1),
            "lane_bytes": 8,
        },
    ),
    "LOAD of padding alone": (
        load(INP, **{**PADDED, "y_size": 0}),
        {
            **LOADS,
            "inputs": True,
            "beats": 2,
            "stride_bytes": 5 * 16,
            "row_bytes": 2 * 16,
            "row_steps": 2 * 2,
            "lead_steps": (1 + 2) * (3 + 2 + 1),
            "gap_steps": 3 + 1,
            "lane_bytes": 8,
        },
    ),
    "LOAD of one row with padding": (
        load(INP, **{**PADDED, "y_size": 1}),
        {
            **LOADS,
            "inputs": True,
            "beats": 2,
            "stride_bytes": 5 * 16,
            "row_bytes": 2 * 16,
            "rows": 1,
            "row_steps": 2 * 2,
            "lead_steps": 1 * (3 + 2 + 1) + 3,
            "gap_steps": 3 + 1,
            "tail_steps": 1 + 2 * (3 + 2 + 1),
            "lane_bytes": 8,
        },
    ),
    "LOAD of one column with padding": (
        load(INP, **{**PADDED, "x_size": 1}),
        {
            **LOADS,
            "inputs": True,
            "beats": 2,
            "stride_bytes": 5 * 16,
            "row_bytes": 16,
            "rows": 3,
            "row_steps": 2,
            "lead_steps": 1 * (3 + 1 + 1) + 3,
            "gap_steps": 3 + 1,
            "tail_steps": 1 + 2 * (3 + 1 + 1),
            "lane_bytes": 8,
        },
    ),
    "LOAD of no columns with padding": (
        load(INP, **{**PADDED, "x_size": 0}),
        {**LOADS, "inputs": True, "beats": 2, "stride_bytes": 5 * 16, "gap_steps": 3 + 1, "lane_bytes": 8},
    ),
    "LOAD of weights for a token": (
        load(WGT, pop_next=1, dram_base=3, beside=1),
        {
            **LOADS,
            "pops": 2,
            "beats": 1,
            "address": 3 * 64,
            "stride_bytes": 64,
            "row_bytes": 64,
            "row_steps": 8,
            **ONE,
        },
    ),
    "LOAD of accumulators": (load(ACC), {**INTO_COMPUTE, **SUMS}),
    "LOAD of accumulators beside steps": (
        load(ACC, beside=1),
        {**INTO_COMPUTE, **SUMS, "ordered": False, "settles": True, "beside": True},
    ),
    "LOAD of accumulators beside steps that pushes": (
        load(ACC, beside=1, push_next=1),
        {**INTO_COMPUTE, **SUMS, "pushes": 4},
    ),
    "LOAD of narrow accumulators beside steps": (
        load(ACC_8BIT, beside=1),
        {
            **INTO_COMPUTE,
            "ordered": False,
            "settles": True,
            "beside": True,
            "beats": 3,
            "stride_bytes": 16,
            "row_bytes": 16,
            "row_steps": 2,
            **ONE,
        },
    ),
    "LOAD of micro-ops": (
        load(UOP, sram_base=9),
        {**INTO_COMPUTE, **UOPS, "ordered": False, "beside": True, "uop_begin": 9, "uop_end": 10},
    ),
    "LOAD of micro-ops in two rows": (
        load(UOP, y_size=2),
        {**INTO_COMPUTE, **UOPS, "ordered": False, "rows": 2},
    ),
    "LOAD of micro-ops that pushes to the store unit": (
        load(UOP, push_next=1),
        {**INTO_COMPUTE, **UOPS, "pushes": 4},
    ),
    "LOAD of micro-ops that pushes to the load unit": (
        load(UOP, push_prev=1),
        {**INTO_COMPUTE, **UOPS, "pushes": 2},
    ),
    "LOAD of a table": (
        load(TABLE),
        {**INTO_COMPUTE, **UOPS, "ordered": False, "beside": True},
    ),
    "LOAD of residuals": (
        load(RES),
        {
            **INTO_COMPUTE,
            "ordered": False,
            "beside": True,
            "beats": 3,
            "stride_bytes": 16,
            "row_bytes": 16,
            "row_steps": 2,
            **ONE,
        },
    ),
    "GATHER": (
        isa.Gather(
            memory_type=INP, y_size=3, x_size=4, x_stride=70, step=5, dram_base=33, y_pad_0=1, y_pad_1=2
        ),
        {
            **LOADS,
            "inputs": True,
            "beats": 2,
            "address": 33,
            "stride_bytes": 70,
            "row_bytes": 3 * 5 + 16,
            "rows": 3,
            "row_steps": 4,
            "lead_steps": 4,
            "tail_steps": 2 * 4,
            "lane_bytes": 16,
            "gathers": True,
            "step_bytes": 5,
        },
    ),
    "STORE into INP": (
        replace(store(y_size=3, x_size=2, dram_base=7), memory_type=INP),
        {
            **STORES,
            "feeds": True,
            "address": 7 * 16,
            "row_bytes": 2 * 16,
            "rows": 3,
            "row_steps": 2 * 8,
        },
    ),
    "STORE": (
        store(y_size=3, x_size=2, dram_base=7, push_prev=1, pop_prev=1),
        {
            **STORES,
            "pops": 4,
            "pushes": 8,
            "address": 7 * 16,
            "row_bytes": 2 * 16,
            "rows": 3,
            "row_steps": 2 * 8,
        },
    ),
    "STORE with parameters": (
        store(parameters=2),
        {**STORES, "row_bytes": 16, "rows": 1, "row_steps": 8, "parameters": 4},
    ),
    "STORE with a residual": (
        store(parameters=1, residual=1),
        {**STORES, "row_bytes": 16, "rows": 1, "row_steps": 8, "parameters": 8},
    ),
    "STORE with parameters of no columns": (store(parameters=1, x_size=0), STORES),
    "STORE with parameters of no rows": (
        store(parameters=1, y_size=0),
        {**STORES, "row_bytes": 16, "row_steps": 8},
    ),
    "GEMM": (gemm(**LOOPS), {**STEPS, "slots": 84, "uop_begin": 2, "uop_end": 5}),
    "GEMM without steps": (
        gemm(**{**LOOPS, "iter_in": 0}, pop_next=1),
        {**STEPS, "pops": 8, "uop_begin": 2, "uop_end": 5},
    ),
    "FINISH": (isa.Finish(pop_prev=1), {**STEPS, "finishes": True, "pops": 1}),
}
ALU_SLOTS = {AluOpcode.MIN: 4, AluOpcode.MAX: 4, AluOpcode.ADD: 4, AluOpcode.SHR: 5, AluOpcode.MUL: 6}
"""Slots of a step: a piece each, and the cycles in which the lanes' registers hold the last of them."""


def fields_of(instruction, config=CONFIG) -> dict[str, int]:
    """Return the fields of one instruction."""
    (row,) = timing_columns(decode_stream(stream_of([instruction], config), config))
    return {name: row[name].item() for name in INSTRUCTION.names}


@pytest.mark.parametrize("title", CASES)
def test_fields_of_an_instruction_are_its_sizes(title):
    """A LOAD names micro-ops only where it loads them; no other may compare them."""
    instruction, expected = CASES[title]
    fields = fields_of(instruction)
    if isinstance(instruction, isa.Load) and "uop_end" not in expected:
        del fields["uop_end"]
        assert fields.pop("uop_begin") >= CONFIG.depth(UOP) or instruction.memory_type == UOP
    blank = dict.fromkeys(fields, 0) | {"valid": True, "slots": 1}
    assert fields == blank | expected


@pytest.mark.parametrize("pad", ["y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"])
def test_a_load_of_micro_ops_with_padding_runs_beside_no_steps(pad):
    fields = fields_of(load(UOP, **{pad: 1}))
    assert (fields["beside"], fields["ordered"], fields["settles"]) == (False, False, False)


@pytest.mark.parametrize(("config", "ports"), [(CONFIG, 1), (TWO_PORTS, 2)], ids=["one port", "two ports"])
@pytest.mark.parametrize("opcode", AluOpcode)
def test_steps_of_the_alu_take_slots_for_pieces_delays_and_a_second_read(opcode, config, ports):
    for immediate in (0, 1):
        fields = fields_of(alu(opcode, **LOOPS, use_imm=immediate), config)
        assert fields["slots"] == 84 * (ALU_SLOTS[opcode] + (ports == 1 and not immediate))
        assert fields["reads_two"] == (ports == 2 and not immediate)
        single = fields_of(alu(opcode, use_imm=immediate), config)
        assert single["slots"] == fields["slots"] // 84
        assert single["reads_two"] == fields["reads_two"]
    empty = fields_of(alu(opcode, **{**LOOPS, "iter_out": 0}), config)
    assert (empty["slots"], empty["reads_two"]) == (1, False)


def test_steps_of_a_gemm_read_one_accumulator_each():
    assert not fields_of(gemm(**LOOPS), TWO_PORTS)["reads_two"]


@pytest.mark.parametrize(("stride", "slots"), [(0, 3 + 3), (1, 2 * 3 + 3)])
def test_a_row_of_windows_takes_the_first_window_and_one_or_two_slots_for_each_other(stride, slots):
    fields = fields_of(isa.Depthwise(**LOOPS, stride_2=stride))
    assert fields["slots"] == 7 * 3 * slots
    assert (fields["uop_begin"], fields["uop_end"]) == (2, 5)
    assert fields_of(isa.Depthwise(**{**LOOPS, "iter_in": 1}, stride_2=stride))["slots"] == 7 * 3 * 3
    assert fields_of(isa.Depthwise(**{**LOOPS, "iter_in": 0}, stride_2=stride))["slots"] == 1


def test_every_instruction_has_the_fields_that_it_has_alone(monkeypatch):
    """A stream is looked at a few instructions at a time."""
    monkeypatch.setattr(decoded, "BLOCK", 3)
    instructions = [instruction for instruction, _ in CASES.values()]
    together = timing_columns(decode_stream(stream_of(instructions, CONFIG), CONFIG))
    alone = [fields_of(instruction) for instruction in instructions]
    assert [{name: row[name].item() for name in INSTRUCTION.names} for row in together] == alone


def test_an_instruction_that_the_accelerator_lacks_is_not_valid():
    program = decode_stream(stream_of([gemm()], CONFIG), CONFIG)
    program.valid[:] = False
    assert not timing_columns(program)["valid"].any()


def test_a_store_that_reads_single_bytes_takes_a_step_for_each():
    narrow = CONFIG.with_changes(requantise_lanes=1)
    fields = fields_of(store(x_size=3), narrow)
    assert (fields["lane_bytes"], fields["row_steps"]) == (1, 3 * 16)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"statistic": Statistic.GREATEST}, {"kind": 1, "gathers_rows": True, "parameters": 0}),
        (
            {"statistic": Statistic.MOMENTS, "parameters": 3},
            {"kind": 5, "gathers_rows": True, "parameters": 4},
        ),
        ({"statistic": Statistic.POWERS, "normal": 1}, {"kind": 4, "gathers_rows": False, "parameters": 4}),
        ({"statistic": Statistic.MOMENTS, "normal": 1, "parameters": 1}, {"kind": 6, "parameters": 8}),
        ({"memory_type": INP}, {"feeds": False, "gathers_rows": True}),
        ({"memory_type": INP, "normal": 1}, {"feeds": True, "gathers_rows": False}),
        ({"x_size": 0, "normal": 1, "parameters": 1}, {"kind": 0, "rows": 0, "parameters": 0}),
        ({"y_size": 0, "normal": 1, "parameters": 1}, {"kind": 0, "rows": 0, "parameters": 0}),
    ],
)
def test_a_normalise_has_a_kind_and_reads_both_sets_of_parameters(changes, expected):
    config = CONFIG.with_changes(batch=1)
    sizes = {"y_size": 3, "x_size": 2, "memory_type": MemoryType.OUT, "dram_base": 7, "x_stride": 5}
    fields = fields_of(isa.Normalise(**{**sizes, **changes}), config)
    assert {name: fields[name] for name in expected} == expected
    assert (fields["unit"], fields["lane_bytes"], fields["address"]) == (Unit.STORE, 2, 7 * 8)
