"""The events of a run as numbers: of each instruction and of each burst, with the cycles in which they come.

An instruction is queued, starts and retires. A burst is asked for, accepted, and moves its first and its last
beat. A run begins and ends. `NOTHING` stands for an event that the stream does not contain, such as the push
of a missing token.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from vdla.explore.debug.recording import NONE, Recording
from vdla.sim.records import IntArray
from vdla.sim.timing.result import NEVER


class EventKind(IntEnum):
    """The kinds of events, in the order of their numbers."""

    QUEUED = 0
    STARTED = 1
    RETIRED = 2
    ASKED = 3
    ACCEPTED = 4
    FIRST = 5
    LAST = 6
    BEGIN = 7
    END = 8
    NOTHING = 9

    @property
    def of_burst(self) -> bool:
        """Whether it is an event of a burst."""
        return EventKind.ASKED <= self <= EventKind.LAST

    @property
    def of_instruction(self) -> bool:
        """Whether it is an event of an instruction."""
        return self <= EventKind.RETIRED


WORDS = {
    EventKind.QUEUED: "enters its queue",
    EventKind.STARTED: "starts",
    EventKind.RETIRED: "retires",
    EventKind.ASKED: "is requested",
    EventKind.ACCEPTED: "is accepted by memory",
    EventKind.FIRST: "moves its first beat",
    EventKind.LAST: "moves its last beat",
    EventKind.BEGIN: "the run begins",
    EventKind.END: "the run ends",
    EventKind.NOTHING: "no instruction of the stream does this",
}


@dataclass(frozen=True, slots=True)
class Event:
    """An event.

    Attributes:
        instruction: of the event, or of the burst; NONE for fetch and for the run.
        burst: NONE where the event is not of a burst.
        cycle: NEVER where the event does not come.
    """

    kind: EventKind
    instruction: int
    burst: int
    cycle: int


@dataclass(frozen=True, eq=False)
class EventColumns:
    """All events of a run, kind by kind: within a kind in the order of instructions, or of bursts."""

    recording: Recording

    @cached_property
    def bases(self) -> tuple[int, ...]:
        """The number of the first event of each kind, and behind them the number of events."""
        instructions, bursts = len(self.recording), len(self.recording.bursts)
        sizes = [
            instructions if kind.of_instruction else bursts if kind.of_burst else 1 for kind in EventKind
        ]
        return tuple(np.concatenate([[0], np.cumsum(sizes)]).tolist())

    @cached_property
    def cycles(self) -> IntArray:
        """int64[events]: the cycle of each event; NEVER where it does not come."""
        timing, bursts = self.recording.timing, self.recording.bursts
        moved = [np.where(bursts[name] > 0, bursts[name], NEVER) for name in ("first", "last")]
        run = np.array([0, timing.cycles, NEVER], np.int64)
        times = timing.dispatched, timing.started, timing.retired
        return np.concatenate([*times, bursts["taken"], bursts["accepted"], *moved, run])

    def number(self, kind: EventKind, place: int = 0) -> int:
        """Return the number of an event of an instruction or a burst."""
        return self.bases[kind] + place

    def numbers(self, kind: EventKind, places: IntArray) -> IntArray:
        """Return int64[...]: the numbers of events of a kind; NONE where the place is NONE."""
        return np.where(places >= 0, places + self.bases[kind], NONE)

    def of(self, kind: EventKind) -> IntArray:
        """Return int64[...]: the cycles of the events of a kind."""
        return self.cycles[self.bases[kind] : self.bases[kind + 1]]

    def event(self, number: int) -> Event:
        """Return the event of a number."""
        kind = EventKind(int(np.searchsorted(self.bases, number, "right")) - 1)
        place, cycle = number - self.bases[kind], int(self.cycles[number])
        if kind.of_burst:
            return Event(kind, int(self.recording.bursts["instruction"][place]), place, cycle)
        return Event(kind, place if kind.of_instruction else NONE, NONE, cycle)
