"""The state of a run at a cycle, as values, from the columns of a recording.

Registers have their values at the start of the cycle: what happens in a cycle shows in the next. The state of
a unit says what the unit does in the cycle.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vdla.explore.debug.levels import STATES, Count, Level, counter_levels, queue_levels, token_levels
from vdla.explore.debug.recording import NONE, Recording
from vdla.hw.spec.registers import UnitState
from vdla.hw.spec.timing import Client
from vdla.hw.spec.units import TOKEN_EDGES, TokenEdge, Unit
from vdla.sim.records import IntArray
from vdla.sim.trace.events import wait_text


@dataclass(frozen=True, slots=True)
class UnitView:
    """A unit at a cycle.

    Attributes:
        state: what the unit does in this cycle.
        working: instructions that have started and not retired, in the order of the stream.
        queue: instructions in its queue, the head first.
        depth: places of its queue.
        lacks: edges on which the head of the queue lacks a token, or room for a token.
    """

    unit: Unit
    state: UnitState
    working: tuple[int, ...]
    queue: tuple[int, ...]
    depth: int
    lacks: tuple[TokenEdge, ...]

    @property
    def head(self) -> int:
        """The instruction at the head of the queue; NONE where the queue is empty."""
        return self.queue[0] if self.queue else NONE

    @property
    def waits(self) -> bool:
        """Whether the unit waits for something in this cycle."""
        return self.state not in (UnitState.BUSY, UnitState.IDLE)

    @property
    def waiting(self) -> int:
        """The instruction that waits: the head of the queue, or the oldest in progress if it waits for
        memory; NONE where no instruction does."""
        if self.state is UnitState.MEMORY:
            return self.working[0] if self.working else NONE
        return self.head if self.waits else NONE

    @property
    def text(self) -> str:
        """What the unit does, in words."""
        if self.state is UnitState.IDLE:
            return "idle"
        if self.state is UnitState.ROOM or len(self.lacks) > 1:
            what = "room for a token" if self.state is UnitState.ROOM else "tokens"
            return f"waits for {what} {', '.join(map(str, self.lacks))}"
        return wait_text(self.unit, self.state)


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """The token counter of an edge.

    Attributes:
        held: tokens.
        taken: occupied places: of tokens, and of instructions that have started and will push a token.
        depth: places.
    """

    edge: TokenEdge
    held: int
    taken: int
    depth: int


@dataclass(frozen=True, slots=True)
class DispatchView:
    """Dispatch at a cycle.

    Attributes:
        following: the instruction that it moves next; NONE behind the last.
        moves: whether it moves that instruction in this cycle.
        full: the unit whose queue has no place for it; None where there is a place.
    """

    following: int
    moves: bool
    full: Unit | None

    @property
    def text(self) -> str:
        """What dispatch does, in words."""
        if self.following == NONE:
            return "has moved every instruction"
        if self.moves:
            return "moves it"
        if self.full is None:
            return "waits for fetch"
        return f"waits for a place in the {self.full.name.lower()} queue"


@dataclass(frozen=True, slots=True)
class BurstView:
    """A burst that the DMA has taken and whose last beat has not moved.

    Attributes:
        instruction: the LOAD or STORE; NONE for fetch.
        beats: of the burst.
        phase: "requested", "accepted" or "moving".
    """

    client: Client
    instruction: int
    beats: int
    phase: str


@dataclass(frozen=True, slots=True)
class State:
    """A run at a cycle.

    Attributes:
        units: load, compute and store unit.
        tokens: the four counters, in the order of TOKEN_EDGES.
        bursts: in flight, in the order in which memory serves them.
        layer: index of the layer that runs; NONE where none does.
        counters: performance counters by name, of the cycles before this cycle.
    """

    cycle: int
    units: tuple[UnitView, ...]
    tokens: tuple[TokenCounter, ...]
    dispatch: DispatchView
    bursts: tuple[BurstView, ...]
    layer: int
    counters: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class States:
    """The states of a run."""

    recording: Recording

    @cached_property
    def tokens(self) -> tuple[tuple[Level, Level], ...]:
        """By edge, tokens held and places taken."""
        return token_levels(self.recording)

    @cached_property
    def queues(self) -> tuple[Level, ...]:
        """By unit, instructions in its queue."""
        return queue_levels(self.recording)

    @cached_property
    def counters(self) -> Mapping[str, Count]:
        """Performance counters by name."""
        return counter_levels(self.recording)

    @cached_property
    def _passed(self) -> tuple[tuple[IntArray, IntArray], ...]:
        """By unit, the cycles in which its instructions enter the queue, and in which they start."""
        timing, happened = self.recording.timing, self.recording.happened
        return tuple(
            (happened(timing.dispatched, queue), happened(timing.started, queue))
            for queue in self.recording.queued
        )

    @cached_property
    def _worked(self) -> tuple[tuple[IntArray, IntArray], ...]:
        """By track, the cycles in which its instructions start, and in which they retire."""
        timing, happened = self.recording.timing, self.recording.happened
        return tuple(
            (happened(timing.started, track.instructions), happened(timing.retired, track.instructions))
            for track in self.recording.tracks
        )

    @cached_property
    def _dispatched(self) -> IntArray:
        return self.recording.happened(
            self.recording.timing.dispatched, np.arange(self.recording.program.dispatched)
        )

    def at(self, cycle: int) -> State:
        """Return the state at a cycle of the run, from 0 to its last."""
        units = tuple(self._unit(unit, cycle) for unit in Unit)
        return State(
            cycle,
            units,
            self._tokens(cycle),
            self._dispatch(cycle, units),
            tuple(self._bursts(cycle)),
            self.layer(cycle),
            {name: counter.at(cycle) for name, counter in self.counters.items()},
        )

    def layer(self, cycle: int) -> int:
        """Return the index of the layer that runs in a cycle; NONE where none does."""
        place = int(np.searchsorted(self._layer_begins, cycle, "right")) - 1
        return place if place >= 0 and cycle < self.recording.layers[place].end else NONE

    @cached_property
    def _layer_begins(self) -> IntArray:
        return np.array([layer.begin for layer in self.recording.layers], np.int64)

    def state_of(self, unit: Unit, cycle: int) -> UnitState:
        """Return what a unit does in a cycle."""
        spans = self.recording.states[unit]
        place = int(np.searchsorted(spans["begin"], cycle, "right")) - 1
        if place < 0 or cycle >= spans["end"][place]:
            return UnitState.IDLE
        return STATES[int(spans["state"][place])]

    def _unit(self, unit: Unit, cycle: int) -> UnitView:
        entered, left = (int(np.searchsorted(times, cycle)) for times in self._passed[unit])
        queue = tuple(self.recording.queued[unit][left:entered].tolist())
        state = self.state_of(unit, cycle)
        depth = self.recording.depths[unit]
        lacks = tuple(self._lacks(queue[0], state, cycle)) if queue else ()
        return UnitView(unit, state, tuple(self._working(unit, cycle)), queue, depth, lacks)

    def _working(self, unit: Unit, cycle: int) -> list[int]:
        working = []
        for track, times in zip(self.recording.tracks, self._worked, strict=True):
            if track.unit is unit:
                started, retired = (int(np.searchsorted(column, cycle)) for column in times)
                working += track.instructions[retired:started].tolist()
        return sorted(working)

    def _lacks(self, head: int, state: UnitState, cycle: int) -> Iterator[TokenEdge]:
        program = self.recording.program
        for number, edge in enumerate(TOKEN_EDGES):
            held, taken = self.tokens[number]
            if state in (UnitState.TOKEN_PREV, UnitState.TOKEN_NEXT):
                lacks = program.pops[head, number] and held.at(cycle) == 0
            else:
                full = state is UnitState.ROOM and taken.at(cycle) == program.config.token_depth
                lacks = full and program.pushes[head, number]
            if lacks:
                yield edge

    def _tokens(self, cycle: int) -> tuple[TokenCounter, ...]:
        depth = self.recording.program.config.token_depth
        return tuple(
            TokenCounter(edge, held.at(cycle), taken.at(cycle), depth)
            for edge, (held, taken) in zip(TOKEN_EDGES, self.tokens, strict=True)
        )

    def _dispatch(self, cycle: int, units: tuple[UnitView, ...]) -> DispatchView:
        following = int(np.searchsorted(self._dispatched, cycle))
        program = self.recording.program
        if following >= program.dispatched:
            return DispatchView(NONE, False, None)
        view = units[program.unit[following]]
        full = view.unit if len(view.queue) == view.depth else None
        moves = self.recording.timing.dispatched[following] == cycle
        return DispatchView(following, bool(moves), full)

    def _bursts(self, cycle: int) -> Iterator[BurstView]:
        bursts = self.recording.bursts
        first = int(np.searchsorted(bursts["last"], cycle))
        end = int(np.searchsorted(bursts["taken"], cycle))
        for burst in bursts[first:end]:
            phase = "requested" if burst["accepted"] >= cycle else "accepted"
            if burst["first"] < cycle:
                phase = "moving"
            client = Client(int(burst["client"]))
            yield BurstView(client, int(burst["instruction"]), int(burst["beats"]), phase)
