"""The register map: consecutive words, what they hold after a reset, and how long a read takes."""

from itertools import product

from vdla.hw.spec.registers import (
    COUNTED_MEMORIES,
    COUNTED_STATES,
    COUNTERS,
    OFFSETS,
    READ_CYCLES,
    REGISTER_SPACE_BITS,
    REGISTERS,
    TOTALS,
    Access,
    Control,
    Fault,
    Status,
    UnitState,
    beat_counter,
    state_counter,
)
from vdla.hw.spec.vocabulary import MemoryType, Unit

HELD = 11  # cycles, as docs/microarchitecture.md says of counters


def test_registers_are_words_one_behind_the_other():
    assert [register.offset for register in REGISTERS] == [4 * place for place in range(len(REGISTERS))]
    assert {register.name: register.offset for register in REGISTERS} == OFFSETS
    assert len(OFFSETS) == len(REGISTERS)
    assert 1 << REGISTER_SPACE_BITS - 1 < 4 * len(REGISTERS) <= 1 << REGISTER_SPACE_BITS


def test_all_but_identity_and_version_are_zero_after_a_reset():
    assert {register.name: register.reset for register in REGISTERS if register.reset} == {
        "IDENTITY": 0x56444C41,  # VDLA in ASCII
        "VERSION": 1,
    }


def test_counters_share_a_memory_and_are_read_slowly():
    first = REGISTERS[[register.name for register in REGISTERS].index(TOTALS[0]) :]
    assert tuple(register.name for register in first) == TOTALS == ("CYCLES_HIGH", *COUNTERS)
    assert {name for name, cycles in READ_CYCLES.items() if cycles == HELD} == {*TOTALS}
    assert {cycles for name, cycles in READ_CYCLES.items() if name not in TOTALS} == {1}


def test_every_unit_and_state_but_idle_and_every_memory_has_a_counter():
    assert UnitState.IDLE not in COUNTED_STATES
    assert len(COUNTED_STATES) == len(UnitState) - 1
    names = {f"{unit.name}_{state.name}" for unit, state in product(Unit, COUNTED_STATES)}
    assert {state_counter(unit, state) for unit, state in product(Unit, COUNTED_STATES)} == names
    assert [memory.name for memory in COUNTED_MEMORIES] == ["UOP", "WGT", "INP", "ACC", "OUT"]
    beats = {"FETCH_BEATS", *(f"{memory.name}_BEATS" for memory in COUNTED_MEMORIES)}
    assert {beat_counter(memory) for memory in (None, *COUNTED_MEMORIES)} == beats
    assert beat_counter(MemoryType.WGT) == "WGT_BEATS"
    assert {*COUNTERS} == names | beats | {"GEMM_STEPS", "ALU_STEPS"}


def test_what_a_host_writes_is_told_apart_from_what_it_reads():
    written = {register.name for register in REGISTERS if register.access is Access.WRITE}
    assert written == {"INTERRUPT_ENABLE", "STREAM_ADDRESS", "STREAM_ADDRESS_HIGH", "STREAM_COUNT"}
    assert [register.name for register in REGISTERS if register.access is Access.COMMAND] == ["CONTROL"]


def test_bits_of_a_register_stand_side_by_side():
    for kind in (Control, Status, Fault):
        assert [bit.value for bit in kind] == [1 << place for place in range(len(kind))]
