"""Sums of products of fields, on numbers and on columns, and rows of bytes, against counting."""

from dataclasses import replace

import numpy as np
import pytest

from vdla.hw.spec import isa
from vdla.hw.spec.footprint import (
    FOOTPRINTS,
    chip_access,
    dram_access,
    executing_unit,
    forms_in_dram,
    operands,
    stepping_forms,
)
from vdla.hw.spec.touched import ByteRows, elements, fields_of, happens, named, rows_in_dram, steps, total
from vdla.hw.spec.vocabulary import MemoryType, Unit

VALUES = {"a": 3, "b": 5, "c_1": 7, "z": 0}
COLUMNS = {name: np.array([value, 2 * value + 1]) for name, value in VALUES.items()}


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("0", lambda a, b, c, z: 0 * a),
        ("4", lambda a, b, c, z: 4 + 0 * a),
        ("a", lambda a, b, c, z: a),
        ("a + b", lambda a, b, c, z: a + b),
        ("a - b", lambda a, b, c, z: a - b),
        ("a * b * c_1", lambda a, b, c, z: a * b * c),
        ("4 * a - 6", lambda a, b, c, z: 4 * a - 6),
        ("a - 2 * b * 3 + c_1 - 1", lambda a, b, c, z: a - 6 * b + c - 1),
        ("z * a + b", lambda a, b, c, z: z * a + b),
    ],
)
def test_a_sum_of_products_is_evaluated_on_numbers_and_columns(text, of):
    assert total(text, VALUES.__getitem__) == of(*VALUES.values())
    totals = np.broadcast_to(total(text, COLUMNS.__getitem__), 2)
    assert totals.tolist() == of(*COLUMNS.values()).tolist()


def test_rows_of_bytes_end_behind_the_last_one():
    rows = ByteRows(begin=100, stride=30, width=7, count=4)
    assert rows.end == max(byte for y in range(4) for byte in range(100 + 30 * y, 107 + 30 * y)) + 1
    assert ByteRows(100, 30, 7, 1).end == 107


TRANSFER = {"sram_base": 50, "dram_base": 9, "y_size": 3, "x_size": 4, "x_stride": 11}
LOAD = isa.Load(
    memory_type=MemoryType.INP, **TRANSFER, y_pad_0=1, y_pad_1=2, x_pad_0=3, x_pad_1=5, pop_prev=1
)
GATHER = isa.Gather(memory_type=MemoryType.INP, **TRANSFER, step=2, y_pad_0=1, y_pad_1=2)
STORE = isa.Store(memory_type=MemoryType.OUT, **TRANSFER, parameters=2, table=3, residual=6)
SIZE = 8  # bytes of an element


@pytest.mark.parametrize(
    ("item", "rows"),
    [
        (LOAD, ByteRows(9 * SIZE, 11 * SIZE, 4 * SIZE, 3)),
        (STORE, ByteRows(9 * SIZE, 11 * SIZE, 4 * SIZE, 3)),
        (GATHER, ByteRows(9, 11, 3 * 2 + SIZE, 3)),
    ],
    ids=["load", "store", "gather"],
)
def test_a_transfer_moves_rows_of_bytes(item, rows):
    access = dram_access(type(item))
    assert rows_in_dram(access, fields_of(item), SIZE) == rows
    assert named(access, fields_of(item)) is item.memory_type


def test_what_is_padding_can_be_left_out():
    """Rows of 3 + 4 + 5 elements, and one row in front of three."""
    fields, access = fields_of(LOAD), chip_access(isa.Load)
    assert list(elements(access, fields)) == [50 + place for place in range(6 * 12)]
    data = [50 + y * 12 + 3 + x for y in range(1, 4) for x in range(4)]
    assert list(elements(access, fields, padding=False)) == data
    fields, access = fields_of(GATHER), chip_access(isa.Gather)
    assert list(elements(access, fields, padding=False)) == [
        50 + y * 4 + x for y in range(1, 4) for x in range(4)
    ]


GEMM = {"iter_out": 3, "iter_in": 5, "uop_begin": 4, "uop_end": 6}


@pytest.mark.parametrize(("form", "count"), [(isa.Gemm, 30), (isa.Alu, 30), (isa.Depthwise, 30)])
def test_steps_are_trips_by_micro_ops(form, count):
    assert steps(form, fields_of(form(**GEMM))) == count
    assert steps(form, fields_of(form(**GEMM | {"uop_end": 3}))) < 0


def happening(item: isa.Instruction) -> list[bool]:
    footprint = FOOTPRINTS[type(item)]
    return [bool(happens(footprint, access, fields_of(item))) for access in footprint.accesses]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (STORE, [True] * 5 + [False, True]),
        (replace(STORE, memory_type=MemoryType.INP), [True] * 6 + [False]),
        (isa.Store(memory_type=MemoryType.OUT, **TRANSFER), [True] + [False] * 5 + [True]),
        (isa.Store(memory_type=MemoryType.INP, **TRANSFER), [True] + [False] * 4 + [True, False]),
        (
            isa.Store(memory_type=MemoryType.OUT, **TRANSFER, parameters=1),
            [True, True, False, False, False, False, True],
        ),
        (
            isa.Store(memory_type=MemoryType.OUT, **TRANSFER, table=1, residual=1),
            [True] + [False] * 5 + [True],
        ),
        (
            isa.Store(memory_type=MemoryType.OUT, **TRANSFER, parameters=1, residual=1),
            [True, True, False, True, True, False, True],
        ),
        (isa.Store(memory_type=MemoryType.OUT, **TRANSFER | {"x_size": 0}), [False] * 7),
        (isa.Store(memory_type=MemoryType.INP, **TRANSFER | {"y_size": 0}), [False] * 7),
        (isa.Load(memory_type=MemoryType.INP, **TRANSFER | {"y_size": 0}, y_pad_1=1), [True, False]),
        (isa.Load(memory_type=MemoryType.INP, **TRANSFER | {"x_size": 0}, y_pad_1=1), [False, False]),
        (isa.Gemm(**GEMM), [True] * 4),
        (isa.Gemm(**GEMM, reset=1), [True, True, False, False]),
        (isa.Gemm(**GEMM, overwrite=1), [True] * 4),
        (isa.Gemm(**GEMM | {"uop_end": 4}), [False] * 4),
        (isa.Alu(**GEMM), [True] * 3),
        (isa.Alu(**GEMM, use_imm=1), [True, True, False]),
        (isa.Depthwise(**GEMM | {"iter_in": 0}), [False] * 7),
        (isa.Depthwise(**GEMM), [True] * 4 + [False] * 3),
        (isa.Depthwise(**GEMM, more_rows=2), [True] * 6 + [False]),
    ],
)
def test_an_access_is_made_where_its_fields_say_so(item, expected):
    assert happening(item) == expected


def test_forms_are_told_apart_by_what_they_do():
    assert stepping_forms() == (isa.Gemm, isa.Alu, isa.Depthwise)
    assert forms_in_dram() == (isa.Load, isa.Store, isa.Gather, isa.Normalise)
    assert [chip_access(form).in_dram for form in forms_in_dram()] == [False] * 4
    assert [dram_access(form).in_dram for form in forms_in_dram()] == [True] * 4
    assert [access.uop_field for access in operands(isa.Gemm)] == ["dst", "src", "wgt"]
    assert [access.uop_field for access in operands(isa.Gemm, "reset")] == ["dst"]
    assert [access.uop_field for access in operands(isa.Alu, "reset")] == ["dst", "src"]
    assert [access.uop_field for access in operands(isa.Alu, "use_imm", "reset")] == ["dst"]
    counters = {form: footprint.counter for form, footprint in FOOTPRINTS.items() if footprint.counter}
    assert counters == {isa.Gemm: "GEMM_STEPS", isa.Alu: "ALU_STEPS", isa.Depthwise: "GEMM_STEPS"}


def test_a_load_runs_in_the_unit_of_its_memory_and_others_in_their_own():
    assert executing_unit(isa.Gather, MemoryType.ACC) is Unit.LOAD
    assert executing_unit(isa.Gemm) is Unit.COMPUTE
    for memory in (MemoryType.OUT, None):
        with pytest.raises(AssertionError, match="no unit executes Load of "):
            executing_unit(isa.Load, memory)
