"""How many cycles fixed programs take, and what each unit does in them.

Published cycles rest on this: who changes the timing changes hardware, simulator and `cycles.json` in one
commit. `PYTHONPATH=scripts python -m tests.sim.timing.test_cycles` writes that file.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.programs import cases, test_cases, test_depthwise, test_gather, test_halves
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.units import Unit
from vdla.sim.decoded import DecodedStream, decode_stream
from vdla.sim.timing.simulate import simulate

FILE = Path(__file__).with_name("cycles.json")
MEMORIES = {"reference": REFERENCE_MEMORY, "slow": MemoryParameters(7, 2, 3)}


def programs() -> dict[str, DecodedStream]:
    """Return the programs by name."""
    found = {f"cases: {name}": test_cases.program_of(items) for name, items in cases.CASES.items()}
    for config in test_gather.CONFIGS:
        for name, items in test_gather.CASES.items():
            found[f"gather, {config.name}: {name}"] = test_gather.program_of(config, items)
    for config in test_halves.CONFIGS:
        for name, made in test_halves.CASES.items():
            found[f"halves, {config.name}: {name}"] = test_halves.program_of(config, made(config))
    for config in test_depthwise.CONFIGS:
        for name in test_depthwise.CASES:
            found[f"depthwise, {config.name}: {name}"] = test_depthwise.program_of(name, config)
    return {name: _decoded(program) for name, program in found.items()}


def _decoded(program) -> DecodedStream:
    stream = np.frombuffer(program.stream, np.uint8)
    return decode_stream(stream.reshape(-1, program.config.instruction_bytes), program.config)


def measured(program: DecodedStream, memory: MemoryParameters) -> list[list[int]]:
    """Return the cycles, then those of each unit by its states."""
    timing = simulate(program, memory)
    return [[timing.cycles], *([*timing.states(unit).values()] for unit in Unit)]


@pytest.mark.parametrize("memory", MEMORIES)
def test_programs_take_the_cycles_that_are_written_down(memory):
    expected = json.loads(FILE.read_text())[memory]
    found = {name: measured(program, MEMORIES[memory]) for name, program in programs().items()}
    assert {name: cycles for name, cycles in found.items() if cycles != expected.get(name)} == {}
    assert found.keys() == expected.keys()


if __name__ == "__main__":
    everything = {
        title: {name: measured(program, memory) for name, program in programs().items()}
        for title, memory in MEMORIES.items()
    }
    lines = [
        f'"{title}": {{\n'
        + ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        for title, rows in everything.items()
    ]
    FILE.write_text("{\n" + "\n},\n".join(lines) + "\n}\n}\n")
