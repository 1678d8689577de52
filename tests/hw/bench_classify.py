"""Runs inside the simulator: the kind of every form of instruction, and of words that mean nothing."""

import random

import cocotb
from cocotb.triggers import Timer
from streams import configuration, unpack

from vdla.hw.signatures import kind_layout
from vdla.hw.spec import codec, encoding, isa, units
from vdla.hw.spec.errors import EncodingError
from vdla.hw.spec.vocabulary import Extension, MemoryType, Unit

OUT = MemoryType.OUT
OTHERS = (isa.Gemm(reset=1), isa.Finish(pop_prev=1, push_next=1))


async def kind_of(dut, word: int) -> dict[str, int]:
    dut.word.value = word
    await Timer(1, "ns")
    return unpack(kind_layout(), int(dut.kind.value))


def words(config) -> set[int]:
    """Return words of every opcode, with every value of the fields that may make them mean nothing."""
    rng, encodings = random.Random(3), {codec.encode(other, config) for other in OTHERS}
    transfers = [(form, "memory_type") for form in (isa.Load, isa.Store, isa.Gather, isa.Normalise)]
    for form, name in (*transfers, (isa.Normalise, "statistic"), (isa.Alu, "alu_opcode")):
        field = encoding.field_of(form, name, config)
        size = encoding.field_of(isa.Normalise if form is isa.Normalise else isa.Store, "x_size", config)
        for value in range(1 << field.width):
            base = form.opcode | value << field.start
            base |= (
                OUT << encoding.field_of(isa.Normalise, "memory_type", config).start
                if name == "statistic"
                else 0
            )
            encodings |= {
                base,
                base | 1 << size.start,
                base | rng.randrange(1, 1 << size.width) << size.start,
            }
    if config.has(Extension.NARROW_WEIGHTS):
        start = encoding.field_of(isa.Load, "halvings", config).start
        encodings |= {word | halvings << start for word in encodings for halvings in range(1, 4)}
    return encodings | {5, 6, 7}  # DEPTHWISE, GATHER and NORMALISE, where there are any


@cocotb.test()
async def test_a_word_is_of_the_kind_that_the_codec_finds(dut):
    config, seen = configuration(), []
    for word in sorted(words(config)):
        kind = await kind_of(dut, word)
        try:
            instruction = codec.decode(word, config)
        except EncodingError:
            assert kind["invalid"] == 1, hex(word)
            seen.append("invalid")
            continue
        unit = units.unit_of(instruction)
        assert kind == {
            "load": int(unit is Unit.LOAD),
            "store": int(unit is Unit.STORE),
            "finish": int(isinstance(instruction, isa.Finish)),
            "invalid": 0,
        }, hex(word)
        seen.append(unit)
    assert {*Unit, "invalid"} == set(seen)
