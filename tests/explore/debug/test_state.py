"""The state at a cycle equals that of the cycle simulator stopped there."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.explore.debug.programs import ENDING, STEPPING, STOPPED, Source, recording, source
from vdla.explore.debug.levels import STATES, Count, Tally
from vdla.explore.debug.recording import NO_COUNTER, NONE
from vdla.explore.debug.state import State, States
from vdla.hw.counters import ROUND
from vdla.hw.spec.registers import COUNTERS, OFFSETS, Fault, UnitState
from vdla.hw.spec.timing import COUNTER_READ_CYCLES, retire_stage
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.runtime.devices.rtl import Optimise, RtlDevice
from vdla.sim.timing.result import NEVER

MOMENTS = 60


def moments(name: str) -> list[int]:
    """Return cycles of a run in order: random cycles with the cycle after each, and the ends of the run."""
    last, pick = recording(name).timing.cycles, random.Random(name)
    chosen = [pick.randrange(1, last) for _ in range(MOMENTS)]
    return sorted({1, 2, last - 1, *chosen, *(cycle + 1 for cycle in chosen if cycle < last - 1)})


def stopped(name: str):
    """Yield each moment with the simulator's registers at the start of that cycle."""
    simulation = source(name).simulation()
    for cycle in moments(name):
        while simulation.cycle < cycle:
            simulation.advance(cycle)
        assert simulation.cycle == cycle
        yield cycle, simulation


def queues(simulation) -> list[list[int]]:
    dispatch = simulation.machine["dispatch"]
    return [simulation.queued[dispatch["head"][unit] : dispatch["tail"][unit]].tolist() for unit in Unit]


def working(simulation) -> list[list[int]]:
    """Return, by unit, the instructions that have started and not retired, by the simulator's times."""
    times, units = simulation.times, simulation.program.unit
    active = (times.started != NEVER) & (times.retired == NEVER)
    return [np.flatnonzero(active & (units == unit)).tolist() for unit in Unit]


@pytest.mark.parametrize("name", [*ENDING, *STOPPED])
def test_the_registers_are_those_of_the_simulator_stopped_there(name):
    states = States(recording(name))
    for cycle, simulation in stopped(name):
        state, machine = states.at(cycle), simulation.machine
        assert state.cycle == cycle
        assert [list(unit.queue) for unit in state.units] == queues(simulation)
        assert [list(unit.working) for unit in state.units] == working(simulation)
        assert [counter.held for counter in state.tokens] == machine["tokens"]["held"].tolist()
        assert [counter.taken for counter in state.tokens] == machine["tokens"]["pledged"].tolist()
        assert dict(state.counters) == simulation._counters()
        assert len(state.bursts) == machine["memory"]["level"] + machine["memory"]["offered"]
        following = int(machine["dispatch"]["following"])
        ended = machine["dispatch"]["ended"]
        assert state.dispatch.following == (NONE if ended else following) or (
            state.dispatch.following == NONE and following >= simulation.program.dispatched
        )


@pytest.mark.parametrize("name", [*ENDING, *STOPPED])
def test_what_a_unit_does_in_a_cycle_is_what_the_simulator_counts_there(name):
    states, before = States(recording(name)), (0, None)
    seen = set()
    for cycle, simulation in stopped(name):
        counted = simulation.machine["counts"]["states"].copy()
        if cycle == before[0] + 1 and before[1] is not None:
            done = counted - before[1]
            state = states.at(before[0])
            for unit in Unit:
                assert done[unit].sum() == 1
                assert state.units[unit].state is STATES[int(done[unit].argmax())]
            seen.add(before[0])
        before = cycle, counted
    assert len(seen) >= min(MOMENTS // 2, recording(name).timing.cycles // 4)


@pytest.mark.parametrize("name", [*ENDING, *STOPPED])
def test_the_counters_at_the_end_are_those_of_the_run(name):
    timing = recording(name).timing
    counters = States(recording(name)).at(timing.cycles).counters
    assert dict(counters) == dict(timing.counters)


@pytest.mark.parametrize("name", STEPPING)
def test_moments_lie_between_the_slots_of_instructions(name):
    inside = 0
    for cycle, simulation in stopped(name):
        compute = simulation.machine["compute"]
        inside += bool(compute["started"] + 1 < cycle <= compute["issue_last"])
    assert inside >= 20


@pytest.mark.parametrize("name", [*STEPPING, "conv3x3", "random 0"])
def test_steps_count_by_one_in_the_cycles_of_the_simulator(name):
    """At every cycle; `reaches` finds each of them."""
    run, simulation = recording(name), source(name).simulation()
    counters = {each: States(run).counters[each] for each in ("GEMM_STEPS", "ALU_STEPS")}
    before = dict.fromkeys(counters, 0)
    for cycle in range(1, run.timing.cycles + 1):
        while simulation.cycle < cycle:
            simulation.advance(cycle)
        expected = simulation._counters()
        for each, counter in counters.items():
            assert counter.at(cycle) == expected[each]
            if expected[each] != before[each]:
                before[each] += 1
                assert before[each] == expected[each]
                assert counter.reaches(before[each]).tolist() == [cycle]
    assert all(len(counter.reaches(before[each] + 1)) == 0 for each, counter in counters.items())


@pytest.mark.parametrize("name", [*ENDING, *STOPPED])
def test_each_instruction_lends_as_many_slots_as_it_retires_later(name):
    run = recording(name)
    lent = Tally.of(run.lent_runs["first"], run.lent_runs["last"])
    stage = retire_stage(run.program.config.operand_stages)
    for index in np.flatnonzero(run.timing.retired != NEVER):
        if run.stepping.counter[index] != NO_COUNTER:
            begin, end = int(run.timing.started[index]) + 1, int(run.timing.retired[index]) - stage
            assert lent.at(end) - lent.at(begin) == run.lent[index]
    assert lent.at(run.timing.cycles) == run.lent.sum()
    assert (run.program.config.acc_ports == 2) <= (not len(run.lent_runs))


def starved(state: State, unit: Unit) -> list[str]:
    return [str(edge) for edge in state.units[unit].lacks]


@pytest.mark.parametrize("name", [*ENDING, *STOPPED])
def test_a_unit_that_waits_for_tokens_or_room_names_the_edges(name):
    run = recording(name)
    states, depth = States(run), run.program.config.token_depth
    for cycle, _ in stopped(name):
        state = states.at(cycle)
        for view in state.units:
            held = {counter.edge: counter for counter in state.tokens}
            if view.state in (UnitState.TOKEN_PREV, UnitState.TOKEN_NEXT):
                assert view.lacks
                assert all(held[edge].held == 0 and edge.consumer is view.unit for edge in view.lacks)
            elif view.state is UnitState.ROOM:
                assert view.lacks
                assert all(held[edge].taken == depth and edge.producer is view.unit for edge in view.lacks)
            else:
                assert view.lacks == ()


def test_programs_reach_every_state():
    """Else the comparisons above would not see how the states differ."""
    seen = {
        STATES[state] for name in [*ENDING, *STOPPED] for state in recording(name).timing.log.spans["state"]
    }
    assert seen == set(UnitState)


def test_stopped_programs_end_with_their_faults():
    faults = {name: recording(name).timing.fault for name in STOPPED}
    assert faults == {
        "token missing": Fault.DEADLOCK,
        "cycle of waits": Fault.DEADLOCK,
        "queue full": Fault.DEADLOCK,
        "no room ever": Fault.DEADLOCK,
        "no finish": Fault.UNFINISHED,
        "invalid": Fault.INVALID_INSTRUCTION,
    }


def test_a_deadlock_shows_at_its_last_cycle():
    run = recording("cycle of waits")
    state = States(run).at(run.timing.cycles - 1)
    assert [str(edge) for view in state.units for edge in view.lacks] == ["compute->load", "load->compute"]
    assert [view.waiting for view in state.units] == [0, 1, NONE]
    assert [counter.edge for counter in state.tokens] == list(TOKEN_EDGES)


def test_a_full_queue_stops_dispatch():
    run = recording("queue full")
    state = States(run).at(run.timing.cycles - 1)
    assert (state.dispatch.following, state.dispatch.full) == (2, Unit.COMPUTE)
    assert state.dispatch.text == "waits for a place in the compute queue"
    assert len(state.units[Unit.COMPUTE].queue) == state.units[Unit.COMPUTE].depth == 2


def test_a_burst_passes_its_phases_in_order():
    states = States(recording("load strided"))
    seen: dict[str, list[str]] = {}
    for cycle in range(states.recording.timing.cycles):
        for burst in states.at(cycle).bursts:
            if burst.instruction != NONE and burst.phase not in (phases := seen.setdefault("all", [])):
                phases.append(burst.phase)
    assert seen["all"] == ["requested", "accepted", "moving"]


RTL_PROGRAMS = ("gemm", "conv3x3", "fuzz", "load strided", *STEPPING)
RTL_SLOW = ("conv1x1 slow", *(f"random {seed}" for seed in (0, 2, 3, 4, 5)))
"""Programs of different configurations, each of which is built for the RTL first."""
STREAM_ADDRESS, DRAM_BYTES = 1 << 20, 1 << 27
CYCLES_BETWEEN = 5  # two readings of a register of the RTL, on average


def readings(
    run: Source, counters: Mapping[str, Count], last: int, pick: random.Random
) -> Iterator[tuple[str, int, int, int]]:
    """Run a program on the RTL and yield, at random times before cycle `last`, the name of a counter, the
    phase of the round in which the RTL visits its counters, the cycles passed before the register of the
    counter was read, and its value. Many readings are of a counter that rises during the reading."""
    device = RtlDevice(run.program.config, DRAM_BYTES, run.memory, optimise=Optimise.BUILD)
    stream = np.ascontiguousarray(run.program.words).view(np.uint8).reshape(-1)
    device.dram[run.address : run.address + stream.size] = stream
    device._model.attach(device.dram)
    start = device._start(run.address, len(run.program))
    while True:
        device._model.poll(OFFSETS["STATUS"], 0, pick.randrange(1, 2 * CYCLES_BETWEEN))
        now = device._model.cycle
        begin, end = now - start, now - start + COUNTER_READ_CYCLES
        if begin >= last:
            return
        rising = [name for name, counter in counters.items() if counter.at(begin) < counter.at(end)]
        steps = [name for name in rising if name.endswith("_STEPS")]
        name = pick.choice(pick.choice([steps, rising, list(COUNTERS)]) or list(COUNTERS))
        yield name, now % ROUND, begin, device.read_register(name)


@pytest.mark.parametrize(
    "name", [*RTL_PROGRAMS, *(pytest.param(name, marks=pytest.mark.slow) for name in RTL_SLOW)]
)
def test_counters_are_those_that_the_rtl_holds_at_the_same_time(name):
    """A reading returns the value of a cycle within the bounds that `vdla.hw.counters` promises. The phase of
    the round alone decides the cycle, for all counters alike. A counter that is late or early by a cycle
    therefore agrees with no cycle."""
    run = replace(source(name), address=STREAM_ADDRESS)
    recorded, risen = run.recording(), Counter[str]()
    counters, last = States(recorded).counters, recorded.timing.cycles - COUNTER_READ_CYCLES - 1
    agree = [set(range(1, 9)) for _ in range(ROUND)]
    for name_read, phase, begin, value in readings(run, counters, last, random.Random(name)):
        counter = counters[name_read]
        agree[phase] &= {place for place in agree[phase] if counter.at(begin + place) == value}
        assert agree[phase], f"{name_read} is {value} in cycles {begin} to {begin + COUNTER_READ_CYCLES}"
        risen[name_read] += counter.at(begin + 1) < counter.at(begin + 8)
    if last > 1000:
        assert sum(len(places) == 1 for places in agree) > 3 * ROUND / 4
    if name in STEPPING:
        assert min(risen["GEMM_STEPS"], risen["ALU_STEPS"]) >= 5
