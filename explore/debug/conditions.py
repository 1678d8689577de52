"""The conditions of the events of a run: what each event has to wait for at least.

A condition names, for each event of a kind, another event that has to come first, and the cycles that pass
after that event at least. docs/microarchitecture.md defines the conditions.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vdla.explore.debug.events import EventColumns, EventKind
from vdla.explore.debug.reasons import Reason
from vdla.explore.debug.recording import NONE, Recording, Track
from vdla.hw.spec.timing import BURSTS_FETCHED_AHEAD, LOADS_IN_PROGRESS, Client, retire_stage
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.sim.records import IntArray
from vdla.sim.timing.fetch import FETCH_PREPARES
from vdla.sim.timing.result import NEVER
from vdla.sim.timing.state import FAR

NO_EDGE = -1


class Condition(NamedTuple):
    """What events have to wait for.

    Attributes:
        cause: int64[k], by event of the kind: the number of the event that comes first, or NONE.
        delay: cycles from that event to the earliest cycle of the event; an integer, or int64[k].
        edge: index in TOKEN_EDGES, for tokens.
    """

    reason: Reason
    cause: IntArray
    delay: IntArray | int = 1
    edge: int = NO_EDGE


def conditions(events: EventColumns, kind: EventKind) -> list[Condition]:
    """Return the conditions of the events of a kind. Of two that are met in the same cycle, the first in the
    list is the cause."""
    return list(_CONDITIONS[kind](events))


def earliest(events: EventColumns, condition: Condition) -> IntArray:
    """Return int64[k]: the first cycle in which a condition allows each event; FAR where its cause never
    comes, and -1 where the event does not depend on it."""
    cycles = events.cycles[condition.cause]
    allowed = np.where(cycles == NEVER, FAR, cycles + condition.delay)
    return np.where(condition.cause == NONE, -1, allowed)


def _reached(events: EventColumns, condition: Condition) -> Condition:
    """Return a condition without the instructions that dispatch never reaches."""
    cause = condition.cause.copy()
    cause[events.recording.program.dispatched :] = NONE
    return condition._replace(cause=cause)


# Dispatch


def _queued_conditions(events: EventColumns) -> list[Condition]:
    recording = events.recording
    count, reached = len(recording), recording.program.dispatched
    first_stuck = int(np.count_nonzero(recording.timing.dispatched != NEVER))
    previous = np.minimum(np.arange(count) - 1, first_stuck)
    freeing = np.full(count, NONE, np.int64)
    for queue, depth in zip(recording.queued, recording.depths, strict=True):
        if len(queue) > depth:
            freeing[queue[depth:]] = queue[:-depth]
    behind = np.where(np.arange(count) >= reached, events.number(EventKind.END), NONE)
    return [
        Condition(Reason.ENDED, behind, FAR),
        _reached(events, Condition(Reason.ORDER, events.numbers(EventKind.QUEUED, previous))),
        _reached(events, Condition(Reason.PLACE, events.numbers(EventKind.STARTED, freeing))),
    ]


# Starts


def _started_conditions(events: EventColumns) -> list[Condition]:
    recording = events.recording
    behind = np.where(
        np.arange(len(recording)) >= recording.program.dispatched, events.number(EventKind.END), NONE
    )
    queued = events.numbers(EventKind.QUEUED, np.arange(len(recording)))
    return [
        Condition(Reason.ENDED, behind, FAR),
        *_token_conditions(events),
        *_unit_conditions(events),
        _reached(events, Condition(Reason.DISPATCH, queued)),
    ]


def _token_conditions(events: EventColumns) -> Iterable[Condition]:
    """Yield the conditions of tokens: the k-th pop of an edge takes the k-th push, and a push needs the pop
    that is `token_depth` places before it."""
    depth, count = events.recording.program.config.token_depth, len(events.recording)
    nothing = events.number(EventKind.NOTHING)
    for edge in range(len(TOKEN_EDGES)):
        pushing, popping = events.recording.edge_users(edge)
        given, freed = (np.full(count, NONE, np.int64) for _ in range(2))
        matched = min(len(pushing), len(popping))
        given[popping[:matched]] = events.numbers(EventKind.RETIRED, pushing[:matched])
        given[popping[matched:]] = nothing
        needing = pushing[depth:]
        freed[needing] = nothing
        freed[needing[: len(popping)]] = events.numbers(EventKind.STARTED, popping[: len(needing)])
        yield Condition(Reason.TOKEN, given, 1, edge)
        yield Condition(Reason.ROOM, freed, 1, edge)


def _unit_conditions(events: EventColumns) -> Iterable[Condition]:
    for track in events.recording.tracks:
        yield from _load_conditions(events, track) if track.loads else _step_conditions(events, track)


def _load_conditions(events: EventColumns, track: Track) -> Iterable[Condition]:
    """Yield what a load engine asks for: the last burst of the LOAD before is offered, and its queue has
    room."""
    count = len(events.recording)
    before, fourth = track.before(count), track.before(count, LOADS_IN_PROGRESS)
    third = track.before(count, LOADS_IN_PROGRESS - 1)
    bursts = own_bursts(events.recording)
    single = np.where(bursts.count[before] == 1, before, NONE)
    last_but_one = np.where((before != NONE) & (bursts.count[before] > 1), bursts.last_but_one[before], NONE)
    yield Condition(Reason.UNIT, events.numbers(EventKind.STARTED, before))
    yield Condition(Reason.REQUESTS, events.numbers(EventKind.STARTED, single), 2)
    yield Condition(Reason.REQUESTS, events.numbers(EventKind.ASKED, last_but_one))
    yield Condition(Reason.ENGINE, events.numbers(EventKind.STARTED, third), 2)
    yield Condition(Reason.ENGINE, events.numbers(EventKind.RETIRED, fourth))
    if track.unit is Unit.COMPUTE:
        yield from _compute_conditions(events, track.instructions, apart=True)


def _step_conditions(events: EventColumns, track: Track) -> Iterable[Condition]:
    """Yield what a STORE asks for, or a step of the compute unit: all LOADs before it have ended."""
    if track.unit is Unit.STORE:
        before = track.before(len(events.recording))
        yield Condition(Reason.UNIT, events.numbers(EventKind.STARTED, before), 2)
        return
    yield from _compute_conditions(events, track.instructions, apart=False)
    loads = _of_compute(events.recording, loads=True).latest(len(events.recording))
    waiting = _only(loads, track.instructions)
    yield Condition(Reason.ENGINE, events.numbers(EventKind.RETIRED, waiting))


def _of_compute(recording: Recording, *, loads: bool) -> Track:
    return next(track for track in recording.tracks if track.unit is Unit.COMPUTE and track.loads == loads)


def _only(values: IntArray, where: IntArray) -> IntArray:
    """Return the values at some places, and NONE elsewhere."""
    selected = np.full(len(values), NONE, np.int64)
    selected[where] = values[where]
    return selected


def _compute_conditions(events: EventColumns, instructions: IntArray, *, apart: bool) -> Iterable[Condition]:
    """Yield what every instruction of the compute unit asks for: the slots of the step before are issued.

    Args:
        instructions: of the compute unit.
        apart: some of them may start beside a step.
    """
    recording, timing = events.recording, events.recording.timing
    count = len(recording)
    unit = Track(Unit.COMPUTE, False, recording.queued[Unit.COMPUTE])
    yield Condition(Reason.UNIT, events.numbers(EventKind.STARTED, _only(unit.before(count), instructions)))
    steps = _only(_of_compute(recording, loads=False).latest(count), instructions)
    if apart:
        steps = np.where(recording.timed["beside"], NONE, steps)
    issued = timing.retired[steps] - timing.started[steps]
    issued = np.where(timing.retired[steps] == NEVER, 0, issued - _retire_stage(recording))
    for reason, issuing in _by_lent(recording, steps):
        yield Condition(reason, events.numbers(EventKind.STARTED, issuing), issued)


def _by_lent(recording: Recording, steps: IntArray) -> Iterable[tuple[Reason, IntArray]]:
    """Yield instructions whose slots are waited for. Instructions that lent slots to the store unit come
    apart."""
    lent = (steps != NONE) & (recording.lent[steps] > 0)
    yield Reason.ISSUE, np.where(lent, NONE, steps)
    yield Reason.LENT, np.where(lent, steps, NONE)


def _retire_stage(recording: Recording) -> int:
    return retire_stage(recording.program.config.operand_stages)


# Retirements


def _retired_conditions(events: EventColumns) -> list[Condition]:
    recording = events.recording
    bursts = own_bursts(recording)
    starts = events.numbers(EventKind.STARTED, np.arange(len(recording)))
    lent = recording.lent > 0
    return [
        Condition(Reason.DATA, events.numbers(EventKind.LAST, bursts.last)),
        *(_retires_behind(events, track) for track in recording.tracks if _engine(track)),
        *_pipeline_conditions(events),
        Condition(Reason.WORK, np.where(lent, NONE, starts)),
        Condition(Reason.LENT, np.where(lent, starts, NONE)),
    ]


def _engine(track: Track) -> bool:
    """Whether the track's instructions do not issue slots."""
    return track.loads or track.unit is Unit.STORE


def _retires_behind(events: EventColumns, track: Track) -> Condition:
    before = track.before(len(events.recording))
    return Condition(Reason.BEFORE, events.numbers(EventKind.RETIRED, before))


def _pipeline_conditions(events: EventColumns) -> Iterable[Condition]:
    """Yield what LOADs of the compute unit ask for that wait for slots in the pipeline."""
    recording = events.recording
    loads, steps = (_of_compute(recording, loads=of_loads) for of_loads in (True, False))
    before = _only(steps.latest(len(recording)), loads.instructions)
    ordered = np.where(recording.timed["ordered"], before, NONE)
    settles = np.where(recording.timed["settles"], before, NONE)
    yield Condition(Reason.PIPELINE, events.numbers(EventKind.RETIRED, ordered))
    delay = _retire_stage(recording) + 1
    yield Condition(Reason.PIPELINE, events.numbers(EventKind.STARTED, settles), delay)


# Memory


@dataclass(frozen=True, eq=False)
class OwnBursts:
    """The bursts of each instruction.

    Attributes:
        count: int64[n].
        last, last_but_one: int64[n], places among the bursts of the run; NONE where there is none.
    """

    count: IntArray
    last: IntArray
    last_but_one: IntArray


def own_bursts(recording: Recording) -> OwnBursts:
    """Return the bursts of each instruction of a run."""
    owner = recording.bursts["instruction"]
    places = np.flatnonzero(owner >= 0)
    last, last_but_one = (np.full(len(recording), NONE, np.int64) for _ in range(2))
    last[owner[places]] = places
    others = places[places != last[owner[places]]]
    last_but_one[owner[others]] = others
    return OwnBursts(np.bincount(owner[places], minlength=len(recording)), last, last_but_one)


def _asked_conditions(events: EventColumns) -> list[Condition]:
    """The request of a burst follows its instruction's start and the request before of the same client. The
    DMA takes a request when the request before leaves it, and as long as few enough reads are in flight."""
    recording = events.recording
    bursts, every = recording.bursts, np.arange(len(recording.bursts))
    fetches, delay = bursts["client"] == Client.FETCH, np.where(bursts["client"] == Client.STORE, 1, 2)
    owner, previous = bursts["instruction"], np.full(len(bursts), NONE, np.int64)
    for client in Client:
        client_bursts = np.flatnonzero(bursts["client"] == client)
        previous[client_bursts[1:]] = client_bursts[:-1]
    first = np.where(fetches & (previous == NONE), events.number(EventKind.BEGIN), NONE)
    return [
        Condition(Reason.CONTROL, first, FETCH_PREPARES + 1),
        Condition(Reason.ASKS, events.numbers(EventKind.STARTED, owner), delay),
        Condition(Reason.FETCHED_AHEAD, events.numbers(EventKind.QUEUED, _needed_by_fetch(recording))),
        Condition(Reason.ASKS, events.numbers(EventKind.ASKED, previous)),
        Condition(Reason.IN_FLIGHT, events.numbers(EventKind.LAST, _freeing_read(recording))),
        Condition(Reason.OTHERS, events.numbers(EventKind.ACCEPTED, every - 1), 0),
    ]


def _needed_by_fetch(recording: Recording) -> IntArray:
    """Return int64[m]: for each burst of fetch the last instruction that dispatch must have moved for the
    burst to have room. It is NONE if there is room from the start, and for bursts of other clients."""
    config, bursts = recording.program.config, recording.bursts
    needed = np.full(len(bursts), NONE, np.int64)
    fetches = np.flatnonzero(bursts["client"] == Client.FETCH)
    size = config.burst_bytes // config.instruction_bytes
    brought = bursts["beats"][fetches] * config.bus_bytes // config.instruction_bytes
    asked = np.cumsum(np.minimum(brought, size)) - np.minimum(brought, size)
    depth = BURSTS_FETCHED_AHEAD * config.burst_bytes // config.instruction_bytes
    needed[fetches] = np.clip(asked + size - depth - 1, NONE, len(recording) - 1)
    return needed


def _freeing_read(recording: Recording) -> IntArray:
    """Return int64[m]: for each read the read that has to end before, so that few enough are in flight."""
    freeing = np.full(len(recording.bursts), NONE, np.int64)
    reads = np.flatnonzero(recording.bursts["client"] != Client.STORE)
    most = recording.program.config.max_requests
    if len(reads) > most:
        freeing[reads[most:]] = reads[:-most]
    return freeing


def _accepted_conditions(events: EventColumns) -> list[Condition]:
    every = np.arange(len(events.recording.bursts))
    served = np.maximum(every - events.recording.memory.depth, NONE)
    return [
        Condition(Reason.IN_FLIGHT, events.numbers(EventKind.LAST, served)),
        Condition(Reason.ACCEPTS, events.numbers(EventKind.ASKED, every)),
    ]


def _first_conditions(events: EventColumns) -> list[Condition]:
    memory, bursts = events.recording.memory, events.recording.bursts
    every = np.arange(len(bursts))
    latency = np.where(bursts["client"] == Client.STORE, 1, memory.latency)
    return [
        Condition(Reason.DATA_PATH, events.numbers(EventKind.LAST, every - 1), memory.cycles_per_beat),
        Condition(Reason.LATENCY, events.numbers(EventKind.ACCEPTED, every), latency),
    ]


def _last_conditions(events: EventColumns) -> list[Condition]:
    memory, bursts = events.recording.memory, events.recording.bursts
    every = events.numbers(EventKind.FIRST, np.arange(len(bursts)))
    return [Condition(Reason.BEATS, every, (bursts["beats"] - 1) * memory.cycles_per_beat)]


_CONDITIONS: Mapping[EventKind, Callable[[EventColumns], list[Condition]]] = {
    EventKind.QUEUED: _queued_conditions,
    EventKind.STARTED: _started_conditions,
    EventKind.RETIRED: _retired_conditions,
    EventKind.ASKED: _asked_conditions,
    EventKind.ACCEPTED: _accepted_conditions,
    EventKind.FIRST: _first_conditions,
    EventKind.LAST: _last_conditions,
}
