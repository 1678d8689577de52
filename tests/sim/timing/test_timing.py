"""How many cycles fixed programs take, what each unit does in them, and over how many of them the simulator
leaps.

Published cycles rest on this: who changes the timing changes hardware, simulator and `cycles.json` in one
commit. Results never depend on leaps (`test_simulate.py` compares runs without any), the simulator's speed does:
`leaps.json` holds how many cycles are evaluated one by one.
`make recorded` writes both files.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.programs import cases, test_cases, test_depthwise, test_gather, test_halves
from tests.recorded import write
from tests.sim.timing.test_against_rtl import (
    ACC,
    INP,
    MANY_STEPS,
    UOP,
    WIDE,
    WIDE_ONE_PORT,
    load,
    marks,
    store,
    two_operands,
)
from vdla.hw.spec import codec, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.units import Unit
from vdla.hw.spec.vocabulary import Extension
from vdla.sim.decoded import DecodedStream, decode_stream
from vdla.sim.timing.simulate import _Simulation, advance, simulate
from vdla.sim.timing.state import FAR

CYCLES, LEAPS = (Path(__file__).with_name(f"{name}.json") for name in ("cycles", "leaps"))
MEMORIES = {"reference": REFERENCE_MEMORY, "slow": MemoryParameters(7, 2, 3)}


def programs() -> dict[str, DecodedStream]:
    """Return the programs by name."""
    named = {f"cases: {name}": test_cases.program_of(items) for name, items in cases.CASES.items()}
    for config in test_gather.CONFIGS:
        for name, items in test_gather.CASES.items():
            named[f"gather, {config.name}: {name}"] = test_gather.program_of(config, items)
    for config in test_halves.CONFIGS:
        for name, instructions_for in test_halves.CASES.items():
            named[f"halves, {config.name}: {name}"] = test_halves.program_of(config, instructions_for(config))
    for config in test_depthwise.CONFIGS:
        for name in test_depthwise.CASES:
            named[f"depthwise, {config.name}: {name}"] = test_depthwise.program_of(name, config)
    return {name: _decoded(program) for name, program in named.items()}


def _decoded(program) -> DecodedStream:
    stream = np.frombuffer(program.stream, np.uint8)
    return decode_stream(stream.reshape(-1, program.config.instruction_bytes), program.config)


def measured(program: DecodedStream, memory: MemoryParameters) -> list[list[int]]:
    """Return the cycles, then the cycles of each unit by its states."""
    timing = simulate(program, memory, cycle_limit=MOST_CYCLES)
    return [[timing.cycles], *([*timing.states(unit).values()] for unit in Unit)]


@pytest.mark.parametrize("memory", MEMORIES)
def test_programs_take_the_cycles_that_are_written_down(memory):
    expected = json.loads(CYCLES.read_text())[memory]
    actual = {name: measured(program, MEMORIES[memory]) for name, program in programs().items()}
    assert {name: cycles for name, cycles in actual.items() if cycles != expected.get(name)} == {}
    assert actual.keys() == expected.keys()


WAITS = {
    "reference": REFERENCE_MEMORY,
    "quick": MemoryParameters(1, 16),
    "slow": MemoryParameters(50, 4, 3),
}
MOST_CYCLES = 100_000  # that any of these programs may take
AT_ONCE = 64  # evaluated cycles of a call
GATHERS = TINY.with_changes(name="gathers", extensions=tuple(Extension))


def mixed(config: AcceleratorConfig) -> list[isa.Instruction]:
    """Return a program in which all units work at once, each for long."""
    gemm = isa.Gemm(uop_begin=4, uop_end=8, iter_out=10, iter_in=30)
    return [
        load(INP, 2, 300, x_stride=400),
        store(2, 150, x_stride=200),
        gemm,
        load(UOP, width=90, sram_base=40),
        two_operands(config, 70),
        load(ACC, 2, 40, y_pad_0=1, x_pad_1=3),
        store(1, 100),
        gemm,
        load(INP, 3, 20, y_pad_1=2, x_pad_0=1, push_next=1),
        isa.Gemm(uop_end=1, iter_out=1, iter_in=9, pop_prev=1),
    ]


def gather(**fields: int) -> isa.Gather:
    return isa.Gather(memory_type=INP, **{"y_size": 3, "x_size": 60, "x_stride": 300, **fields})


def long_programs() -> Iterator[tuple[str, AcceleratorConfig, list[isa.Instruction]]]:
    """Yield programs of long instructions, with their names and configurations."""
    for config in (TINY, WIDE, WIDE_ONE_PORT):
        for name, instructions in MANY_STEPS.items():
            yield f"{name}, {config.name}", config, instructions
        yield f"mixed, {config.name}", config, mixed(config)
        yield f"marks, {config.name}", config, marks(config)
    for step in (0, 1, 5):
        yield f"gather of {step}", GATHERS, [gather(step=step), gather(step=step, y_size=1, dram_base=3)]


def counted(
    config: AcceleratorConfig, instructions: list[isa.Instruction], memory: MemoryParameters
) -> list[int]:
    """Return the cycles of a run, and how many of them were evaluated."""
    stream = np.frombuffer(codec.to_bytes([*instructions, isa.Finish()], config), np.uint8)
    program = decode_stream(stream.reshape(-1, config.instruction_bytes), config)
    run, evaluated = _Simulation(program, memory, 0, log=False), 0
    arrays = (run.columns, run.queued, run.times, run.logs)
    while True:
        before = run.state.copy()
        advance(run.state[0], *arrays, FAR, AT_ONCE)
        if run.done:
            break
        evaluated += AT_ONCE
        assert evaluated < MOST_CYCLES, "the run does not end"
    for last in range(1, AT_ONCE + 1):  # to count the last cycles
        run.state[:] = before
        advance(run.state[0], *arrays, FAR, last)
        if run.done:
            break
    return [run.cycle, evaluated + last]


def evaluated_in(memory: MemoryParameters) -> dict[str, list[int]]:
    return {name: counted(config, instructions, memory) for name, config, instructions in long_programs()}


@pytest.mark.parametrize("memory", WAITS)
def test_as_many_cycles_are_evaluated_as_are_written_down(memory):
    expected, actual = json.loads(LEAPS.read_text())[memory], evaluated_in(WAITS[memory])
    assert {name: cycles for name, cycles in actual.items() if cycles != expected.get(name)} == {}
    assert actual.keys() == expected.keys()


@pytest.mark.parametrize("name", ["gemm", "alu", "alu by an immediate"])
def test_of_instructions_of_many_steps_few_cycles_are_evaluated(name):
    cycles, evaluated = counted(WIDE, MANY_STEPS[name], REFERENCE_MEMORY)
    assert evaluated < cycles / 10


if __name__ == "__main__":
    write(
        CYCLES,
        {
            title: {name: measured(program, memory) for name, program in programs().items()}
            for title, memory in MEMORIES.items()
        },
    )
    write(LEAPS, {title: evaluated_in(memory) for title, memory in WAITS.items()})
