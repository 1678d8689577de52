"""Memory types: what stands where, who loads it, and which of them an accelerator has."""

import pytest

from vdla.hw.spec.memories import (
    LOADABLE,
    LOADED_INTO_ACC,
    SCRATCHPADS,
    counted_as,
    loadable_in,
    loaded_by,
    memories_of,
    scratchpad_of,
    scratchpads_of,
    unread_by_steps,
)
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.vocabulary import Extension, MemoryType, Unit

UOP, WGT, INP, ACC, OUT, ACC_8BIT, TABLE, RES = MemoryType
BOTH = DEFAULT
ONE = TINY.with_changes(extensions=(Extension.REQUANTISE, Extension.TABLE))
NONE = TINY


def test_every_memory_type_has_its_scratchpad_its_unit_and_its_counter():
    table = {
        memory: (
            scratchpad_of(memory),
            [unit for unit in Unit if memory in loaded_by(unit)],
            counted_as(memory),
        )
        for memory in MemoryType
    }
    assert table == {
        UOP: (UOP, [Unit.COMPUTE], UOP),
        WGT: (WGT, [Unit.LOAD], WGT),
        INP: (INP, [Unit.LOAD], INP),
        ACC: (ACC, [Unit.COMPUTE], ACC),
        OUT: (ACC, [], OUT),
        ACC_8BIT: (ACC, [Unit.COMPUTE], ACC),
        TABLE: (TABLE, [Unit.COMPUTE], UOP),
        RES: (RES, [Unit.COMPUTE], ACC),
    }


@pytest.mark.parametrize(
    ("config", "absent"),
    [(BOTH, []), (ONE, [RES]), (NONE, [TABLE, RES])],
    ids=["both extensions", "tables alone", "neither"],
)
def test_memories_of_extensions_are_there_with_them(config, absent):
    present = [memory for memory in MemoryType if memory not in absent]
    assert memories_of(config) == tuple(present)
    assert set(scratchpads_of(config)) == set(present) - {OUT, ACC_8BIT}
    assert loadable_in(config) == tuple(memory for memory in present if memory is not OUT)
    assert unread_by_steps(config) == tuple(memory for memory in (TABLE, RES) if memory not in absent)
    for unit in Unit:
        assert set(loaded_by(unit, config)) == set(loaded_by(unit)) - set(absent)


def test_memory_types_stand_in_lists_by_what_they_are_for():
    assert LOADABLE == (UOP, WGT, INP, ACC, ACC_8BIT, TABLE, RES)
    assert set(SCRATCHPADS) == {UOP, WGT, INP, ACC, TABLE, RES}
    assert LOADED_INTO_ACC == (ACC, ACC_8BIT)
