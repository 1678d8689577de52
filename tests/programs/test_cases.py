"""Every hand-written program gives the model's DRAM on every device."""

import numpy as np
import pytest

from tests.programs.cases import CASES, UOPS
from tests.programs.devices import DEVICES, device
from tests.programs.model import Model
from vdla.hw.spec import codec, isa
from vdla.hw.spec.presets import TINY
from vdla.runtime.random_programs import IMAGE_BYTES, Program


def _program(instructions) -> Program:
    image = np.random.default_rng(7).integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    table = codec.uops_to_bytes([isa.MicroOp(dst=k, src=2 * k + 1, wgt=k) for k in range(8)], TINY)
    image[UOPS:UOPS + len(table)] = np.frombuffer(table, np.uint8)
    return Program(TINY, instructions, image, codec.to_bytes(instructions, TINY))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("on", DEVICES)
def test_program_gives_what_the_model_gives(on, name):
    program = _program(CASES[name])
    expected = np.frombuffer(Model(TINY, bytearray(program.image)).run(program.instructions), np.uint8)
    result, image = program.run_on(device(on, TINY))
    np.testing.assert_array_equal(image, expected)
    assert (result.cycles is None) == on.startswith("functional")
