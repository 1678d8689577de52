"""What the stream builder records and refuses of NORMALISEs, and how tokens order them."""

import numpy as np
import pytest

from vdla.hw.spec import isa
from vdla.hw.spec.errors import EncodingError
from vdla.hw.spec.presets import SMALL, VTA
from vdla.hw.spec.vocabulary import Extension, MemoryType, Statistic
from vdla.runtime.stream.builder import Rows, StreamBuilder
from vdla.sim.decoded import decode_stream
from vdla.sim.verify.verifier import verify

INP = MemoryType.INP
WHOLE = SMALL.with_changes(name="whole", extensions=tuple(Extension))
ROWS = Rows(2, 3, 4)
SIZE = {"y_size": 2, "x_size": 3, "x_stride": 4}
RECORDED = {
    "a statistic": (
        lambda builder: builder.gather_statistics(
            5, ROWS, Statistic.MOMENTS, parameters=2, table=3, anew=True
        ),
        {"memory_type": MemoryType.OUT, "sram_base": 5, "y_size": 2, "x_size": 3}
        | {"parameters": 2, "table": 3, "statistic": Statistic.MOMENTS, "anew": 1},
    ),
    "normalised outputs": (
        lambda builder: builder.normalise(
            5, "x", 6, ROWS, statistic=Statistic.POWERS, parameters=2, table=3, normal=4
        ),
        {"memory_type": MemoryType.OUT, "sram_base": 5, "dram_base": 6, **SIZE}
        | {"parameters": 2, "table": 3, "statistic": Statistic.POWERS, "normal": 4},
    ),
}


@pytest.mark.parametrize("title", RECORDED)
def test_a_call_records_an_instruction_with_its_fields(title):
    record, fields = RECORDED[title]
    builder = StreamBuilder(WHOLE)
    record(builder)
    stream = builder.finish()
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), WHOLE)
    items = [
        item for item in map(program.instruction, range(len(program))) if isinstance(item, isa.Normalise)
    ]
    assert items == [isa.Normalise(**fields)]


def test_an_accelerator_without_normalise_refuses_it():
    rows, needed = Rows(1, 1, 1), "NORMALISE needs the extension 'normalise', which this config"
    with pytest.raises(EncodingError, match=needed):
        StreamBuilder(VTA).gather_statistics(0, rows, Statistic.GREATEST)
    with pytest.raises(EncodingError, match=needed):
        StreamBuilder(VTA).normalise(0, "x", 0, rows, Statistic.GREATEST, normal=1)


def test_tokens_order_normalises_behind_what_they_read_and_before_what_reads_their_outputs():
    builder, rows = StreamBuilder(WHOLE), Rows(1, 1, 1)
    builder.load(MemoryType.ACC, 0, "a", 0, Rows(1, 6, 6))
    builder.gather_statistics(5, rows, Statistic.MOMENTS, anew=True)
    builder.normalise(5, "x", 0, rows, statistic=Statistic.MOMENTS, normal=1)
    builder.load(MemoryType.ACC, 5, "b", 0, rows)
    builder.load(INP, 0, "x", 0, rows)
    stream = builder.finish()
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 1 << 16)), WHOLE)
    verify(program, np.zeros(1 << 17, np.uint8))
    stores = np.flatnonzero(program.opcode == isa.Normalise.opcode)
    assert [program.instruction(index).normal for index in stores] == [0, 1]
    assert program.instruction(stores[0]).pop_prev
    assert program.instruction(stores[1]).push_prev
