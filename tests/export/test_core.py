"""Exported C on the RISC-V core of a simulated board gives the bytes of the kit's run."""

import ctypes
from dataclasses import dataclass, replace

import numpy as np
import pytest
import run_on_board
from exported import core
from exported.board import compiler, run
from exported.core import HERE, CoreAnswer, CoreProgram, segments

from tests.compiler.network.graphs import random_inputs
from tests.export.graphs import exported, graph_of
from vdla.api import Module
from vdla.boards.board_file import BoardFile
from vdla.boards.simulated import simulate
from vdla.boards.soc import CORE_MEMORY, CORE_MEMORY_BYTES
from vdla.hw.spec.presets import TINY
from vdla.runtime.devices.registry import device_of
from vdla.runtime.session.session import Outcome, Session

INPUTS = 2


@dataclass(frozen=True)
class Ran:
    """What a network did on the core.

    Attributes:
        early: the answer to a run before the initialisation.
        started: the answers to two initialisations.
        answers, expected: of each input, on the core and on the cycle device.
        possible: cycles of the accelerator, on the cycle device, for each phase of the refresh.
    """

    early: CoreAnswer
    started: tuple[CoreAnswer, CoreAnswer]
    answers: tuple[CoreAnswer, ...]
    expected: tuple[Outcome, ...]
    possible: set[int | None]


@pytest.fixture(scope="module")
def digits() -> tuple[Module, list[dict[str, np.ndarray]]]:
    return run_on_board.module_and_inputs("digits", "tiny", INPUTS)


@pytest.fixture(scope="module")
def ran(digits, tmp_path_factory) -> Ran:
    module, inputs = digits
    with CoreProgram(module.plan, tmp_path_factory.mktemp("c")) as program:
        early = program.run(inputs[0])
        started = program.init(), program.init()
        answers = tuple(program.run(values) for values in inputs)
        memory = program.memory
    session = module.session("cycle", memory)
    phases = (replace(memory, refresh_phase=phase) for phase in range(memory.refresh_interval))
    possible = {module.session("cycle", each).run(inputs[0]).cycles for each in phases}
    return Ran(early, started, answers, tuple(session.run(values) for values in inputs), possible)


@pytest.fixture(scope="module")
def file() -> BoardFile:
    simulation = simulate(TINY, core=True)
    simulation.close()
    return simulation.file


def test_digits_have_the_bytes_of_the_kits_run(ran):
    for answer, expected in zip(ran.answers, ran.expected, strict=True):
        assert answer.code == "VDLA_OK"
        assert answer.outputs["scores"].tobytes() == expected.outputs["scores"].tobytes()
    first, second = (answer.outputs["scores"] for answer in ran.answers)
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("title", ["several ends", "with the host between"])
def test_arrays_of_bytes_keep_their_neighbours(title, tmp_path):
    """Arrays of int8 begin and end within words of the bus."""
    plan, inputs = exported(title), random_inputs(graph_of(title), 1)
    assert any(each.dtype == np.int8 for each in inputs.values())
    with CoreProgram(plan, tmp_path) as program:
        assert program.init().code == "VDLA_OK"
        answer = program.run(inputs)
    expected = Session(device_of("functional", plan.target, plan.dram_bytes), plan).run(inputs)
    assert answer.code == "VDLA_OK"
    assert {name: array.tobytes() for name, array in answer.outputs.items()} == {
        name: array.tobytes() for name, array in expected.outputs.items()
    }


def test_cycles_of_the_accelerator_are_predicted_up_to_the_phase_of_the_refresh(ran):
    for answer in ran.answers:
        assert min(ran.possible) <= answer.cycles <= max(ran.possible)
    assert max(ran.possible) < 1.01 * min(ran.possible)


def test_the_core_works_beside_the_accelerator(ran):
    assert all(answer.core_cycles > answer.cycles > 0 for answer in ran.answers)


def test_errors_of_the_driver_reach_the_host(ran):
    assert ran.early.code == "VDLA_ERROR_NOT_READY"
    assert [answer.code for answer in ran.started] == ["VDLA_OK", "VDLA_OK"]


def test_code_is_in_the_memory_of_the_core_and_streams_are_in_dram(digits, file, tmp_path):
    module, _ = digits
    program = core.build(module.plan, tmp_path, file).read_bytes()
    dram = range(file.map.memory, file.map.memory + file.map.memory_bytes)
    parts = {True: 0, False: 0}
    for address, data in segments(program):
        parts[address in dram] += len(data)
        assert address in dram or CORE_MEMORY <= address < CORE_MEMORY + CORE_MEMORY_BYTES - len(data)
    assert parts[True] > sum(stream.words.nbytes for stream in module.plan.streams.values())
    assert 4000 < parts[False] < CORE_MEMORY_BYTES


def test_a_program_without_room_in_the_core_is_refused(digits, file, tmp_path, monkeypatch):
    monkeypatch.setattr(core, "CORE_MEMORY_BYTES", 1 << 12)
    with pytest.raises(RuntimeError, match="will not fit in region 'CORE'"):
        core.build(digits[0].plan, tmp_path, file)


def test_a_core_that_does_not_answer_is_an_error(digits, tmp_path, monkeypatch):
    monkeypatch.setattr(core, "SECONDS", 0.0)
    with (
        CoreProgram(digits[0].plan, tmp_path) as program,
        pytest.raises(RuntimeError, match=r"the core has not ended command 1 in 0 s; .* raise SECONDS in"),
    ):
        program.init()


def test_rintf_rounds_as_ieee_754_says(tmp_path):
    library = tmp_path / "rounding.so"
    options = ["-O2", "-shared", "-fPIC", "-Drintf=rounded", "-ffp-contract=off"]
    run([*compiler(), *options, "-o", library, HERE / "rintf.c"])
    rounded = ctypes.CDLL(str(library)).rounded
    rounded.argtypes, rounded.restype = [ctypes.c_float], ctypes.c_float
    halves = np.arange(-40, 41, dtype=np.float32) / 4
    large = np.float32(1 << 22) + np.arange(-5, 6, dtype=np.float32) / 2
    bits = np.random.default_rng(5).integers(0, 1 << 32, 2000, np.uint32).view(np.float32)
    limits = np.array([1 << 23, -(1 << 24) + 1, np.inf, -np.inf, np.nan, -0.0, 1e-40], np.float32)
    values = np.concatenate([halves, large, -large, bits, limits])
    actual = np.array([rounded(value) for value in values], np.float32)
    with np.errstate(invalid="ignore"):  # signalling NaN
        np.testing.assert_array_equal(actual, np.rint(values))
    numbers = ~np.isnan(values)
    np.testing.assert_array_equal(np.signbit(actual[numbers]), np.signbit(values[numbers]))
