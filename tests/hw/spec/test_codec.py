"""Encoding: round trips, streams of VTA, packing, and what is refused."""

from dataclasses import fields
from pathlib import Path

import pytest
from generators.programs import random_config
from hypothesis import given
from hypothesis import strategies as st

from vdla.hw.spec import assembly, codec, encoding, isa
from vdla.hw.spec.declared import PlacedField
from vdla.hw.spec.errors import AssemblyError, EncodingError
from vdla.hw.spec.memories import loadable_in, storable_in
from vdla.hw.spec.presets import DEFAULT, PAPER, SMALL, TINY, VTA
from vdla.hw.spec.vocabulary import NEEDED, Extension, Statistic
from vdla.runtime.vectors import load_vector

NO_MORE_MEMORIES = DEFAULT.with_changes(extensions=tuple(set(Extension) - NEEDED.keys()))
VECTORS = sorted((Path(__file__).parents[2] / "vectors" / "vta").glob("*.npz"))


@st.composite
def encodables(draw):
    """A configuration and an instruction or micro-op of it."""
    config = draw(st.sampled_from([DEFAULT, VTA, SMALL, TINY, *(random_config(seed) for seed in range(8))]))
    form = draw(st.sampled_from([*isa.instructions_of(config), isa.MicroOp]))
    values = {field.name: _value(draw, field, config) for field in encoding.layout(form, config)}
    if form in (isa.Store, isa.Normalise) and values["x_size"]:
        values["memory_type"] = draw(st.sampled_from(storable_in(config)))
    if form is isa.Gather:
        values["memory_type"] = isa.MemoryType.INP
    return config, form(**values)


def _value(draw, field, config):
    if field.kind is isa.MemoryType:
        return draw(st.sampled_from(loadable_in(config)))
    if field.kind is Statistic:
        return draw(st.sampled_from(Statistic))
    if field.kind is isa.AluOpcode:
        return draw(st.sampled_from(config.alu_opcodes))
    return draw(st.integers(field.low, field.high))


@given(encodables())
def test_decode_undoes_encode(pair):
    config, item = pair
    if isinstance(item, isa.MicroOp):
        assert codec.decode_uop(codec.encode(item, config), config) == item
    else:
        assert codec.decode(codec.encode(item, config), config) == item


@given(encodables())
def test_parsing_undoes_formatting(pair):
    _, item = pair
    if isinstance(item, isa.MicroOp):
        assert assembly.parse_uops(assembly.format_uop(item)) == (item,)
    else:
        assert assembly.parse_program(assembly.format_instruction(item)) == (item,)


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_vta_streams_encode_again_bit_for_bit(path):
    vector = load_vector(path)
    words = list(codec.words(vector.stream.tobytes(), 16))
    decoded = [codec.decode(word, vector.config) for word in words]
    assert isinstance(decoded[-1], isa.Finish)
    meaning = [
        word & _mask(type(item), vector.config) for word, item in zip(words, decoded, strict=True)
    ]  # VTA leaves noise elsewhere
    assert [codec.encode(item, vector.config) for item in decoded] == meaning


def _mask(form, config) -> int:
    """Return the bits of `form` that belong to a field."""
    return sum(
        ((1 << field.width) - 1) << field.start
        for field in (encoding.OPCODE_FIELD, *encoding.layout(form, config))
    )


def test_there_are_vectors():
    assert len(VECTORS) >= 27


def test_fields_that_would_cross_bit_64_start_there_and_others_fill_up():
    placed = {field.name: (field.start, field.end) for field in encoding.layout(isa.Gemm, DEFAULT)}
    assert placed["iter_in"] == (49, 63)
    assert placed["dst_factor_out"] == (64, 75)
    low = DEFAULT.with_changes(uop_buffer_bytes=1024, acc_buffer_bytes=1 << 14)
    placed = {field.name: (field.start, field.end) for field in encoding.layout(isa.Gemm, low)}
    assert placed["dst_factor_out"] == (53, 61)
    assert placed["dst_factor_in"] == (64, 72)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (isa.Load(x_size=70000), "LOAD.x_size = 70000 is outside 0..65535"),
        (isa.Alu(imm=32768), "ALU.imm = 32768 is outside -32768..32767"),
        (isa.MicroOp(dst=2048), "UOP.dst = 2048 is outside 0..2047"),
        (isa.Gemm(iter_in=-1), "GEMM.iter_in = -1 is outside 0..16383"),
    ],
)
def test_values_that_do_not_fit_are_refused(item, message):
    with pytest.raises(EncodingError) as caught:
        codec.encode(item, DEFAULT)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("item", "config", "message"),
    [
        (
            isa.Load(pad_minimum=1),
            VTA,
            "LOAD.pad_minimum = 1 needs the extension 'pad_minimum', which this configuration has switched off",
        ),
        (
            isa.Depthwise(),
            VTA,
            "DEPTHWISE needs the extension 'depthwise', which this configuration has switched off",
        ),
        (
            isa.Gather(memory_type=isa.MemoryType.INP),
            SMALL,
            "GATHER needs the extension 'gather', which this configuration has switched off",
        ),
        (
            isa.Normalise(),
            DEFAULT,
            "NORMALISE needs the extension 'normalise', which this configuration has switched off",
        ),
        (
            isa.Normalise(),
            DEFAULT.with_changes(extensions=tuple(Extension), inp_bits=4),
            "NORMALISE needs the extension 'normalise', which has no effect with batch = 1, inp_bits = 4 and "
            "acc_bits = 32: they must be 1, 8 and 32",
        ),
        (
            isa.Depthwise(),
            DEFAULT.with_changes(block_out=32),
            "DEPTHWISE needs the extension 'depthwise', which has no effect with block_in = 16 and "
            "block_out = 32: they must be equal and at least 8",
        ),
    ],
)
def test_what_an_extension_adds_is_refused_where_it_is_off(item, config, message):
    with pytest.raises(EncodingError) as caught:
        codec.encode(item, config)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("item", "config", "message"),
    [
        (
            isa.Store(memory_type=isa.MemoryType.INP, x_size=1),
            PAPER,
            "STORE.memory_type = INP needs the extension 'feedback', which this configuration has switched off",
        ),
        (
            isa.Store(memory_type=isa.MemoryType.INP, x_size=1),
            DEFAULT.with_changes(block_out=32, extensions=tuple(Extension)),
            "STORE.memory_type = INP needs the extension 'feedback', which has no effect with block_in = 16 and "
            "block_out = 32: they must be equal and at least 1",
        ),
        (
            isa.Normalise(memory_type=isa.MemoryType.ACC, x_size=1),
            DEFAULT.with_changes(extensions=tuple(Extension)),
            "NORMALISE.memory_type = ACC cannot be stored; only OUT, INP can",
        ),
        (
            isa.Normalise(memory_type=isa.MemoryType.OUT, statistic=3),
            DEFAULT.with_changes(extensions=tuple(Extension)),
            "NORMALISE.statistic = 3 is none of GREATEST (0), POWERS (1), MOMENTS (2)",
        ),
        (
            isa.Store(memory_type=isa.MemoryType.WGT, x_size=1),
            DEFAULT.with_changes(extensions=tuple(Extension)),
            "STORE.memory_type = WGT cannot be stored; only OUT, INP can",
        ),
    ],
)
def test_a_store_into_another_memory_is_refused(item, config, message):
    with pytest.raises(EncodingError) as caught:
        codec.decode(codec.encode(item, config), config)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("memory", "halvings", "changes", "message"),
    [
        ("WGT", 2, {}, ""),
        ("INP", 3, {}, ""),
        (
            "WGT",
            3,
            {},
            "LOAD.halvings = 3 leaves less than the narrowest weight, or less than a byte of an element; 0, 1, 2 "
            "can be used",
        ),
        (
            "WGT",
            2,
            {"wgt_bits": 4},
            "LOAD.halvings = 2 leaves less than the narrowest weight, or less than a byte of an element; 0, 1 "
            "can be used",
        ),
        (
            "WGT",
            1,
            {"wgt_bits": 2},
            "LOAD.halvings = 1 needs the extension 'narrow_weights', which has no effect with weights of 2 bits "
            "in elements of 64 bytes",
        ),
        (
            "WGT",
            1,
            {"extensions": ()},
            "LOAD.halvings = 1 needs the extension 'narrow_weights', which this configuration has switched off",
        ),
    ],
)
def test_weights_that_would_be_too_narrow_are_refused(memory, halvings, changes, message):
    config = DEFAULT.with_changes(**{"extensions": tuple(Extension), **changes})
    load = isa.Load(memory_type=isa.MemoryType[memory], halvings=halvings)
    if message:
        with pytest.raises(EncodingError) as caught:
            codec.decode(codec.encode(load, config), config)
        assert str(caught.value) == message
    else:
        assert codec.decode(codec.encode(load, config), config) == load


def test_fields_of_extensions_stand_in_free_bits():
    assert codec.encode(isa.Load(pad_minimum=1), DEFAULT) == 1 << 58
    assert codec.encode(isa.Load(pad_value=1), DEFAULT) == 1 << 59


@pytest.mark.parametrize("config", [VTA, SMALL, DEFAULT.with_changes(block_in=4, block_out=4)])
def test_depthwise_is_no_instruction_without_its_extension_or_in_small_blocks(config):
    word = codec.encode(isa.Depthwise(uop_end=1), DEFAULT)
    with pytest.raises(
        EncodingError,
        match=r"^opcode 5 is not an instruction; there are .* ALU \(4\)(, GATHER \(6\))?(, NORMALISE \(7\))?$",
    ):
        codec.decode(word, config)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            7,
            "opcode 7 is not an instruction; there are LOAD (0), STORE (1), GEMM (2), FINISH (3), ALU (4), "
            "DEPTHWISE (5), GATHER (6)",
        ),
        (6, "GATHER.memory_type = UOP cannot be gathered; only INP can"),
        (6 | 1 << 7, "GATHER.memory_type = WGT cannot be gathered; only INP can"),
        (6 << 7, "LOAD.memory_type = 6 is none of UOP (0), WGT (1), INP (2), ACC (3), OUT (4), ACC_8BIT (5)"),
        (4 << 7, "LOAD.memory_type = OUT cannot be loaded; UOP, WGT, INP, ACC, ACC_8BIT can"),
        (
            1 | 7 << 7,
            "STORE.memory_type = 7 is none of UOP (0), WGT (1), INP (2), ACC (3), OUT (4), ACC_8BIT (5)",
        ),
        (1 | 1 << 80, "STORE.memory_type = UOP cannot be stored; only OUT, INP can"),
        (4 | 7 << 108, "ALU.alu_opcode = 7 is none of MIN (0), MAX (1), ADD (2), SHR (3), MUL (4)"),
    ],
)
def test_words_without_meaning_are_refused(word, message):
    with pytest.raises(EncodingError) as caught:
        codec.decode(word, NO_MORE_MEMORIES)
    assert str(caught.value) == message


@pytest.mark.parametrize("seed", range(20))
def test_a_gather_has_the_fields_of_a_load_at_the_same_places_and_its_step_in_those_of_the_rows_padding(seed):
    config = random_config(seed).with_changes(extensions=tuple(Extension))
    load, gather = (
        {field.name: (field.start, field.end) for field in encoding.layout(form, config)}
        for form in (isa.Load, isa.Gather)
    )
    step = gather.pop("step")
    assert step == (load.pop("x_pad_0")[0], load.pop("x_pad_1")[1])
    only = {"beside", "halvings"}  # only LOADs of accumulators run beside steps, and only weights are narrow
    assert gather == {name: place for name, place in load.items() if name not in only}


def test_memories_of_extensions_are_there_where_the_extension_is():
    assert codec.decode(6 << 7, DEFAULT) == isa.Load(memory_type=isa.MemoryType.TABLE)
    with pytest.raises(EncodingError) as caught:
        codec.decode(4 << 7, DEFAULT)
    assert (
        str(caught.value)
        == "LOAD.memory_type = OUT cannot be loaded; UOP, WGT, INP, ACC, ACC_8BIT, TABLE, RES can"
    )


def test_every_declared_field_is_documented():
    for form in (*isa.INSTRUCTIONS, isa.MicroOp):
        assert all(field.metadata["help"] for field in fields(form))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "LOAD(memory_type=FOO)",
            "p:1:18: memory_type = FOO is none of UOP, WGT, INP, ACC, OUT, ACC_8BIT, TABLE, RES\n"
            "    LOAD(memory_type=FOO)\n                     ^",
        ),
        (
            "FINISH()\nJUMP()",
            "p:2:1: JUMP is not a mnemonic; there are LOAD, STORE, GEMM, FINISH, ALU, DEPTHWISE, GATHER, NORMALISE\n    JUMP()\n    ^",
        ),
        (
            "GEMM(uops=3)",
            "p:1:6: uops is not a field of it; there are pop_prev, pop_next, push_prev, push_next, reset, "
            "uop_begin, uop_end, "
            "iter_out, iter_in, dst_factor_out, dst_factor_in, src_factor_out, src_factor_in, "
            "wgt_factor_out, wgt_factor_in, "
            "overwrite\n"
            "    GEMM(uops=3)\n         ^",
        ),
        ("GEMM(reset=1.5)", "p:1:12: reset takes a whole number\n    GEMM(reset=1.5)\n               ^"),
    ],
)
def test_assembly_errors_point_at_the_place(text, message):
    with pytest.raises(AssemblyError) as caught:
        assembly.parse_program(text, "p")
    assert str(caught.value) == message


def test_a_stream_is_read_word_by_word_and_must_end_with_one():
    assert list(codec.words(bytes([1, 0, 2, 1]), 2)) == [1, 258]
    assert list(codec.words(b"", 16)) == []
    with pytest.raises(EncodingError, match=r"^a stream of 5 bytes is not a whole number of 2-byte words$"):
        list(codec.words(bytes(5), 2))


def test_a_word_is_shown_with_all_its_digits():
    assert codec.shown_word(0x1F, DEFAULT) == f"0x{'0' * 30}1f"
    assert codec.shown_word(1 << 255, DEFAULT.with_changes(acc_buffer_bytes=1 << 20)) == f"0x8{'0' * 63}"


@pytest.mark.parametrize(("signed", "low", "high"), [(False, 0, 31), (True, -16, 15)])
def test_a_field_ends_behind_its_last_bit_and_holds_what_its_bits_do(signed, low, high):
    field = PlacedField("x", 7, 5, signed, int, "5", "help")
    assert (field.end, field.low, field.high) == (12, low, high)
