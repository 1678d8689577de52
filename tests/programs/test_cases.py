"""Every hand-written program gives the model's DRAM on every device."""

import numpy as np
import pytest
from generators.programs import IMAGE_BYTES, Program

from tests.programs.cases import CASES, UOPS
from tests.programs.devices import DEVICES, device, refused_as_unsafe
from tests.programs.model import Model
from vdla.hw.spec import codec, isa
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import Extension

CONFIG = TINY.with_changes(name="all extensions", extensions=tuple(Extension))


def program_of(instructions) -> Program:
    image = np.random.default_rng(7).integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    table = codec.uops_to_bytes([isa.MicroOp(dst=k, src=2 * k + 1, wgt=k) for k in range(8)], CONFIG)
    image[UOPS : UOPS + len(table)] = np.frombuffer(table, np.uint8)
    return Program(CONFIG, instructions, image, codec.to_bytes(instructions, CONFIG))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("on", DEVICES)
def test_program_gives_what_the_model_gives(on, name):
    program = program_of(CASES[name])
    if refused_as_unsafe(on, program):
        return
    expected = np.frombuffer(Model(CONFIG, bytearray(program.image)).run(program.instructions), np.uint8)
    result, image = program.run_on(device(on, CONFIG))
    np.testing.assert_array_equal(image, expected)
    assert (result.cycles is None) == on.startswith("functional")


@pytest.mark.parametrize(
    "memory",
    [REFERENCE_MEMORY, MemoryParameters(1, 1), MemoryParameters(13, 3), MemoryParameters(30, 8, 4)],
    ids=str,
)
@pytest.mark.parametrize("name", CASES)
def test_the_simulator_takes_the_cycles_of_the_rtl(name, memory):
    program = program_of(CASES[name])
    (simulated, _), (measured, _) = (program.run_on(device(on, CONFIG, memory)) for on in ("cycle", "rtl"))
    assert simulated.cycles == measured.cycles
    assert simulated.counters == measured.counters
