"""What each unit's cycles count as: sums and log agree with each other and with the times of instructions."""

import numpy as np
import pytest

from tests.sim.timing.test_simulate import random_decoded
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.registers import COUNTERS, UnitState
from vdla.hw.spec.units import Unit
from vdla.sim.timing.result import NEVER, Timing
from vdla.sim.timing.simulate import simulate

ORDER = tuple(UnitState)
MEMORIES = (MemoryParameters(), MemoryParameters(3, 2, 2))
SEEDS = range(8)


@pytest.fixture(params=[(seed, memory) for seed in SEEDS for memory in MEMORIES], ids=str)
def timing(request) -> Timing:
    seed, memory = request.param
    return simulate(random_decoded(seed), memory, log=True)


def head(timing: Timing, unit: Unit, cycle: int) -> int:
    """Return the instruction at the head of a unit's queue at the start of a cycle; -1: it is empty."""
    own = np.flatnonzero((timing.program.unit == unit) & (timing.dispatched != NEVER))
    waiting = own[timing.started[own] >= cycle]
    return int(waiting[0]) if waiting.size and timing.dispatched[waiting[0]] < cycle else -1


def test_the_states_of_a_unit_add_up_to_the_run(timing):
    assert set(timing.counters) == set(COUNTERS)
    for unit in Unit:
        states = timing.states(unit)
        assert sum(states.values()) == timing.cycles
        spans = timing.log.spans[timing.log.spans["unit"] == unit]
        assert spans["begin"][0] == 1
        assert spans["end"][-1] == timing.cycles
        np.testing.assert_array_equal(spans["begin"][1:], spans["end"][:-1])
        logged = np.bincount(spans["state"], spans["end"] - spans["begin"], len(ORDER)).astype(int)
        logged[ORDER.index(UnitState.IDLE)] += 1  # the cycle in which start is accepted
        assert dict(zip(ORDER, logged.tolist(), strict=True)) == states


def test_a_span_names_the_instruction_at_the_queue_s_head_and_ends_where_that_or_the_state_changes(timing):
    for unit in Unit:
        spans = timing.log.spans[timing.log.spans["unit"] == unit]
        for _, state, instruction, begin, end in spans.tolist():
            assert {head(timing, unit, cycle) for cycle in (begin, end - 1)} == {instruction}, (
                unit,
                state,
                begin,
            )
        same = (spans["state"][1:] == spans["state"][:-1]) & (
            spans["instruction"][1:] == spans["instruction"][:-1]
        )
        assert not same.any()
