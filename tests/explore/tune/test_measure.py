"""One trial: its cycles, its parts, and what becomes of choices that are not safe."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from tests.explore.tune.networks import LARGE, LAYERS, SMALL, TARGET
from vdla.compiler.codegen.choose import simulated_cycles
from vdla.compiler.codegen.space import space_of
from vdla.compiler.ir.nodes import IrError
from vdla.compiler.tasks.base import Choice
from vdla.explore.tune import measure
from vdla.explore.tune.measure import Measured, Measuring, Start, Started, Trial, stream_of, verify_alone
from vdla.hw.spec.errors import ProgramError
from vdla.runtime.stream.builder import Stream
from vdla.sim.decoded import decode_stream

JOB = Measuring(TARGET)


@pytest.mark.parametrize("task", LAYERS, ids=lambda task: type(task).__name__)
def test_a_trial_has_the_cycles_that_the_compiler_simulates(task):
    space = space_of(task, TARGET)
    for place in range(0, len(space), max(1, len(space) // 6)):
        found = JOB.measure(Trial(7, task, place, space.choice(place)))
        assert (found.number, found.status) == (7, "ok")
        assert found.cycles == simulated_cycles(task, space.choice(place), TARGET)
        assert min(found.lowering, found.verification, found.simulation) > 0
        assert found.seconds == found.lowering + found.verification + found.simulation


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
    found = JOB.measure(Trial(1, LARGE, 0, Choice(2)))
    assert (found.cycles, found.status) == (None, status)
    assert found.verification == found.simulation == 0


def test_a_stream_with_a_token_too_few_is_not_verified(monkeypatch):
    choice = space_of(LARGE, TARGET).choice(0)
    stream = stream_of(LARGE, choice, TARGET.config)
    verify_alone(stream)
    broken = without_a_token(stream)
    with pytest.raises(ProgramError):
        verify_alone(broken)
    monkeypatch.setattr(measure, "stream_of", lambda *arguments: broken)
    found = JOB.measure(Trial(1, LARGE, 0, choice))
    assert found.cycles is None
    assert found.status != "ok"
    assert found.verification > 0 == found.simulation


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
    for one in (JOB, Trial(1, SMALL, 0, space.choice(0)), Start(0, SMALL), JOB.measure(Start(0, SMALL))):
        assert pickle.loads(pickle.dumps(one)) == one


def test_the_seconds_of_a_trial_are_those_of_its_parts(monkeypatch):
    clock = iter([100.0, 101.0, 103.0, 107.0])
    monkeypatch.setattr(measure, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    found = JOB.measure(Trial(1, SMALL, 0, space_of(SMALL, TARGET).choice(0)))
    assert (found.lowering, found.verification, found.simulation, found.seconds) == (1, 2, 4, 7)
