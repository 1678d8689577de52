"""Quantities of a run that change at events: tokens, places in queues, and counters, at any cycle."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vdla.explore.debug.recording import Recording
from vdla.hw.spec.footprint import FOOTPRINTS, stepping_forms
from vdla.hw.spec.registers import COUNTED_STATES, UnitState, state_counter
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.sim.records import IntArray
from vdla.sim.timing.result import NEVER

STATES = tuple(UnitState)


@dataclass(frozen=True, eq=False)
class Level:
    """A quantity that events raise and lower.

    Attributes:
        cycles: int64[m], ascending: from these cycles on it has other values.
        values: int64[m], the values from these cycles on; 0 before the first.
    """

    cycles: IntArray
    values: IntArray

    def at(self, cycle: int) -> int:
        """Return the value at the start of a cycle."""
        place = int(np.searchsorted(self.cycles, cycle, "right"))
        return int(self.values[place - 1]) if place else 0


@dataclass(frozen=True, eq=False)
class Tally:
    """The cycles that lie in spans, counted.

    Attributes:
        begins, ends: int64[m], disjoint spans [begin, end) in order.
        before: int64[m], cycles in the spans before each.
    """

    begins: IntArray
    ends: IntArray
    before: IntArray

    def at(self, cycle: int) -> int:
        """Return how many cycles before `cycle` lie in the spans."""
        place = int(np.searchsorted(self.begins, cycle)) - 1
        if place < 0:
            return 0
        return int(self.before[place]) + min(cycle, int(self.ends[place])) - int(self.begins[place])

    def reaches(self, value: int) -> IntArray:
        """Return int64[0 or 1]: the first cycle at whose start the count is `value`."""
        total = int(self.before[-1] + self.ends[-1] - self.begins[-1]) if len(self.begins) else 0
        if not 0 < value <= total:
            return np.zeros(0, np.int64)
        place = int(np.searchsorted(self.before, value)) - 1
        return np.array([self.begins[place] + value - self.before[place]], np.int64)


def level(raised: IntArray, lowered: IntArray, amounts: IntArray | int = 1) -> Level:
    """Return the quantity that events in the cycles `raised` and `lowered` change; a change shows in the
    cycle after.

    Args:
        amounts: of the raises.
    """
    moved = np.concatenate([raised, lowered]) + 1
    change = np.concatenate([np.broadcast_to(amounts, raised.shape), np.full(len(lowered), -1)])
    cycles, where = np.unique(moved, return_inverse=True)
    values = np.cumsum(np.bincount(where, change, len(cycles)).astype(np.int64))
    differs = np.diff(values, prepend=0) != 0
    return Level(cycles[differs], values[differs])


def token_levels(recording: Recording) -> tuple[tuple[Level, Level], ...]:
    """Return, by edge of TOKEN_EDGES, the tokens that its counter holds, and the places of the counter that
    are taken: by tokens, and by instructions that have started and will push one."""
    timing, found = recording.timing, []
    for edge in range(len(TOKEN_EDGES)):
        pushing, popping = recording.edge_users(edge)
        popped = recording.happened(timing.started, popping)
        held = level(recording.happened(timing.retired, pushing), popped)
        found.append((held, level(recording.happened(timing.started, pushing), popped)))
    return tuple(found)


def queue_levels(recording: Recording) -> tuple[Level, ...]:
    """Return, by unit, the instructions in its queue."""
    timing = recording.timing
    return tuple(
        level(recording.happened(timing.dispatched, own), recording.happened(timing.started, own))
        for own in recording.queued
    )


def counter_levels(recording: Recording) -> Mapping[str, Level | Tally]:
    """Return the performance counters, by the names of the registers: those of the states of the units, and
    of steps, which count when their instruction starts.

    The counters of beats are missing: the records of a run do not have the cycles of single beats.
    """
    found: dict[str, Level | Tally] = {
        state_counter(unit, state): _tally(recording, unit, state)
        for unit in Unit
        for state in COUNTED_STATES
    }
    program, started = recording.program, recording.timing.started
    names = {FOOTPRINTS[form].counter for form in stepping_forms()}
    for name in sorted(name for name in names if name):
        cycles, steps = [], []
        for form in (form for form in stepping_forms() if FOOTPRINTS[form].counter == name):
            own = np.flatnonzero(program.opcode == form.opcode)
            ran = started[own] != NEVER
            cycles.append(started[own][ran])
            steps.append(program.steps(form)[ran])
        found[name] = level(np.concatenate(cycles), np.zeros(0, np.int64), np.concatenate(steps))
    return found


def _tally(recording: Recording, unit: Unit, state: UnitState) -> Tally:
    spans = recording.states[unit]
    spans = spans[spans["state"] == STATES.index(state)]
    lengths = spans["end"] - spans["begin"]
    return Tally(spans["begin"], spans["end"], np.cumsum(lengths) - lengths)
