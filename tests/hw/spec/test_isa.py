"""The instruction set: its named sizes agree with its fields, and its codes with VTA and with the page."""

from pathlib import Path

import pytest

from vdla.hw.spec import encoding, isa
from vdla.hw.spec.presets import DEFAULT, PRESETS, VTA
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType, Parameter
from vdla.hw.spec.window import MOST_ROWS, PAIR, SHAPES, TAPS, WIDE_TAPS

PAGE = (Path(__file__).parents[3] / "docs" / "isa.md").read_text()


def high(form: type[isa.Instruction], name: str) -> int:
    return encoding.field_of(form, name, DEFAULT).high


def test_the_most_of_a_field_is_what_its_bits_hold():
    for name in ("y_size", "x_size", "x_stride"):
        assert high(isa.Load, name) == high(isa.Store, name) == isa.LONGEST_ROW == 65535
    assert high(isa.Store, "parameters") == isa.MOST_PARAMETER_SETS == 63
    assert high(isa.Store, "table") == isa.MOST_TABLES == 15
    assert high(isa.Gather, "step") == isa.MOST_GATHER_STEP == 255
    assert high(isa.Gemm, "iter_out") == (1 << isa.LOOP_BITS) - 1 == 16383
    assert high(isa.Store, "residual") == (1 << isa.RESIDUAL_BITS) - 1 == 4095


def test_the_largest_memories_fit_what_names_their_parts():
    """Tables of 256 bytes in 4 KiB; residuals counted from 1 in a scratchpad of 4096 elements."""
    largest = DEFAULT.with_changes(table_buffer_bytes=4 << 10)
    assert largest.depth(MemoryType.TABLE) == 16 * isa.TABLE_ELEMENTS
    assert isa.TABLE_ELEMENTS * largest.element_bytes(MemoryType.TABLE) == 256


def test_a_set_of_parameters_and_a_table_begin_behind_those_before():
    assert [isa.Store(parameters=number).parameters_base for number in (1, 2, 63)] == [0, 4, 248]
    assert [isa.Store(table=number).table_base for number in (1, 2, 15)] == [0, 64, 896]
    assert len(Parameter) == 4


def test_the_page_has_the_extents_of_windows():
    page = " ".join(PAGE.split())
    assert f"1 + more_rows rows of c = {TAPS} + {WIDE_TAPS - TAPS} * wide columns" in page
    assert f"one row of T = {TAPS} columns, and H = {PAIR}" in page
    shapes = [f"{rows} x {columns}" for rows, columns in SHAPES if rows > 1]
    assert f"the first of {', '.join(shapes[:-1])} and {shapes[-1]} for which" in page
    assert {MOST_ROWS, 1 << encoding.field_of(isa.Depthwise, "more_rows", DEFAULT).width} == {4}


@pytest.mark.parametrize("form", isa.INSTRUCTIONS, ids=lambda form: form.__name__)
def test_every_form_has_its_opcode(form):
    assert f"## {form.opcode.name} (opcode {form.opcode.value})" in PAGE
    assert isa.BY_OPCODE[form.opcode] is form
    assert form.opcode.name == form.__name__.upper()


def test_codes_are_those_of_vta_and_those_behind_them():
    assert [code.name for code in isa.Opcode] == [
        "LOAD", "STORE", "GEMM", "FINISH", "ALU", "DEPTHWISE", "GATHER", "NORMALISE",
    ]  # fmt: skip
    assert [code.name for code in MemoryType] == [
        "UOP",
        "WGT",
        "INP",
        "ACC",
        "OUT",
        "ACC_8BIT",
        "TABLE",
        "RES",
    ]
    assert [code.name for code in AluOpcode] == ["MIN", "MAX", "ADD", "SHR", "MUL"]
    assert [code.name for code in Parameter] == ["BIAS", "MULTIPLIER", "SHIFT", "CLIP"]
    for kind in (isa.Opcode, MemoryType, AluOpcode, Parameter):
        assert [code.value for code in kind] == [*range(len(kind))]


def test_a_configuration_has_the_forms_of_its_extensions():
    base = (isa.Load, isa.Store, isa.Gemm, isa.Finish, isa.Alu)
    assert isa.instructions_of(VTA) == base
    assert isa.instructions_of(DEFAULT) == (*base, isa.Depthwise, isa.Gather)
    assert isa.instructions_of(VTA.with_changes(extensions=("gather",))) == (*base, isa.Gather)


VTA_FIELDS = {
    isa.Load: "memory_type 3, sram_base 16, dram_base 32, y_size 16, x_size 16, x_stride 16, y_pad_0 4, "
    "y_pad_1 4, x_pad_0 4, x_pad_1 4",
    isa.Gemm: "reset 1, uop_begin 13, uop_end 14, iter_out 14, iter_in 14, dst_factor_out 11, dst_factor_in 11, "
    "src_factor_out 11, src_factor_in 11, wgt_factor_out 10, wgt_factor_in 10",
    isa.Alu: "reset 1, uop_begin 13, uop_end 14, iter_out 14, iter_in 14, dst_factor_out 11, dst_factor_in 11, "
    "src_factor_out 11, src_factor_in 11, alu_opcode 3, use_imm 1, imm 16",
    isa.Finish: "",
}
"""The widths of `VTAMemInsn`, `VTAGemInsn` and `VTAAluInsn` in VTA's hw_spec.h, behind opcode and flags."""


@pytest.mark.parametrize("form", VTA_FIELDS, ids=lambda form: form.__name__)
def test_fields_stand_where_c_packs_vta_s_structures(form):
    declared = [part.split() for part in VTA_FIELDS[form].split(", ") if part]
    place, expected = 3, {}
    for name, width in [
        *((flag, 1) for flag in isa.FLAGS),
        *((name, int(width)) for name, width in declared),
    ]:
        if place // 64 != (place + width - 1) // 64:
            place = 64
        expected[name] = (place, place + width)
        place += width
    assert {field.name: (field.start, field.end) for field in encoding.layout(form, VTA)} == expected


def test_fields_of_extensions_take_the_lowest_free_bits():
    starts = {
        name: encoding.field_of(form, name, DEFAULT).start
        for form, names in ((isa.Load, ("pad_minimum", "pad_value", "beside")), (isa.Store, ("parameters",)))
        for name in names
    }
    assert starts == {"pad_minimum": 58, "pad_value": 59, "beside": 60, "parameters": 58}
    for config in PRESETS.values():
        for form in isa.instructions_of(config):
            names = {field.name for field in encoding.layout(form, config)}
            brought = {"pad_minimum": Extension.PAD_MINIMUM, "overwrite": Extension.OVERWRITE}
            for name, extension in brought.items():
                if name in isa.field_names(form):
                    assert (name in names) == config.has(extension)
