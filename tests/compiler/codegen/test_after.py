"""STOREs with what comes behind requantisation."""

from vdla.compiler.codegen.after import NOTHING, After, begun
from vdla.hw.spec import isa
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.runtime.stream.builder import Rows, StreamBuilder
from vdla.sim.decoded import decode_stream

CONFIG = TINY.with_changes(extensions=tuple(Extension))


def test_a_table_is_loaded_once_and_named_by_every_store():
    builder = StreamBuilder(CONFIG)
    record = begun(builder, {"T": "table"}, After(table=3))
    record(2)(10, "out", 3, Rows(1, 5, 5))
    record(4)(15, "out", 9, Rows(2, 2, 4))
    stream = builder.finish()
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), CONFIG)
    load, *stores = [program.instruction(index) for index in range(len(program))]
    assert isinstance(load, isa.Load)
    assert (load.memory_type, load.sram_base, load.x_size) == (MemoryType.TABLE, 128, isa.TABLE_ELEMENTS)
    found = [item for item in stores if isinstance(item, isa.Store)]
    assert [(item.sram_base, item.table, item.parameters) for item in found] == [(10, 3, 2), (15, 3, 4)]


def test_nothing_is_no_table():
    assert not NOTHING.table
