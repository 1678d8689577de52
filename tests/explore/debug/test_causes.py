"""Causes: no condition is violated in any run, and every chain ends at a root and adds up."""

import numpy as np
import pytest

from tests.explore.debug.programs import ENDING, STOPPED, recording, source
from vdla.explore.debug import conditions as table
from vdla.explore.debug.causes import causes_of
from vdla.explore.debug.chains import Chains
from vdla.explore.debug.conditions import Condition, conditions, earliest
from vdla.explore.debug.events import EventColumns, EventKind
from vdla.explore.debug.reasons import TEXTS, Reason
from vdla.explore.debug.recording import NONE
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.sim.timing.result import NEVER
from vdla.sim.timing.state import FAR
from vdla.sim.trace.events import tokens

KINDS = tuple(kind for kind in EventKind if kind.of_instruction or kind.of_burst)
EVERY = [*ENDING, *STOPPED]
REACHED_IN_TIME = {EventKind.ACCEPTED}
"""Kinds whose conditions always tell the cycle of the event."""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", EVERY)
def test_no_event_comes_before_a_condition_allows_it(name, kind):
    events = EventColumns(recording(name))
    cycles = events.of(kind)
    for condition in conditions(events, kind):
        allowed = earliest(events, condition)
        early = np.flatnonzero((cycles != NEVER) & (allowed > cycles))
        assert early.tolist() == [], condition.reason.name


@pytest.mark.parametrize("name", EVERY)
def test_memory_accepts_a_request_as_soon_as_its_conditions_allow(name):
    events = EventColumns(recording(name))
    for kind in REACHED_IN_TIME:
        allowed = [earliest(events, condition) for condition in conditions(events, kind)]
        assert (np.max(allowed, axis=0) == events.of(kind)).all()


def test_a_condition_with_a_cycle_too_many_is_noticed(monkeypatch):
    """The comparison above would not pass if delays were wrong."""

    def later(events):
        return [each._replace(delay=each.delay + 1) for each in table._started_conditions(events)]

    monkeypatch.setitem(table._CONDITIONS, EventKind.STARTED, later)
    with pytest.raises(AssertionError):
        test_no_event_comes_before_a_condition_allows_it("conv3x3", EventKind.STARTED)


@pytest.mark.parametrize("name", EVERY)
def test_a_cause_comes_before_its_event(name):
    events = EventColumns(recording(name))
    cause, cycles = causes_of(events).cause, events.cycles
    there = np.flatnonzero((cause != NONE) & (cycles != NEVER))
    assert (cycles[cause[there]] != NEVER).all()
    assert (cycles[cause[there]] <= cycles[there]).all()


@pytest.mark.parametrize("name", EVERY)
def test_only_the_begin_and_what_never_happens_are_roots(name):
    events = EventColumns(recording(name))
    roots = np.flatnonzero(causes_of(events).cause == NONE)
    kinds = {events.event(int(root)).kind for root in roots}
    assert kinds == {EventKind.BEGIN, EventKind.NOTHING}


@pytest.mark.parametrize("name", ENDING)
def test_a_chain_ends_at_the_begin_of_the_run_and_its_cycles_add_up(name):
    run = recording(name)
    chains = Chains(run)
    for index in range(len(run)):
        for kind in (EventKind.QUEUED, EventKind.STARTED, EventKind.RETIRED):
            chain = chains.chain(kind, index)
            assert chain.root.kind is EventKind.BEGIN
            assert chain.cycles == chain.event.cycle
            assert [link.event for link in chain.links] == [
                chain.event,
                *[link.cause for link in chain.links[:-1]],
            ]
            assert sum(cycles for _, _, cycles in chain.by_reason()) == chain.cycles
            assert sum(count for _, count, _ in chain.by_reason()) == len(chain.links)


@pytest.mark.parametrize("name", ENDING)
def test_the_critical_path_of_a_run_takes_all_its_cycles(name):
    chain = Chains(recording(name)).chain(EventKind.END)
    assert chain.cycles == recording(name).timing.cycles
    assert sum(link.cycles for link in chain.joined()) == chain.cycles
    joined = chain.joined()
    assert [link.cause for link in joined[:-1]] == [link.event for link in joined[1:]]
    assert len(joined) <= len(chain.links)


@pytest.mark.parametrize("name", ENDING)
def test_a_start_that_waited_for_a_token_is_caused_by_its_push(name):
    """By the records alone: the unit waited for a token in the cycle before, and the token that the
    instruction popped last was pushed in that cycle."""
    run = recording(name)
    chains, timing = Chains(run), run.timing
    last: dict[int, tuple[int, int]] = {}
    for token in tokens(timing):
        pushed = int(timing.retired[token.producer])
        if pushed > last.get(token.consumer, (NEVER, 0))[0]:
            last[token.consumer] = pushed, token.producer
    for index, (pushed, producer) in last.items():
        waited = timing.started[index] == pushed + 1 > timing.dispatched[index] + 1
        if waited:
            link = chains.chain(EventKind.STARTED, index).links[0]
            assert link.reason is Reason.TOKEN
            assert timing.retired[link.cause.instruction] == timing.retired[producer]
            assert link.cause.kind is EventKind.RETIRED
            assert link.cycles == 1


def test_a_start_that_waited_for_room_is_caused_by_a_pop():
    run = recording("no room")
    links = [Chains(run).chain(EventKind.STARTED, index).links[0] for index in (2, 3)]
    assert [(link.reason, str(link.edge)) for link in links] == [(Reason.ROOM, "load->compute")] * 2
    assert [(link.cause.kind, link.cause.instruction) for link in links] == [
        (EventKind.STARTED, 4),
        (EventKind.STARTED, 5),
    ]


def test_a_full_queue_is_caused_by_the_start_that_frees_a_place():
    run = recording("conv3x3")
    reasons = causes_of(EventColumns(run)).reason[: len(run)]
    queued = run.queued[Unit.COMPUTE]
    placed = [index for index in queued[64:] if reasons[index] == Reason.PLACE]
    assert len(placed) > 50
    for index in placed:
        freed = queued[np.searchsorted(queued, index) - 64]
        assert run.timing.dispatched[index] == run.timing.started[freed] + 1


@pytest.mark.parametrize(
    ("name", "kind", "index", "reasons", "root", "turns"),
    [
        ("token missing", EventKind.STARTED, 1, ["a token load->compute"], EventKind.NOTHING, False),
        (
            "cycle of waits",
            EventKind.STARTED,
            0,
            [
                "a token compute->load",
                "its execution",
                "a token load->compute",
                "its execution",
            ],
            EventKind.STARTED,
            True,
        ),
        (
            "queue full",
            EventKind.STARTED,
            0,
            [
                "a token load->compute",
                "its execution",
                "its dispatch",
                "dispatch moves instructions in order",
                "a place in the queue of its unit",
            ],
            EventKind.STARTED,
            True,
        ),
        ("no room ever", EventKind.STARTED, 1, ["room for a token load->compute"], EventKind.NOTHING, False),
    ],
)
def test_a_chain_of_a_deadlock_ends_at_what_never_happens(name, kind, index, reasons, root, turns):
    chain = Chains(recording(name)).chain(kind, index)
    assert [link.text for link in chain.links] == reasons
    assert (chain.root.kind, chain.turns) == (root, turns)
    assert chain.event.cycle == NEVER
    assert chain.cycles == 0


def test_every_reason_has_words_and_occurs():
    assert set(TEXTS) == set(Reason)
    seen = {Reason(int(each)) for name in EVERY for each in causes_of(EventColumns(recording(name))).reason}
    assert seen == set(Reason)


def test_bounded_chains_end_at_the_first_event_that_is_not_after_the_bound():
    chains = Chains(recording("conv3x3"))
    whole = chains.chain(EventKind.END)
    cut = chains.chain(EventKind.END, since=5000)
    assert cut.links == whole.links[: len(cut.links)]
    assert cut.root.cycle <= 5000 < cut.links[-1].event.cycle


def test_earliest_knows_what_never_comes_and_what_does_not_matter():
    events = EventColumns(recording("token missing"))
    never = events.number(EventKind.NOTHING)
    cycles = earliest(
        events, Condition(Reason.TOKEN, np.array([NONE, never, events.number(EventKind.BEGIN)]), 7)
    )
    assert cycles.tolist() == [-1, FAR, 7]


def test_tokens_name_their_edges():
    run = recording("gemm")
    causes = causes_of(EventColumns(run))
    assert ((causes.reason == Reason.TOKEN) | (causes.reason == Reason.ROOM) == (causes.edge >= 0)).all()
    assert causes.edge.max() < len(TOKEN_EDGES)
    assert source("gemm").recording().timing.cycles == run.timing.cycles
