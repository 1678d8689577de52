"""Quantities of a run that change at events: tokens, places in queues, and counters, at any cycle."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from vdla.explore.debug.recording import STEP_COUNTERS, Recording
from vdla.hw.spec.registers import COUNTED_STATES, UnitState, state_counter
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.sim.records import IntArray
from vdla.sim.timing.result import BEAT_COUNTERS, NEVER
from vdla.sim.timing.steps import StepRows

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
    """A counter that rises by 1 in some cycles, which are given as runs at equal distances.

    Attributes:
        firsts, lasts: int64[m]: the first and the last cycle of each run, in order; runs are disjoint.
        step: cycles between two counted cycles of a run.
        before: int64[m], counted cycles in the runs before each.
    """

    firsts: IntArray
    lasts: IntArray
    step: int
    before: IntArray

    @classmethod
    def of(cls, firsts: IntArray, lasts: IntArray, step: int = 1) -> "Tally":
        """Return the counter of the cycles `first`, `first + step`, ... `last` of runs."""
        counts = (lasts - firsts) // step + 1
        return cls(firsts, lasts, step, np.cumsum(counts) - counts)

    def at(self, cycle: int) -> int:
        """Return how many cycles before `cycle` count."""
        place = int(np.searchsorted(self.firsts, cycle)) - 1
        if place < 0:
            return 0
        last = min(cycle - 1, int(self.lasts[place]))
        return int(self.before[place]) + (last - int(self.firsts[place])) // self.step + 1

    def reaches(self, value: int) -> IntArray:
        """Return int64[0 or 1]: the first cycle at whose start the count is `value`."""
        if not 0 < value <= (self.at(int(self.lasts[-1]) + 1) if len(self.lasts) else 0):
            return np.zeros(0, np.int64)
        place = int(np.searchsorted(self.before, value)) - 1
        return np.array([self.firsts[place] + (value - 1 - self.before[place]) * self.step + 1], np.int64)

    def uncounted(self, number: int) -> int:
        """Return the `number`-th cycle from 0 on that does not count; `step` must be 1."""
        run = int(np.searchsorted(self.firsts - self.before, number)) - 1
        counted = int(self.before[run] + self.lasts[run] - self.firsts[run] + 1) if run >= 0 else 0
        return number - 1 + counted


@dataclass(frozen=True, eq=False)
class StepTally:
    """A counter of steps, each of which counts in the cycle of its last slot.

    An instruction that starts in cycle s has the slots of the cycles from s + 1 on, but for slots that it
    lends to the store unit.

    Attributes:
        started: int64[m], ascending: the cycles in which the instructions start.
        rows: by instruction, the slots that issue its steps.
        before: int64[m + 1], the steps of the instructions before each, and of all.
        lent: the cycles whose slots are lent.
    """

    started: IntArray
    rows: StepRows
    before: IntArray
    lent: Tally

    def at(self, cycle: int) -> int:
        """Return the steps issued in the cycles before `cycle`."""
        place = int(np.searchsorted(self.started, cycle)) - 1
        if place < 0:
            return 0
        begin, steps = int(self.started[place]) + 1, int(self.before[place + 1] - self.before[place])
        slots = cycle - begin - (self.lent.at(cycle) - self.lent.at(begin))
        return int(self.before[place]) + min(steps, int(self._rows(place).issued(slots)))

    def reaches(self, value: int) -> IntArray:
        """Return int64[0 or 1]: the first cycle at whose start the count is `value`."""
        if not 0 < value <= self.before[-1]:
            return np.zeros(0, np.int64)
        place = int(np.searchsorted(self.before, value)) - 1
        begin, slots = self.started[place] + 1, self._rows(place).slots_until(value - self.before[place])
        return np.array([self.lent.uncounted(int(begin - self.lent.at(begin) + slots)) + 1], np.int64)

    def _rows(self, place: int) -> StepRows:
        return StepRows(*(int(column[place]) for column in self.rows))


Count: TypeAlias = Tally | StepTally


def level(raised: IntArray, lowered: IntArray) -> Level:
    """Return the quantity that events in the cycles `raised` and `lowered` change; a change shows in the
    cycle after."""
    moved = np.concatenate([raised, lowered]) + 1
    change = np.repeat([1, -1], [len(raised), len(lowered)])
    cycles, where = np.unique(moved, return_inverse=True)
    values = np.cumsum(np.bincount(where, change, len(cycles)).astype(np.int64))
    differs = np.diff(values, prepend=0) != 0
    return Level(cycles[differs], values[differs])


def token_levels(recording: Recording) -> tuple[tuple[Level, Level], ...]:
    """Return, by edge of TOKEN_EDGES, the tokens that its counter holds, and the places of the counter that
    are taken: by tokens, and by instructions that have started and will push a token."""
    timing, levels = recording.timing, []
    for edge in range(len(TOKEN_EDGES)):
        pushing, popping = recording.edge_users(edge)
        popped = recording.happened(timing.started, popping)
        held = level(recording.happened(timing.retired, pushing), popped)
        levels.append((held, level(recording.happened(timing.started, pushing), popped)))
    return tuple(levels)


def queue_levels(recording: Recording) -> tuple[Level, ...]:
    """Return, by unit, the instructions in its queue."""
    timing = recording.timing
    return tuple(
        level(recording.happened(timing.dispatched, queue), recording.happened(timing.started, queue))
        for queue in recording.queued
    )


def counter_levels(recording: Recording) -> Mapping[str, Count]:
    """Return the performance counters, by the names of the registers: the states of the units, beats, and
    steps. Each counts in the cycle in which the register of the hardware does."""
    counters: dict[str, Count] = {
        state_counter(unit, state): _tally(recording, unit, state)
        for unit in Unit
        for state in COUNTED_STATES
    }
    counters |= {name: _beat_tally(recording, place) for place, name in enumerate(BEAT_COUNTERS)}
    return counters | {name: _step_tally(recording, name) for name in STEP_COUNTERS}


def _tally(recording: Recording, unit: Unit, state: UnitState) -> Tally:
    spans = recording.states[unit]
    spans = spans[spans["state"] == STATES.index(state)]
    return Tally.of(spans["begin"], spans["end"] - 1)


def _beat_tally(recording: Recording, counter: int) -> Tally:
    runs = recording.beat_runs[recording.beat_runs["counter"] == counter]
    return Tally.of(runs["first"], runs["last"], recording.memory.cycles_per_beat)


def _step_tally(recording: Recording, counter: str) -> StepTally:
    stepping = recording.stepping
    counted = (stepping.counter == STEP_COUNTERS.index(counter)) & (recording.timing.started != NEVER)
    rows = StepRows(*(column[counted] for column in stepping.rows))
    before = np.append(0, np.cumsum(stepping.steps[counted]))
    lent = Tally.of(recording.lent_runs["first"], recording.lent_runs["last"])
    return StepTally(recording.timing.started[counted], rows, before, lent)
