"""What the RTL counts fits the run it counted."""

from math import ceil

import pytest
from generators.programs import IMAGE_BYTES

from tests.programs.cases import CASES
from tests.programs.devices import device
from tests.programs.test_cases import program_of
from vdla.hw.spec import isa
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.registers import COUNTED_STATES, COUNTERS, READ_CYCLES, beat_counter, state_counter
from vdla.hw.spec.units import Unit

NAMES = [
    "finish alone",
    "load strided",
    "store strided",
    "stores of nothing between stores",
    "gemm loops",
    "gemm reset",
    "alu chain",
    "load what was stored",
    "micro-ops replaced",
    "noise on unused edges",
]
MEMORIES = (MemoryParameters(), MemoryParameters(1, 1))
PARTS = {
    "UOP": "UOP_LOADED_BYTES",
    "INP": "INP_LOADED_BYTES",
    "WGT": "WGT_LOADED_BYTES",
    "ACC": "ACC_LOADED_BYTES",
    "OUT": "OUT_STORED_BYTES",
}


@pytest.fixture(params=NAMES)
def program(request):
    return program_of(CASES[request.param])


@pytest.mark.parametrize("memory", MEMORIES, ids=str)
def test_the_states_of_a_unit_fit_into_the_run(program, memory):
    result, _ = program.run_on(device("rtl", TINY, memory))
    assert set(result.counters) == set(COUNTERS)
    for unit in Unit:
        counted = [result.counters[state_counter(unit, state)] for state in COUNTED_STATES]
        assert 0 < sum(counted) <= result.cycles


def test_steps_and_beats_are_those_of_the_program(program):
    result, _ = program.run_on(device("rtl", TINY))
    expected, _ = program.run_on(device("functional", TINY))
    for name in ("GEMM_STEPS", "ALU_STEPS"):
        assert result.counters[name] == expected.counters[name]
    assert result.counters[beat_counter(None)] == len(program.stream) // TINY.bus_bytes
    for memory, moved in PARTS.items():
        beats, least = result.counters[f"{memory}_BEATS"], ceil(expected.counters[moved] / TINY.bus_bytes)
        assert least <= beats
        assert bool(beats) == bool(least)


def test_the_register_says_the_cycles_that_passed(program):
    rtl = device("rtl", TINY)
    result, _ = program.run_on(rtl)
    starts = []
    write = rtl._model.write
    rtl._model.write = lambda offset, value: starts.append(write(offset, value)) or starts[-1]
    try:
        rtl.copy_in(0, program.image)
        rtl.copy_in(IMAGE_BYTES, program.stream)
        rtl.run(IMAGE_BYTES, len(program.instructions))
    finally:
        del rtl._model.write
    first = starts[-1] + 1  # a run begins in the cycle after CONTROL is written
    passed = rtl._model.cycle - 1 - first
    reads = sum(READ_CYCLES[name] for name in ("CYCLES", "CYCLES_HIGH", "FAULT", *COUNTERS))
    assert passed - reads == result.cycles


def test_a_faster_memory_takes_no_more_cycles(program):
    slow, _ = program.run_on(device("rtl", TINY, MEMORIES[0]))
    fast, _ = program.run_on(device("rtl", TINY, MemoryParameters(8, 16)))
    assert fast.cycles <= slow.cycles


def test_a_run_counts_from_zero(program):
    first, _ = program.run_on(device("rtl", TINY))
    second, _ = program.run_on(device("rtl", TINY))
    assert (first.cycles, first.counters) == (second.cycles, second.counters)


def test_finish_alone_costs_fetch_and_pipeline():
    result, _ = program_of((isa.Finish(),)).run_on(device("rtl", TINY))
    latency = MemoryParameters().latency
    assert latency < result.cycles < latency + 30
    assert result.counters["FETCH_BEATS"] == 2
    assert not result.counters["GEMM_STEPS"]
