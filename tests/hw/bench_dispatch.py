"""Runs inside the simulator: dispatch routes by unit and stops where it must."""

import cocotb
from cocotb.triggers import FallingEdge
from streams import configuration, receive, send, start

from vdla.hw.signatures import fetched_layout, kind_layout
from vdla.hw.spec import codec, encoding, isa, units
from vdla.hw.spec.errors import EncodingError
from vdla.hw.spec.vocabulary import MemoryType

INPUTS = ("instruction__valid", "instruction__payload", "load__ready", "compute__ready", "store__ready")
STREAM = (
    isa.Load(memory_type=MemoryType.INP, x_size=1),
    isa.Load(memory_type=MemoryType.WGT),
    isa.Load(memory_type=MemoryType.UOP, x_size=2),
    isa.Gemm(reset=1),
    isa.Load(memory_type=MemoryType.ACC),
    isa.Load(memory_type=MemoryType.ACC_8BIT),
    isa.Store(memory_type=MemoryType.OUT, x_size=3),
    isa.Store(memory_type=MemoryType.UOP),
    isa.Alu(alu_opcode=isa.AluOpcode.SHR),
    isa.Load(memory_type=MemoryType.INP, push_next=1),
)
INVALID = (5, 6, 7, 4 << 7, 6 << 7, 7 << 7, 1 | 1 << 80, 1 | 6 << 7)


def fetched(word: int) -> int:
    """Return what fetch offers of an instruction, or of a word that means nothing."""
    config = configuration()
    try:
        unit = units.unit_of(codec.decode(word, config)).name.lower()
        kind = {
            "invalid": 0,
            "finish": word & 7 == isa.Opcode.FINISH,
            "load": unit == "load",
            "store": unit == "store",
        }
    except EncodingError:
        kind = {"invalid": 1}
    layout = fetched_layout(config)
    packed = sum(value << kind_layout()[name].offset for name, value in kind.items())
    return word << layout["word"].offset | packed << layout["kind"].offset


async def run(dut, words, share: float) -> dict[str, list]:
    """Send `words`; return what came out for each unit."""
    got = {unit: [] for unit in ("load", "compute", "store")}
    for index, unit in enumerate(got):
        cocotb.start_soon(receive(dut, unit, got[unit], share, index))
    await send(dut, "instruction", [fetched(word) for word in words], share)
    await FallingEdge(dut.clk)
    return got


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.5])
async def test_each_unit_gets_its_instructions_in_order_and_nothing_follows_finish(dut, share):
    config = configuration()
    await start(dut, *INPUTS)
    got = await run(dut, [codec.encode(item, config) for item in (*STREAM, isa.Finish(), *STREAM)], share)
    for unit in units.Unit:
        expected = [
            codec.encode(item, config) for item in (*STREAM, isa.Finish()) if units.unit_of(item) is unit
        ]
        assert got[unit.name.lower()] == expected
    assert int(dut.ended.value) == 1
    assert int(dut.invalid.value) == 0


@cocotb.test()
@cocotb.parametrize(word=[*INVALID, None])
async def test_words_without_meaning_end_the_stream_at_their_place(dut, word):
    config = configuration()
    if word is None:
        word = isa.Opcode.ALU | 6 << encoding.field_of(isa.Alu, "alu_opcode", config).start
    await start(dut, *INPUTS)
    got = await run(
        dut,
        [
            codec.encode(STREAM[0], config),
            codec.encode(STREAM[3], config),
            word,
            codec.encode(STREAM[0], config),
        ],
        0.0,
    )
    assert [len(items) for items in got.values()] == [1, 1, 0]
    assert (int(dut.ended.value), int(dut.invalid.value), int(dut.invalid_index.value)) == (1, 1, 2)
