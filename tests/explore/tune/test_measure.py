"""One trial: its cycles, its parts, what becomes of choices that are not safe, and the lower bound of all."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from tests.explore.tune.networks import LARGE, LAYERS, POOLING, SMALL, TARGET
from vdla.compiler.codegen.choose import simulated_cycles
from vdla.compiler.codegen.space import space_of
from vdla.compiler.ir.nodes import IrError
from vdla.compiler.tasks.base import Choice
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.explore.tune import measure
from vdla.explore.tune.measure import (
    Measured,
    Measuring,
    Start,
    Started,
    Trial,
    bytes_of,
    lower_bound,
    stream_of,
    verify_alone,
)
from vdla.hw.spec.errors import ProgramError
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import UOP_TENSOR, Stream
from vdla.sim.decoded import decode_stream

JOB = Measuring(TARGET)
SUM = ElementsTask(Elements.ADD, 64, (3, 4))


@pytest.mark.parametrize("task", LAYERS, ids=lambda task: type(task).__name__)
def test_a_trial_has_the_cycles_that_the_compiler_simulates(task):
    space = space_of(task, TARGET)
    for place in range(0, len(space), max(1, len(space) // 6)):
        result = JOB.measure(Trial(7, task, place, space.choice(place)))
        assert (result.number, result.status) == (7, "ok")
        assert result.cycles == simulated_cycles(task, space.choice(place), TARGET)
        assert min(result.lowering, result.verification, result.simulation) > 0
        assert result.seconds == result.lowering + result.verification + result.simulation


def test_a_start_has_the_default_choice_and_a_bound():
    first = JOB.measure(Start(3, LARGE))
    assert isinstance(first, Started)
    assert first.measured.cycles == simulated_cycles(LARGE, first.choice, TARGET)
    assert 0 < first.bound < first.measured.cycles
    known = JOB.measure(Start(3, LARGE, first.choice, first.measured.cycles))
    assert (known.choice, known.bound, known.measured.cycles) == (
        first.choice,
        first.bound,
        first.measured.cycles,
    )
    assert known.measured.simulation == 0


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (IrError("it does\nnot fit"), "it does not fit"),
        (MemoryError(), "MemoryError"),
        (KeyError("x"), "internal error: 'x'"),
    ],
)
def test_what_fails_is_a_status_and_no_error(monkeypatch, error, status):
    def fails(*arguments):
        raise error

    monkeypatch.setattr(measure, "stream_of", fails)
    result = JOB.measure(Trial(1, LARGE, 0, Choice(2)))
    assert (result.cycles, result.status) == (None, status)
    assert result.verification == result.simulation == 0


def test_a_stream_with_a_token_too_few_is_not_verified(monkeypatch):
    choice = space_of(LARGE, TARGET).choice(0)
    stream = stream_of(LARGE, choice, TARGET.config)
    verify_alone(stream)
    broken = without_a_token(stream)
    with pytest.raises(ProgramError):
        verify_alone(broken)
    monkeypatch.setattr(measure, "stream_of", lambda *arguments: broken)
    result = JOB.measure(Trial(1, LARGE, 0, choice))
    assert result.cycles is None
    assert result.status != "ok"
    assert result.verification > 0 == result.simulation


def without_a_token(stream: Stream) -> Stream:
    """Return a stream of which the first instruction that waits for a token, and no load, does not."""
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), stream.config)
    waits = np.flatnonzero((stream.words[:, 0] >> np.uint64(3) & np.uint64(3)) != 0)
    assert len(program) == stream.count
    words = stream.words.copy()
    words[waits[0], 0] &= ~np.uint64(3 << 3)
    return Stream(stream.config, words, stream.tensors, stream.uops, stream.labels)


def test_what_kills_workers_fails_with_the_reason():
    trial = Trial(4, SMALL, 0, Choice(2))
    assert JOB.failed(trial, "died") == Measured(4, None, "died")
    started = JOB.failed(Start(5, SMALL), "died")
    assert (started.number, started.choice, started.measured.status) == (5, None, "died")


def test_job_trials_and_results_can_be_sent():
    space = space_of(SMALL, TARGET)
    for message in (JOB, Trial(1, SMALL, 0, space.choice(0)), Start(0, SMALL), JOB.measure(Start(0, SMALL))):
        assert pickle.loads(pickle.dumps(message)) == message


def test_the_seconds_of_a_trial_are_those_of_its_parts(monkeypatch):
    clock = iter([100.0, 101.0, 103.0, 107.0])
    monkeypatch.setattr(measure, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    result = JOB.measure(Trial(1, SMALL, 0, space_of(SMALL, TARGET).choice(0)))
    assert (result.lowering, result.verification, result.simulation, result.seconds) == (1, 2, 4, 7)


@pytest.mark.parametrize("task", [LARGE, SMALL, POOLING, SUM], ids=lambda task: type(task).__name__)
@pytest.mark.parametrize("memory", [MemoryParameters(), MemoryParameters(cycles_per_beat=16)])
def test_no_choice_is_below_the_bound_and_all_have_the_same(task, memory):
    target = Target(TINY, memory)
    space = space_of(task, target)
    choices = [space.choice(place) for place in range(0, len(space), max(1, len(space) // 9))]
    bounds = {lower_bound(stream_of(task, choice, target.config), target) for choice in choices}
    (bound,) = bounds
    assert 1 < bound <= min(simulated_cycles(task, choice, target) for choice in choices)


def test_the_bound_is_that_of_the_array_or_of_the_bus():
    space = space_of(SMALL, Target(TINY))
    stream = stream_of(SMALL, space.choice(0), TINY)
    macs = 8 * 16 * 4 * 4
    assert lower_bound(stream, Target(TINY, MemoryParameters())) >= macs // TINY.macs_per_cycle
    slow, slower = (
        lower_bound(stream, Target(TINY, MemoryParameters(cycles_per_beat=beat))) for beat in (64, 128)
    )
    assert slower == pytest.approx(2 * slow, abs=2)


@pytest.mark.parametrize("seed", range(5))
def test_the_bytes_of_intervals_are_those_that_a_table_counts(seed):
    rng = np.random.default_rng(seed)
    begins = rng.integers(0, 400, 40)
    ends = begins + rng.integers(1, 30, 40)
    table = np.zeros(500, bool)
    for begin, end in zip(begins, ends, strict=True):
        table[begin:end] = True
    assert bytes_of(begins, ends) == table.sum()
    assert bytes_of(begins[:0], ends[:0]) == 0


def test_each_byte_of_each_tensor_counts_once():
    space = space_of(SUM, Target(TINY))
    stream = stream_of(SUM, space.choice(0), TINY)
    target = Target(TINY, MemoryParameters(cycles_per_beat=64))
    size, parameters = 64 * TINY.block_out, 4 * TINY.element_bytes(MemoryType.ACC)
    assert stream.tensors.keys() == {"A", "B", "Z", "P", UOP_TENSOR}
    assert lower_bound(stream, target) == np.ceil((3 * size + parameters) / target.bytes_per_cycle)
