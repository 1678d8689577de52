"""The vectorised decoder says what the codec says, of every bit pattern."""

import numpy as np
import pytest

from tests.sim.helpers import CONFIG, OUT, gemm, load, store, stream_of
from vdla.hw.spec import codec, encoding, isa, units
from vdla.hw.spec.assembly import format_instruction
from vdla.hw.spec.errors import EncodingError, ProgramError
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY, VTA
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.sim import decoded as decoded_module
from vdla.sim.decoded import decode_stream, slots

CONFIGS = (
    DEFAULT,
    VTA,
    SMALL,
    TINY,
    CONFIG,
    TINY.with_changes(alu_opcodes=("MIN", "SHR")),
    TINY.with_changes(name="every extension", extensions=tuple(Extension)),
    TINY.with_changes(name="narrow of 4 bits", wgt_bits=4, extensions=tuple(Extension)),
    VTA.with_changes(batch=2, uop_buffer_bytes=1 << 14, wgt_buffer_bytes=1 << 17),
)


@pytest.fixture(params=CONFIGS, ids=lambda config: config.name)
def config(request):
    return request.param


@pytest.fixture
def program(config):
    words = np.random.default_rng(1).integers(0, 256, (500, 16), dtype=np.uint8)
    words[::3, 8:10] = 0  # transfers without rows,
    words[::4, 10:12] = 0  # without columns,
    words[1::4, 10:12] = 1, 0  # and with one column
    return decode_stream(words, config)


def decoded(program):
    """Return each instruction as the codec decodes it, None where it refuses."""
    instructions = []
    for index in range(len(program)):
        try:
            instructions.append(codec.decode(program.word(index), program.config))
        except EncodingError:
            instructions.append(None)
    return instructions


def edges(flags):
    """Return the edges for which `flags`, bool[4], is set."""
    return tuple(edge for edge, flag in zip(units.TOKEN_EDGES, flags, strict=True) if flag)


def test_validity_is_the_codecs(program):
    assert program.valid.tolist() == [instruction is not None for instruction in decoded(program)]
    assert 0 < program.valid.sum() < len(program)


def test_every_field_is_the_codecs(program):
    for index, instruction in enumerate(decoded(program)):
        if instruction is not None:
            columns = slots(type(instruction), program.config)
            assert {name: program.table[index, slot] for name, slot in columns.items()} == {
                name: getattr(instruction, name) for name in columns
            }


def test_units_and_token_edges_are_the_specifications(program):
    for index, instruction in enumerate(decoded(program)):
        if instruction is not None:
            assert program.unit[index] == units.unit_of(instruction)
            assert edges(program.pops[index]) == units.pops(instruction)
            assert edges(program.pushes[index]) == units.pushes(instruction)


def test_a_store_of_anything_names_out_and_one_of_nothing_any_memory():
    stream = stream_of([store(x_size=size) for size in (0, 1, 2) for _ in MemoryType]).copy()
    field = encoding.field_of(isa.Store, "memory_type", CONFIG)
    words = stream.view("<u8")[:, 0]
    words &= ~np.uint64((1 << field.width) - 1 << field.start)
    words |= np.array([*MemoryType] * 3, np.uint64) << np.uint64(field.start)
    program = decode_stream(stream, CONFIG)
    assert program.column(isa.Store, "memory_type").tolist() == [*MemoryType] * 3
    others = [memory == MemoryType.OUT for memory in MemoryType]
    assert program.valid.tolist() == [instruction is not None for instruction in decoded(program)]
    assert program.valid.tolist()[len(others) :] == others * 2
    assert sum(program.valid[: len(others)]) > 1


def test_a_column_holds_a_field_of_all_instructions_of_a_form():
    program = decode_stream(stream_of([load(OUT, x_size=3), gemm(), load(OUT, x_size=5)]), CONFIG)
    assert program.column(isa.Load, "x_size").tolist() == [3, 5]


def test_nothing_after_finish_is_dispatched():
    program = decode_stream(stream_of([gemm(), isa.Finish(), gemm()]), CONFIG)
    assert (program.dispatched, program.finishes) == (2, True)


def test_an_empty_stream_decodes():
    program = decode_stream(np.zeros((0, 16), np.uint8), CONFIG)
    assert (len(program), program.dispatched, program.finishes) == (0, 0, False)


MIXED = (
    load(OUT, x_size=3),
    gemm(uop_end=3, iter_out=5, iter_in=7),
    load(OUT, x_size=5),
    gemm(uop_begin=4, uop_end=2, iter_out=5, iter_in=7),
    gemm(uop_begin=4, uop_end=4),
    gemm(iter_out=0),
    gemm(),
    isa.Finish(),
)


def test_fields_come_as_columns_and_as_zeros_where_there_are_none():
    fields = decode_stream(stream_of(MIXED), CONFIG).fields(isa.Load)
    assert fields("x_size").tolist() == [3, 5]
    assert fields("table").tolist() == [0, 0]


def test_steps_are_counted_and_never_negative():
    program = decode_stream(stream_of(MIXED), CONFIG)
    assert program.steps(isa.Gemm).tolist() == [3 * 5 * 7, 0, 0, 0, 1]
    assert program.steps(isa.Alu).tolist() == []


def test_a_part_holds_the_chosen_instructions():
    program = decode_stream(stream_of(MIXED), CONFIG)
    names = ("words", "opcode", "table", "valid", "unit", "pops", "pushes")
    for chosen in (slice(1, 4), np.array([6, 0])):
        part = program.part(chosen)
        for name in names:
            np.testing.assert_array_equal(getattr(part, name), getattr(program, name)[chosen])
    assert np.shares_memory(program.part(slice(1, 4)).opcode, program.opcode)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 6, 7])
def test_blocks_cover_every_instruction_once(count, monkeypatch):
    monkeypatch.setattr(decoded_module, "BLOCK", 3)
    slices = list(decoded_module.blocks(count))
    assert [index for block in slices for index in range(block.start, block.stop)] == list(range(count))
    assert [block.stop - block.start for block in slices] == [3] * (count // 3) + [count % 3] * (
        count % 3 > 0
    )


def test_an_instruction_is_named_with_its_text_or_with_the_reason_why_it_is_none():
    stream = stream_of([gemm(), gemm()]).copy()
    stream[1] = 7
    program = decode_stream(stream, CONFIG)
    assert program.describe(0) == f"instruction 0 ({format_instruction(gemm())})"
    assert (program.first_invalid, program.dispatched) == (1, 1)
    error = program.refusal(1)
    with pytest.raises(EncodingError) as caught:
        codec.decode(program.word(1), CONFIG)
    assert program.word(1) == int.from_bytes(bytes([7] * 16), "little")
    shown = codec.shown_word(program.word(1), CONFIG)
    assert str(error) == f"instruction 1 ({shown}) is invalid: {caught.value}"
    assert error.index == 1


def test_a_stream_whose_tables_are_too_large_is_refused_before_it_is_decoded(monkeypatch):
    monkeypatch.setattr(decoded_module, "TABLE_BYTES", 3 * 512)
    assert len(decode_stream(stream_of(MIXED)[:3], CONFIG)) == 3
    message = "decoding and verifying a stream of 4 instructions takes 2048 bytes"
    with pytest.raises(ProgramError, match=f"^{message}"):
        decode_stream(stream_of(MIXED)[:4], CONFIG)


@pytest.mark.parametrize("config", [CONFIG, VTA], ids=lambda config: config.name)
def test_signed_fields_hold_their_least_and_their_greatest_value(config):
    field = encoding.field_of(isa.Alu, "imm", config)
    values = [-field.high - 1, -field.high, -1, 0, 1, field.high - 1, field.high]
    items = [isa.Alu(alu_opcode=config.alu_opcodes[0], imm=value, use_imm=1) for value in values]
    program = decode_stream(stream_of(items, config), config)
    assert program.column(isa.Alu, "imm").tolist() == values
