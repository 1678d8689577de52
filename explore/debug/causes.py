"""The cause of each event of a run: the event of the condition that is met last.

An event may come later than all of its conditions. The unit or memory then takes the rest of the time, and
the event of the condition that is met last is still the cause. Dispatch and starts are
exceptions: there, the state of the unit tells what the unit did.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vdla.explore.debug.conditions import NO_EDGE, conditions, earliest
from vdla.explore.debug.events import EventColumns, EventKind
from vdla.explore.debug.reasons import Reason
from vdla.explore.debug.recording import NONE, Track
from vdla.hw.spec.registers import UnitState
from vdla.hw.spec.timing import Client
from vdla.hw.spec.units import Unit
from vdla.sim.records import IntArray
from vdla.sim.timing.result import NEVER

CLIENTS = {Unit.LOAD: Client.LOAD, Unit.COMPUTE: Client.COMPUTE, Unit.STORE: Client.STORE}
MEMORY = tuple(UnitState).index(UnitState.MEMORY)


@dataclass(frozen=True, eq=False)
class Causes:
    """The cause of each event.

    Attributes:
        cause: int32[events], the number of the event; NONE for a root.
        reason: uint8[events], a Reason.
        edge: int8[events], index in TOKEN_EDGES; NO_EDGE where the reason is not a token.
    """

    cause: IntArray
    reason: IntArray
    edge: IntArray


def causes_of(events: EventColumns) -> Causes:
    """Return the causes of all events of a run."""
    choices = [_queued(events), _started(events), *(_plain(events, kind) for kind in _PLAIN)]
    choices += [_first_beats(events), _plain(events, EventKind.LAST), *_run(events)]
    columns = [np.concatenate(parts) for parts in zip(*choices, strict=True)]
    kinds = (np.int32, np.uint8, np.int8)
    return Causes(*(column.astype(kind) for column, kind in zip(columns, kinds, strict=True)))


_PLAIN = (EventKind.RETIRED, EventKind.ASKED, EventKind.ACCEPTED)


@dataclass(frozen=True, eq=False)
class _Choice:
    """The causes of the events of a kind, while they are determined.

    Attributes:
        cause, reason, edge: int64[k], as in `Causes`.
        late: int64[...], places of the events that come later than every condition asks for.
    """

    cause: IntArray
    reason: IntArray
    edge: IntArray
    late: IntArray

    def __iter__(self) -> Iterator[IntArray]:
        return iter((self.cause, self.reason, self.edge))

    def put(self, places: IntArray, cause: IntArray, reason: Reason) -> None:
        """Replace the causes of some events; NONE among the new causes keeps the old cause."""
        there = cause != NONE
        self.cause[places[there]] = cause[there]
        self.reason[places[there]], self.edge[places[there]] = reason, NO_EDGE


def _plain(events: EventColumns, kind: EventKind) -> _Choice:
    """Return, for each event of a kind, the condition that is met last."""
    cycles = events.of(kind)
    cause, latest = np.full(len(cycles), NONE, np.int64), np.full(len(cycles), -1, np.int64)
    reason, edge = np.full(len(cycles), Reason.ROOT, np.int64), np.full(len(cycles), NO_EDGE, np.int64)
    for condition in conditions(events, kind):
        allowed = earliest(events, condition)
        later = ((cycles == NEVER) | (allowed <= cycles)) & (allowed > latest)
        latest[later] = allowed[later]
        cause[later] = condition.cause[later]
        reason[later], edge[later] = condition.reason, condition.edge
    return _Choice(cause, reason, edge, np.flatnonzero((cycles != NEVER) & (latest < cycles)))


def _queued(events: EventColumns) -> _Choice:
    """Return the causes of dispatch. If neither order nor places delay an instruction, fetch does."""
    choice = _plain(events, EventKind.QUEUED)
    beats = _latest_beats(events, Client.FETCH, events.of(EventKind.QUEUED)[choice.late])
    choice.put(choice.late, beats, Reason.FETCH)
    return choice


def _started(events: EventColumns) -> _Choice:
    """Return the causes of starts. If no condition explains the cycle, the unit worked on the instruction
    before, or waited for memory."""
    choice = _plain(events, EventKind.STARTED)
    recording, started = events.recording, events.of(EventKind.STARTED)
    for unit in Unit:
        instructions = choice.late[recording.program.unit[choice.late] == unit]
        if not len(instructions):
            continue
        before = Track(unit, False, recording.queued[unit]).before(len(recording))[instructions]
        choice.put(instructions, events.numbers(EventKind.STARTED, before), Reason.UNIT)
        spans = recording.states[unit]
        span = np.searchsorted(spans["begin"], started[instructions] - 1, "right") - 1
        instructions = instructions[spans["state"][span] == MEMORY]
        choice.put(instructions, _latest_beats(events, CLIENTS[unit], started[instructions]), Reason.DATA)
    return choice


def _latest_beats(events: EventColumns, client: Client, before: IntArray) -> IntArray:
    """Return int64[k]: the latest event before each cycle in which a burst of `client` moves its first or its
    last beat; NONE where there is none."""
    bursts = np.flatnonzero(events.recording.bursts["client"] == client)
    beats, cycle = np.full(len(before), NONE, np.int64), np.full(len(before), -1, np.int64)
    for kind in (EventKind.FIRST, EventKind.LAST):
        at = events.of(kind)[bursts]
        moved, at = bursts[at != NEVER], at[at != NEVER]
        place = np.searchsorted(at, before) - 1
        there = np.flatnonzero(place >= 0)
        there = there[at[place[there]] >= cycle[there]]
        beats[there] = events.numbers(kind, moved[place[there]])
        cycle[there] = at[place[there]]
    return beats


def _first_beats(events: EventColumns) -> _Choice:
    """Return the causes of first beats. If the data path was free and the latency over, the client did not
    take the beats before."""
    choice = _plain(events, EventKind.FIRST)
    choice.reason[choice.late] = Reason.BACK_PRESSURE
    return choice


def _run(events: EventColumns) -> Iterator[_Choice]:
    """Yield the causes of the run's begin, of its end and of what never happens."""
    root, none = np.full(1, NONE, np.int64), np.zeros(0, np.int64)
    begin = events.number(EventKind.BEGIN)
    latest = np.argmax(events.cycles[:begin], keepdims=True) if begin else np.full(1, begin, np.int64)
    for cause, reason in ((root, Reason.ROOT), (latest, Reason.CONTROL), (root, Reason.ROOT)):
        yield _Choice(cause, np.full(1, reason, np.int64), np.full(1, NO_EDGE, np.int64), none)
