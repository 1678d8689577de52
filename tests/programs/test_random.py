"""A share of the random campaign: `scripts/random_programs.py` runs the rest."""

import random

import numpy as np
import pytest
from generators.programs import Program, _encode, random_config, random_program

from tests.programs.devices import DRAM_BYTES, device
from tests.programs.model import Model
from vdla.hw.spec.errors import DeadlockError
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.devices.functional import FunctionalDevice

RTL_CONFIGURATIONS = (0, 2, 3)  # 2 has wide micro-ops and instructions, 3 has narrow weights


@pytest.mark.parametrize(
    "seed", [*range(20), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(20, 40))]
)
def test_functional_device_agrees_with_the_model(seed):
    program = random_program(random_config(seed), seed, 25)
    expected = np.frombuffer(
        Model(program.config, bytearray(program.image)).run(program.instructions), np.uint8
    )
    for order in (None, 0, 1, 2):
        _, image = program.run_on(FunctionalDevice(program.config, DRAM_BYTES, seed=order))
        np.testing.assert_array_equal(image, expected, err_msg=f"interleaving {order}")


@pytest.mark.parametrize("config_seed", RTL_CONFIGURATIONS)
@pytest.mark.parametrize(
    "memory",
    [
        MemoryParameters(),
        MemoryParameters(5, 3),
        MemoryParameters(1, 1),
        MemoryParameters(200, 64),
        MemoryParameters(20, 4, 3),
    ],
    ids=str,
)
def test_rtl_agrees_with_the_simulators_in_data_cycles_and_counters(config_seed, memory):
    config = random_config(config_seed)
    for seed in range(40):
        program = random_program(config, seed)
        _, expected = program.run_on(device("functional", config))
        simulated, _ = program.run_on(device("cycle", config, memory))
        measured, image = program.run_on(device("rtl", config, memory))
        np.testing.assert_array_equal(image, expected, err_msg=f"program {seed}")
        assert measured.cycles == simulated.cycles, f"program {seed}"
        assert measured.counters == simulated.counters, f"program {seed}"


@pytest.mark.parametrize("config_seed", range(20))
def test_the_cycle_device_agrees_with_the_functional_device(config_seed):
    program = random_program(random_config(config_seed), config_seed)
    _, expected = program.run_on(device("functional", program.config))
    _, image = program.run_on(device("cycle", program.config))
    np.testing.assert_array_equal(image, expected)


def test_configurations_cover_what_they_should():
    configs = [random_config(seed) for seed in range(300)]
    assert {config.batch for config in configs} == {1, 2, 4}
    assert any(config.block_in != config.block_out for config in configs)
    assert any(config.inp_bits == 4 for config in configs)
    assert {config.bus_bits for config in configs} == {64, 128, 256, 512}
    widths = {(config.uop_bits, config.instruction_bits) for config in configs}
    assert widths == {(32, 128), (32, 256), (64, 128), (64, 256)}
    assert {config.sram_base_bits > 16 for config in configs} == {True, False}
    assert {config.packed for config in configs} == {0, 18, 25}
    assert {config.halvings(MemoryType.WGT)[-1] for config in configs} == {0, 1, 2}
    assert {config.requantise_lanes for config in configs} >= {0, 1, 2, 4}
    depths = [config.depth(MemoryType.ACC) for config in configs]
    assert min(depths) <= 16 < 256 <= max(depths)


def test_a_flag_taken_away_shows_in_some_interleaving():
    """Not every token matters in every program; over a few programs some must, or the tokens would be
    decoration."""
    rng, shown = random.Random(1), 0
    for seed in range(12):
        program = random_program(random_config(seed % 4), seed, 30)
        _, expected = program.run_on(device("functional", program.config))
        shown += _differs(_without_a_pop(program, rng), expected)
    assert shown


def _without_a_pop(program: Program, rng: random.Random) -> Program:
    from dataclasses import replace

    popping = [index for index, item in enumerate(program.instructions) if item.pop_prev or item.pop_next]
    index = rng.choice(popping)
    broken = list(program.instructions)
    broken[index] = replace(broken[index], pop_prev=0, pop_next=0)
    return replace(program, instructions=tuple(broken), stream=_encode(tuple(broken), program.config, rng))


def _differs(program: Program, expected) -> bool:
    for order in range(12):
        try:
            _, image = program.run_on(FunctionalDevice(program.config, DRAM_BYTES, seed=order))
        except DeadlockError:
            return True
        if not np.array_equal(image, expected):
            return True
    return False
