"""Chains of causes: from an event back through the events that it waited for, to a root."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from vdla.explore.debug.causes import Causes, causes_of
from vdla.explore.debug.conditions import NO_EDGE
from vdla.explore.debug.events import WORDS, Event, EventColumns, EventKind
from vdla.explore.debug.reasons import TEXTS, Reason
from vdla.explore.debug.recording import NONE, Recording
from vdla.hw.spec.units import TOKEN_EDGES, TokenEdge
from vdla.sim.timing.result import NEVER


@dataclass(frozen=True, slots=True)
class Link:
    """A step of a chain: an event, and the event that it waited for.

    Attributes:
        event: that waited.
        cause: the latest of the events that it had to wait for.
        edge: of the token; None where it waited for something else.
        cycles: from the cause to the event; 0 where the event never comes.
    """

    event: Event
    cause: Event
    reason: Reason
    edge: TokenEdge | None
    cycles: int

    @property
    def text(self) -> str:
        """What the event waited for, in words."""
        return TEXTS[self.reason] if self.edge is None else f"{TEXTS[self.reason]} {self.edge}"


@dataclass(frozen=True, slots=True)
class Chain:
    """The links from an event to a root, the event first.

    Attributes:
        event: that the chain explains.
        links: the first begins at `event`, and each begins where the link before ends.
        root: the event at which the chain ends. Nothing comes before it, or it is before the chain's bound,
            or the chain has met it already: a cycle of waits.
    """

    event: Event
    links: tuple[Link, ...]
    root: Event

    @property
    def cycles(self) -> int:
        """The cycles of all links."""
        return sum(link.cycles for link in self.links)

    @property
    def turns(self) -> bool:
        """Whether the chain is a cycle of waits."""
        return any(link.event == self.root for link in self.links)

    def by_reason(self) -> list[tuple[str, int, int]]:
        """Return what the events of the chain waited for, how many of them, and for how many cycles; the
        largest first."""
        totals: dict[str, tuple[int, int]] = {}
        for link in self.links:
            count, cycles = totals.get(link.text, (0, 0))
            totals[link.text] = count + 1, cycles + link.cycles
        rows = [(text, count, cycles) for text, (count, cycles) in totals.items()]
        return sorted(rows, key=lambda row: (-row[2], row[0]))

    def joined(self) -> tuple[Link, ...]:
        """Return the links, joined where consecutive links are between bursts of one instruction: each joined
        link leads from the latest of these events to the earliest, for the reason that costs most."""
        groups: list[list[Link]] = []
        for link in self.links:
            if groups and _joins(groups[-1][-1], link):
                groups[-1].append(link)
            else:
                groups.append([link])
        return tuple(map(_joined, groups))


def _joins(before: Link, link: Link) -> bool:
    bursts = before.event.kind.of_burst and link.event.kind.of_burst and link.cause.kind.of_burst
    return bursts and before.event.instruction == link.event.instruction == link.cause.instruction


def _joined(links: Iterable[Link]) -> Link:
    group = list(links)
    costs: dict[Reason, int] = {}
    for link in group:
        costs[link.reason] = costs.get(link.reason, 0) + link.cycles
    reason = max(costs, key=lambda each: costs[each])
    return Link(group[0].event, group[-1].cause, reason, group[0].edge, sum(link.cycles for link in group))


@dataclass(frozen=True, eq=False)
class Chains:
    """The chains of a run."""

    recording: Recording

    @cached_property
    def events(self) -> EventColumns:
        """The events of the run."""
        return EventColumns(self.recording)

    @cached_property
    def causes(self) -> Causes:
        """The cause of each event."""
        return causes_of(self.events)

    def chain(self, kind: EventKind, place: int = 0, since: int = NEVER) -> Chain:
        """Return the chain from an event to a root.

        Args:
            place: the instruction or the burst of the event.
            since: the chain ends at the first event that does not come after this cycle.
        """
        number, links = self.events.number(kind, place), []
        first = event = self.events.event(number)
        met = {number}
        while (cause := int(self.causes.cause[number])) != NONE:
            following = self.events.event(cause)
            links.append(self._link(number, event, following))
            number, event = cause, following
            if number in met or NEVER < event.cycle <= since:
                break
            met.add(number)
        return Chain(first, tuple(links), event)

    def _link(self, number: int, event: Event, cause: Event) -> Link:
        edge = int(self.causes.edge[number])
        cycles = event.cycle - cause.cycle if NEVER not in (event.cycle, cause.cycle) else 0
        reason = Reason(int(self.causes.reason[number]))
        return Link(event, cause, reason, TOKEN_EDGES[edge] if edge != NO_EDGE else None, cycles)


def event_text(event: Event) -> str:
    """Return what happens in an event, in words, without its cycle."""
    words = WORDS[event.kind]
    if event.kind.of_burst:
        owner = "fetch" if event.instruction == NONE else f"instruction {event.instruction}"
        return f"burst {event.burst} of {owner} {words}"
    return f"instruction {event.instruction} {words}" if event.instruction != NONE else words
