"""What lies in scratchpads, what it is called, and the slots that the store unit takes."""

import random

import numpy as np
import pytest

import vdla
from tests.cli.models import model
from tests.explore.debug.imaged import NAMES, contents, reference
from tests.explore.debug.planted import planted
from tests.explore.debug.programs import ENDING, recording
from vdla.explore.debug.contents import Contents
from vdla.explore.debug.launches import recordings_of
from vdla.explore.debug.recording import NONE
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.session.report import report
from vdla.sim.timing.result import NEVER
from vdla.sim.verify.columns import DRAM

MOMENTS = 12


@pytest.mark.parametrize("name", NAMES)
def test_each_element_holds_what_retired_last(name):
    memories, places = contents(name), reference(name)
    retired, pick = memories.recording.timing.retired, random.Random(name)
    for cycle in [pick.randrange(memories.recording.timing.cycles) for _ in range(MOMENTS)]:
        done = [index for index in range(len(places)) if NEVER < retired[index] < cycle]
        for memory in memories.scratchpads:
            expected = np.full(memories.recording.program.config.depth(memory), NONE)
            for index in sorted(done, key=lambda each: (retired[each], each)):
                expected[list(places[index].get((memory, True), ()))] = index
            np.testing.assert_array_equal(memories.writers(memory, cycle), expected)
            held = memories.held(memory, cycle)
            assert sum(each.end - each.begin for each in held) == np.count_nonzero(expected != NONE)
            for each in held:
                assert set(each.writers) == set(expected[each.begin : each.end].tolist())
                assert {memories.labels[writer] for writer in each.writers} == {each.label}


def test_labels_name_the_tensor_that_is_loaded_or_the_instruction_that_computes():
    memories = contents("conv3x3_d")
    assert memories.labels[27] == "segment 0x4001000"
    assert memories.labels[44] == "GEMM"
    texts = [touch.text for touch in memories.touched(27) if touch.memory == DRAM]
    assert texts == ["0x4001640..0x40016df, 5 rows at a distance of 160"] or texts[0].startswith("0x40")


def test_the_tensors_of_a_module_are_named_by_their_values():
    module = vdla.compile(model().SerializeToString(), "tiny")
    outcome = module.rehearse()
    recordings = recordings_of(module.plan, outcome, report(module.plan, outcome, "cycle"))
    for run, step in zip(recordings, module.plan.launches, strict=True):
        memories = Contents(run)
        names = {
            view.area for index in range(len(run)) for view in memories.touched(index) if view.memory == DRAM
        }
        assert "" not in names
        results = {layer.result.value for layer in step.layers if layer.result is not None}
        assert results | {pack.value for pack in step.packs} <= names
        for index in range(len(run)):
            layer = run.layer_numbers[index]
            for view in memories.touched(index):
                if view.memory == DRAM and view.writes:
                    assert view.area in (step.layers[layer].result.value, *step.layers[layer].scratch)


@pytest.mark.parametrize("name", ENDING)
def test_slots_are_lent_only_where_the_accumulators_have_one_port(name):
    run = recording(name)
    assert run.lent.min() >= 0
    if run.program.config.acc_ports > 1:
        assert run.lent.max() == 0


def test_the_stores_that_take_slots_are_named():
    memories = Contents(planted("A shared port of the accumulators").recording)
    timing = memories.recording.timing
    lending = np.flatnonzero(memories.recording.lent)
    assert len(lending) > 20
    for index in lending.tolist():
        issue = memories.issue(index)
        assert issue is not None
        assert issue.slots + issue.lent <= timing.retired[index] - timing.started[index]
        assert issue.stores
        assert all(timing.started[store] < timing.retired[index] for store in issue.stores)
    assert memories.issue(0) is None


def test_the_history_of_an_element_has_its_readers_and_writers():
    memories = contents("conv3x3_d")
    history = list(memories.history(MemoryType.INP, 1030))
    assert [(view.instruction, view.writes) for view in history][:4] == [
        (27, True),
        (30, False),
        (32, False),
        (34, False),
    ]
