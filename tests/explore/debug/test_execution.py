"""Values of elements equal the values of the readable reference, executed instruction by instruction."""

import random

import numpy as np
import pytest

import vdla
from tests.cli.models import model
from tests.explore.debug.imaged import contents
from tests.explore.debug.planted import product
from tests.explore.debug.programs import recording
from vdla.explore.debug.contents import Contents
from vdla.explore.debug.debugger import Debugger
from vdla.explore.debug.execution import executed_up_to, with_slack, written_by
from vdla.explore.debug.launches import compared_recordings, recordings_of
from vdla.explore.debug.recording import DebugError
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.module.plan import random_inputs
from vdla.runtime.session.report import report
from vdla.sim.reference import execute
from vdla.sim.scratchpads import Scratchpads
from vdla.sim.verify.columns import DRAM

NAMES = ("conv3x3_d", "gemm_vt2_d", "padinp_a_d")


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_that_each_writer_leaves(name):
    memories, pick = contents(name), random.Random(name)
    numbers = np.flatnonzero(memories.touches.writes).tolist()
    chosen = [pick.choice(numbers) for _ in range(12)]
    places = {
        (int(memories.touches.memory[number]), int(memories.touches.begin[number])) for number in chosen
    }
    expected = {place: [] for place in places}
    pads, dram = Scratchpads(memories.recording.program.config), with_slack(memories.recording.image.before)
    for index in range(memories.recording.program.dispatched):
        execute(memories.recording.program.instruction(index), pads, dram)
        for memory, place in places:
            if any(view.instruction == index and view.writes for view in memories.history(memory, place)):
                source = dram if memory == DRAM else getattr(pads, MemoryType(memory).name.lower())
                expected[memory, place].append((index, source[place : place + 1].tolist()))
    debugger = Debugger(memories.recording)
    for (memory, place), values in expected.items():
        assert [(index, value.tolist()) for index, value in debugger.values(memory, place)] == values


def test_a_program_is_executed_to_its_end_whatever_the_stops():
    gemm = product()
    run = gemm.run(gemm.stream)
    for stops in ([], [5], [40, 5, 5]):
        pads, dram = Scratchpads(run.program.config), with_slack(run.image.before)
        assert list(executed_up_to(run.program, pads, dram, stops)) == sorted(set(stops))
        np.testing.assert_array_equal(
            dram[: len(gemm.result)][gemm.at.out :][:1024], gemm.result[gemm.at.out :][:1024]
        )


def test_values_of_a_module_need_inputs():
    module = vdla.compile(model().SerializeToString(), "tiny")
    outcome = module.rehearse()
    plain = recordings_of(module.plan, outcome, report(module.plan, outcome, "cycle"))
    with pytest.raises(DebugError, match="was timed without inputs; run it with inputs"):
        list(Debugger(plain[0]).values(MemoryType.INP, 0))
    compared = compared_recordings(module.plan, random_inputs(module.plan.inputs))
    assert [run.image.differences for run in compared] == [()] * len(plain)
    values = list(Debugger(compared[0]).values(MemoryType.INP, 0))
    element_touches = Contents(compared[0]).touches.at(MemoryType.INP, 0)
    assert [index for index, _ in values] == element_touches.instruction[element_touches.writes].tolist()
    assert any(value.any() for _, value in values)


def test_too_many_values_are_left_out():
    memories = contents("gemm_vt2_d")
    written = written_by(memories, 1 << 22)
    assert len(written.values) > 1000
    assert len(written_by(memories, len(written.values)).values) == len(written.values)
    assert len(written_by(memories, len(written.values) - 1).values) == 0
    stopped = Contents(recording("token missing"))
    assert len(written_by(stopped, 1 << 22).values) == 0
