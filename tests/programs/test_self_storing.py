"""Programs that store into themselves: every device refuses them in the same words; near misses run."""

from dataclasses import replace

import numpy as np
import pytest
from generators.programs import IMAGE_BYTES, Program, random_config, self_storing_program

from tests.programs.cases import ACC_8BIT, FILL, UOPS, all_out, alu, load, store, uops
from tests.programs.devices import DEVICES, device, refused_as_unsafe
from tests.programs.model import Model
from tests.programs.test_cases import program_of
from vdla.hw.spec import codec, isa
from vdla.hw.spec.errors import OverwriteError
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType

NOTHING = isa.Load(memory_type=MemoryType.UOP)
OTHER = 32768  # byte address of an instruction that some programs store
ADD_ONE, ADD_TWO = (alu(AluOpcode.ADD, use_imm=1, imm=imm) for imm in (1, 2))
FETCHED_LATE = 200  # position in the stream, far behind what the fetch unit holds
END = IMAGE_BYTES + 16 * (FETCHED_LATE + 1 + len(all_out()))


def storing(address: int, **fields: int) -> Program:
    """Return a program that stores an ADD of two to `address`, waits for it, and much later adds one."""
    before = (
        uops(4),
        load(ACC_8BIT, address=OTHER),
        replace(NOTHING, push_next=1),
        store(4, address=address, pop_prev=1, push_prev=1, **fields),
        replace(NOTHING, pop_next=1),
    )
    late = (NOTHING,) * (FETCHED_LATE - len(before))
    program = program_of((*before, *late, ADD_ONE, *all_out()))
    program.image[OTHER : OTHER + 16] = np.frombuffer(codec.to_bytes([ADD_TWO], TINY), np.uint8)
    return program


LATE_ADDRESS = IMAGE_BYTES + 16 * FETCHED_LATE
STREAM = f"instruction {FETCHED_LATE} of the stream that is running, DRAM bytes {LATE_ADDRESS:#x}.."
SELF_STORING = {
    "an instruction that is not fetched yet": (storing(IMAGE_BYTES + 16 * FETCHED_LATE), STREAM),
    "an instruction that has executed": (storing(IMAGE_BYTES), "instruction 0 of the stream"),
    "itself": (storing(IMAGE_BYTES + 16 * 3), "instruction 3 of the stream"),
    "FINISH": (storing(END - 4), f"DRAM bytes {END - 4:#x}..{END - 1:#x};"),
    "an instruction, in its second row": (
        storing(IMAGE_BYTES - 64, y_size=2, x_stride=20),
        "instruction 1 of the stream",
    ),
    "micro-ops that are loaded": (
        storing(UOPS + 12),
        f"micro-ops that instruction 0 (LOAD(memory_type=UOP, dram_base={UOPS // 4}, ",
    ),
    "micro-ops that it loads later": (
        program_of(
            (
                FILL,
                replace(NOTHING, push_next=1),
                store(4, address=UOPS, pop_prev=1, push_prev=1),
                replace(uops(4), pop_next=1),
                ADD_ONE,
                *all_out(),
            )
        ),
        "micro-ops that instruction 3 (LOAD(",
    ),
}
NEAR = {
    "just below the stream": storing(IMAGE_BYTES - 16),
    "just behind the stream": storing(END),
    "around the stream": storing(IMAGE_BYTES - 16, y_size=2, x_stride=(END - IMAGE_BYTES) // 4 + 4),
    "behind the micro-ops": storing(UOPS + 16),
    "below the micro-ops": storing(UOPS - 16),
}


@pytest.mark.parametrize("name", SELF_STORING)
@pytest.mark.parametrize("on", DEVICES)
def test_a_program_that_stores_into_itself_is_refused_and_changes_nothing(on, name):
    program, message = SELF_STORING[name]
    error, changed = program.refusal_by(device(on, TINY))
    assert type(error) is OverwriteError
    assert message in str(error)
    assert str(error) == str(program.refusal_by(device("functional", TINY))[0])
    assert not changed


@pytest.mark.parametrize("name", NEAR)
@pytest.mark.parametrize("on", DEVICES)
def test_a_program_that_stores_beside_itself_runs(on, name):
    program = NEAR[name]
    if refused_as_unsafe(on, program):
        return
    expected = np.frombuffer(
        Model(TINY, bytearray(program.image) + bytes(IMAGE_BYTES)).run(program.instructions), np.uint8
    )
    _, image = program.run_on(device(on, TINY))
    np.testing.assert_array_equal(image, expected[:IMAGE_BYTES])


@pytest.mark.parametrize("config_seed", [0, 3])
@pytest.mark.parametrize("seed", range(12))
def test_random_programs_that_store_into_themselves_are_refused_alike(seed, config_seed):
    program = self_storing_program(random_config(config_seed), seed)
    refusals = [program.refusal_by(device(on, program.config)) for on in DEVICES]
    assert all(type(error) is OverwriteError and not changed for error, changed in refusals)
    assert len({str(error) for error, _ in refusals}) == 1


def test_random_programs_store_into_both_streams_and_micro_ops():
    config, functional = random_config(3), device("functional", random_config(3))
    messages = [str(self_storing_program(config, seed).refusal_by(functional)[0]) for seed in range(20)]
    assert {"of the stream that is running" in message for message in messages} == {True, False}
