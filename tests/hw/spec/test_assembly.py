"""Assembly: whatever a text holds, it is read or refused with a message that points at the place."""

import pytest

from vdla.hw.spec import assembly, codec, isa
from vdla.hw.spec.assembly import (
    LARGEST_TEXT_BYTES,
    format_instruction,
    format_program,
    format_uop,
    parse_program,
    parse_uops,
)
from vdla.hw.spec.errors import AssemblyError, EncodingError
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType

LONGEST_MESSAGE = 1000


def refused(text: str) -> str:
    """Return why a text is refused."""
    with pytest.raises(AssemblyError) as caught:
        parse_program(text, "x.asm")
    message = str(caught.value)
    assert message.startswith("x.asm:1:")
    assert len(message) < LONGEST_MESSAGE
    return message


WHOLE = "x_size takes a whole number"
REFUSED = {
    "decimal digits": (f"LOAD(x_size={'9' * 5000})", "Exceeds the limit (4300 digits)"),
    "parentheses": (f"LOAD(x_size={'(' * 5000}1{')' * 5000})", "too many nested parentheses"),
    "signs": (f"LOAD(x_size={'-' * 5000}1)", "nested too deeply"),
    "fewer signs": (f"LOAD(x_size={'-' * 900}1)", WHOLE),
    "two signs": ("LOAD(x_size=--1)", WHOLE),
    "calls": ("LOAD" + "()" * 5000, "nested too deeply"),
    "attributes": ("LOAD" + ".a" * 5000, "nested too deeply"),
    "negations": ("not " * 3000 + "1", "nested too deeply"),
    "functions": ("lambda: " * 3000 + "1", "nested too deeply"),
    "sums": ("1" + "+1" * 20_000, "nested too deeply"),
    "a sum": ("LOAD(x_size=1+2)", WHOLE),
    "a complex number": ("LOAD(x_size=1+2j)", WHOLE),
    "a truth value": ("LOAD(x_size=True)", WHOLE),
    "a text": ("LOAD(x_size='a')", WHOLE),
    "a long name": (f"{'x' * 5000}()", "is not a mnemonic"),
    "a long field": (f"LOAD({'x' * 5000}=1)", "is not a field of it"),
    "a long member": (f"LOAD(memory_type={'X' * 5000})", "is none of"),
    "a member's long number": (
        f"LOAD(memory_type=0x{'f' * 5000})",
        "memory_type = a number of 20000 bits is none of",
    ),
    "a field given twice": ("LOAD(x_size=1, x_size=2)", "x_size is given twice"),
    "fields unpacked": ("LOAD(**fields)", "fields are given by name, as name=value"),
    "a NUL": ("LOAD()\0", "null bytes"),
    "a name": ("FINISH", "a line is one call, such as LOAD(…)"),
    "an assignment": ("x = FINISH()", "a line is one call, such as LOAD(…)"),
    "a call of a member": ("x.FINISH()", "a line is one call, such as LOAD(…)"),
    "a call of a result": ("FINISH()()", "a line is one call, such as LOAD(…)"),
    "a value without a name": ("LOAD(3)", "fields are given by name, as name=value"),
    "a name for a number": ("LOAD(x_size=INP)", WHOLE),
    "a text for a member": ("LOAD(memory_type='INP')", "memory_type takes a whole number or a name"),
    "a number of no member": ("LOAD(memory_type=9)", "memory_type = 9 is none of UOP, WGT, INP, ACC"),
}


@pytest.mark.parametrize("title", REFUSED)
def test_a_text_that_is_no_program_is_refused_at_its_place(title):
    text, message = REFUSED[title]
    assert message in refused(text)


def test_the_caret_points_into_a_part_of_a_long_line():
    _, shown, caret = refused(
        "LOAD(" + "x_size=1, " * 3 + "x_pad=2, " + "y_size=3, " * 300 + ")"
    ).splitlines()
    assert shown[caret.index("^") :].startswith("x_pad") or shown[caret.index("^") :].startswith("x_size")
    assert len(shown) < 200


@pytest.mark.parametrize(
    ("text", "place", "shown", "column"),
    [
        ("FINISH()\n\nLOAD(x_size=1, no=2)", "3:16", "LOAD(x_size=1, no=2)", 15),
        ("FINISH()\nFINISH(\n  no=2)", "3:3", "  no=2)", 2),
        ("FINISH()\nLOAD(x_size=1", "2:5", "LOAD(x_size=1", 4),
        (f"LOAD(x_size={'1' * 100}, no=2{' ' * 100})", "1:115", f"{'1' * 58}, no=2{' ' * 56}", 60),
    ],
    ids=["a third line", "a line within a call", "a line's end", "a long line"],
)
def test_a_message_shows_the_line_and_a_caret_below_the_place(text, place, shown, column):
    with pytest.raises(AssemblyError) as caught:
        parse_program(text, "x.asm")
    message, line, caret = str(caught.value).splitlines()
    assert message.startswith(f"x.asm:{place}: ")
    assert (line, caret) == (f"    {shown}", f"    {' ' * column}^")


def test_a_text_of_the_greatest_length_is_read(monkeypatch):
    monkeypatch.setattr(assembly, "LARGEST_TEXT_BYTES", 9)
    assert len(parse_program("FINISH()\n")) == 1
    with pytest.raises(AssemblyError, match="has 10 bytes"):
        parse_program("FINISH()\n\n")


def test_a_number_that_no_field_holds_is_refused_in_one_line():
    with pytest.raises(EncodingError) as caught:
        codec.to_bytes(parse_program(f"LOAD(x_size=0x{'f' * 5000})"), DEFAULT)
    assert str(caught.value) == "LOAD.x_size = a number of 20000 bits is outside 0..65535"
    with pytest.raises(EncodingError, match="a number of 20000 bits is outside"):
        codec.uops_to_bytes(parse_uops(f"UOP(dst=0x{'f' * 5000})"), DEFAULT)


def test_a_negative_number_is_one_sign_and_digits():
    assert [
        instruction.imm
        for instruction in parse_program("ALU(alu_opcode=ADD, imm=-3)\nALU(alu_opcode=ADD, imm=+3)")
    ] == [
        -3,
        3,
    ]


def test_a_text_longer_than_its_tree_may_be_is_refused():
    text = "FINISH()\n" * (LARGEST_TEXT_BYTES // 9 + 1)
    with pytest.raises(AssemblyError) as caught:
        assembly.parse_program(text, "x.asm")
    assert (
        str(caught.value)
        == f"x.asm has {len(text)} bytes; assembly is read up to {LARGEST_TEXT_BYTES}: assemble it in parts"
    )


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (isa.Finish(), "FINISH()"),
        (isa.Load(), "LOAD(memory_type=UOP)"),
        (
            isa.Load(memory_type=MemoryType.ACC_8BIT, x_size=3, push_next=1, pad_minimum=1),
            "LOAD(push_next=1, memory_type=ACC_8BIT, x_size=3, pad_minimum=1)",
        ),
        (isa.Alu(alu_opcode=AluOpcode.SHR, use_imm=1, imm=-3), "ALU(alu_opcode=SHR, use_imm=1, imm=-3)"),
        (isa.Alu(), "ALU(alu_opcode=MIN)"),
        (isa.MicroOp(), "UOP()"),
        (isa.MicroOp(src=4, wgt=1), "UOP(src=4, wgt=1)"),
    ],
)
def test_fields_at_zero_are_left_out_but_names(item, text):
    assert (format_uop if isinstance(item, isa.MicroOp) else format_instruction)(item) == text


def test_a_program_is_a_line_for_each_instruction_with_its_place():
    assert format_program([isa.Gemm(uop_end=4), isa.Finish()]) == "GEMM(uop_end=4)  # 0\nFINISH()  # 1\n"
    assert format_program([]) == ""
