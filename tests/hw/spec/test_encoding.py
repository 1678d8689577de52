"""Widths of the encoding: VTA's wherever the fields fit, the next power of two where they do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdla.hw.spec import codec, encoding, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.consistency import MOST_ELEMENTS
from vdla.hw.spec.presets import DEFAULT, PRESETS, TINY
from vdla.hw.spec.vocabulary import NEEDED, Extension, MemoryType

KIB, MIB = 1 << 10, 1 << 20
DEEP_UOPS = TINY.with_changes(
    uop_buffer_bytes=512 * KIB, inp_buffer_bytes=KIB, acc_buffer_bytes=2 * KIB, extensions=()
)
"""Micro-op memory of 2^17 elements, and everything else small."""
MOST: dict[str, int] = {
    "batch": 1,
    "block_in": 1,
    "block_out": 1,
    "acc_bits": 16,
    "uop_buffer_bytes": MIB,
    "inp_buffer_bytes": 2 * MIB,
    "wgt_buffer_bytes": 2 * MIB,
    "acc_buffer_bytes": 4 * MIB,
}
"""As many elements as scratchpads can have."""

WIDTHS = {
    "the default just fits": (DEFAULT, {}, 32, 128),
    "one bit of INP too many": (DEFAULT, {"inp_buffer_bytes": 64 * KIB}, 64, 256),
    "one bit of WGT too many": (DEFAULT, {"wgt_buffer_bytes": 512 * KIB}, 64, 256),
    "one bit of ACC too many": (DEFAULT, {"acc_buffer_bytes": 256 * KIB}, 64, 256),
    "one bit of UOP too many": (DEFAULT, {"uop_buffer_bytes": 64 * KIB}, 32, 256),
    "one bit of WGT instead of INP: only micro-ops widen": (
        DEFAULT,
        {"inp_buffer_bytes": 16 * KIB, "wgt_buffer_bytes": 512 * KIB},
        64,
        128,
    ),
    "ALU just fits": (DEFAULT, {"wgt_buffer_bytes": 8 * KIB, "inp_buffer_bytes": 16 * KIB}, 32, 128),
    "one bit of ACC too many for ALU": (
        DEFAULT,
        {"wgt_buffer_bytes": 8 * KIB, "inp_buffer_bytes": 16 * KIB, "acc_buffer_bytes": 256 * KIB},
        32,
        256,
    ),
    "wide micro-ops, narrow instructions": (
        TINY,
        {"uop_buffer_bytes": KIB, "wgt_buffer_bytes": 1024 * KIB, "acc_buffer_bytes": 4 * KIB},
        64,
        128,
    ),
    "17 bits of sram_base": (DEEP_UOPS, {}, 32, 128),
    "17 bits of sram_base, and pad_minimum": (DEEP_UOPS, {"extensions": "pad_minimum"}, 32, 128),
    "17 bits of sram_base leave 5 for parameters": (DEEP_UOPS, {"extensions": "requantise"}, 32, 256),
    "64 x 64": (DEFAULT, {"block_in": 64, "block_out": 64}, 32, 128),
    "64 x 64, buffers of 1 MiB": (
        DEFAULT,
        {"block_in": 64, "block_out": 64}
        | {f"{pad}_buffer_bytes": MIB for pad in ("uop", "inp", "wgt", "acc")},
        64,
        256,
    ),
    "buffers of 1 MiB": (
        DEFAULT,
        {f"{pad}_buffer_bytes": MIB for pad in ("uop", "inp", "wgt", "acc")},
        64,
        256,
    ),
    "blocks of 1 x 1": (DEFAULT, {"block_in": 1, "block_out": 1}, 64, 256),
    "blocks of 2 x 2": (DEFAULT, {"block_in": 2, "block_out": 2}, 64, 256),
    "the most elements": (DEFAULT, MOST, 64, 256),
}


@pytest.mark.parametrize("title", WIDTHS)
def test_the_encoding_is_as_wide_as_its_fields_ask(title):
    base, changes, uop_bits, instruction_bits = WIDTHS[title]
    config = base.with_changes(**changes)
    assert (config.uop_bits, config.instruction_bits) == (uop_bits, instruction_bits)
    check_layouts(config)


@pytest.mark.parametrize("config", PRESETS.values(), ids=list(PRESETS))
def test_presets_have_the_widths_of_vta(config):
    assert (config.uop_bits, config.instruction_bits, config.sram_base_bits) == (32, 128, 16)
    assert (config.instruction_bytes, config.element_bytes(MemoryType.UOP)) == (16, 4)


def check_layouts(config: AcceleratorConfig) -> None:
    """Check every layout: fields apart, each in one word, reaching every element; widths no wider than
    needed."""
    ends = []
    for form in (*isa.instructions_of(config), isa.MicroOp):
        taken = [] if form is isa.MicroOp else [*range(encoding.OPCODE_BITS)]
        for field in encoding.layout(form, config):
            assert field.start // 64 == (field.end - 1) // 64, f"{form.__name__}.{field.name} crosses a word"
            taken += range(field.start, field.end)
        assert len(set(taken)) == len(taken), f"fields of {form.__name__} overlap"
        ends.append(max(taken) + 1)
    *instructions, uop = ends
    assert config.instruction_bits == (128 if max(instructions) <= 128 else 256)
    assert max(instructions) <= 256
    assert config.uop_bits == (32 if uop <= 32 else 64)
    assert uop <= 64
    deepest = max(config.depth(memory) for memory in MemoryType)
    assert encoding.field_of(isa.Load, "sram_base", config).high >= deepest - 1
    assert encoding.field_of(isa.Gemm, "uop_end", config).high >= config.depth(MemoryType.UOP)


def test_a_scratchpad_that_is_a_bit_too_deep_changes_no_field_of_the_first_words():
    """LOAD and STORE stay as they are where only GEMM needs more: their fields depend on `sram_base` alone."""
    wide = DEFAULT.with_changes(acc_buffer_bytes=MIB)
    for form in (isa.Load, isa.Store, isa.Finish):
        assert encoding.layout(form, wide) == encoding.layout(form, DEFAULT)


def test_fields_that_do_not_fit_stand_in_the_third_and_fourth_word():
    config = AcceleratorConfig(**MOST, extensions=tuple(Extension))
    starts = {field.name: field.start for field in encoding.layout(isa.Gemm, config)}
    assert starts == dict(
        zip(
            (*isa.FLAGS, *isa.field_names(isa.Gemm)),
            (3, 4, 5, 6, 7, 8, 25, 43, 64, 78, 99, 128, 149, 170, 192, 57),
            strict=True,
        )
    )
    assert encoding.field_of(isa.Store, "parameters", config).start == 128
    assert encoding.field_of(isa.MicroOp, "wgt", config).end == 63


DEEP_BLOCKS = {
    "block_in": 8,
    "block_out": 8,
    "inp_buffer_bytes": 16 * MIB,
    "wgt_buffer_bytes": 128 * MIB,
    "acc_buffer_bytes": 32 * MIB,
}


@pytest.mark.parametrize(
    "config", [DEFAULT, AcceleratorConfig(**MOST | DEEP_BLOCKS, extensions=tuple(Extension))]
)
def test_depthwise_has_its_fields_where_gemm_has_them(config):
    """The hardware reads them there, whichever of both it is."""
    gemm = {field.name: field.start for field in encoding.layout(isa.Gemm, config)}
    depthwise = {field.name: field.start for field in encoding.layout(isa.Depthwise, config)}
    assert depthwise.pop("stride_2") == gemm["reset"]
    for name in ("overwrite", "more_rows", "wide", "row_step"):  # they are looked for apart
        del depthwise[name]
    assert depthwise == {name: gemm[name] for name in depthwise}
    assert {*gemm} - {*depthwise} == {"reset", "wgt_factor_in", "overwrite"}


def test_the_bytes_of_wide_instructions_and_micro_ops():
    config = DEFAULT.with_changes(acc_buffer_bytes=MIB)
    gemm = isa.Gemm(uop_end=1, wgt_factor_in=5)
    assert codec.to_bytes([gemm], config) == (2 | 1 << 20).to_bytes(16, "little") + (5).to_bytes(16, "little")
    uop = isa.MicroOp(dst=1, src=2, wgt=1023)
    assert codec.uops_to_bytes([uop], config) == (1 | 2 << 14 | 1023 << 28).to_bytes(8, "little")


POWERS = st.integers(0, 6).map(lambda power: 1 << power)


def are_complete(extensions: list[Extension]) -> bool:
    """Whether what extensions need is among them."""
    return all(needed in extensions for extension, needed in NEEDED.items() if extension in extensions)


@st.composite
def plausible(draw: st.DrawFn) -> dict[str, object]:
    """Return parameters of which each element has whole bytes and each scratchpad 2 to MOST_ELEMENTS."""
    batch, block_in, block_out = draw(st.sampled_from((1, 1, 2, 4, 8))), draw(POWERS), draw(POWERS)
    inp_bits = draw(
        st.sampled_from([bits for bits in (2, 4, 8) if bits * batch * min(block_in, block_out) >= 8])
    )
    wgt_bits = draw(st.sampled_from([bits for bits in (2, 4, 8) if bits * block_out * block_in >= 8]))
    acc_bits = draw(st.sampled_from((16, 32)))
    bits = {
        "inp": batch * block_in * inp_bits,
        "wgt": block_out * block_in * wgt_bits,
        "acc": batch * block_out * acc_bits,
    }
    buffers = {
        f"{pad}_buffer_bytes": min(max(1 << draw(st.integers(10, 22)), size // 4), MOST_ELEMENTS * size // 8)
        for pad, size in bits.items()
    }
    return dict(
        batch=batch,
        block_in=block_in,
        block_out=block_out,
        inp_bits=inp_bits,
        wgt_bits=wgt_bits,
        acc_bits=acc_bits,
        **buffers,
        uop_buffer_bytes=1 << draw(st.integers(4, 20)),
        bus_bits=draw(st.sampled_from((64, 128, 256))),
        burst_bytes=1 << draw(st.integers(5, 10)),
        extensions=draw(st.lists(st.sampled_from(Extension), unique=True).filter(are_complete)),
        res_buffer_bytes=1 << 16,
    )


@given(plausible())
def test_no_plausible_configuration_is_refused_for_its_encoding(parameters):
    check_layouts(AcceleratorConfig(**parameters))
