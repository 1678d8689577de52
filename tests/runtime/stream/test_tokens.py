"""Planned tokens order every need, never wait for a token that cannot come, and cost nothing where an order
follows from others."""

import random
from bisect import bisect_right

import numpy as np
import pytest

from vdla.hw.spec.units import Unit
from vdla.runtime.stream.tokens import COMPUTE, FLAGS, LOAD, STORE, TokenPlanner, plan_tokens

EDGES = {
    (LOAD, COMPUTE): ("push_next", "pop_prev"),
    (COMPUTE, LOAD): ("push_prev", "pop_next"),
    (COMPUTE, STORE): ("push_next", "pop_prev"),
    (STORE, COMPUTE): ("push_prev", "pop_next"),
}


def planned(rows, depth: int = 255) -> TokenPlanner:
    """Return the plan of `(unit, needs)`."""
    return plan_tokens(
        np.array([unit for unit, _ in rows], np.uint8),
        np.array([needs for _, needs in rows], np.int64),
        depth,
    )


def flags_of(plan: TokenPlanner) -> list[set[str]]:
    return [{flag for number, flag in enumerate(FLAGS) if word >> number & 1} for word in plan.flags]


def units_of(plan: TokenPlanner, rows) -> list[int]:
    return [rows[number][0] if number >= 0 else -1 - number for number in plan.numbers]


def tokens(units: list[int], flags: list[set[str]]) -> dict[tuple[int, int], tuple[list[int], list[int]]]:
    """Return the positions that push and those that pop, by edge."""
    return {
        edge: tuple(
            [at for at, unit in enumerate(units) if unit == end and name in flags[at]]
            for end, name in zip(edge, names, strict=True)
        )
        for edge, names in EDGES.items()
    }


def known(units: list[int], edges) -> list[list[int]]:
    """Return, by position, the last instruction of each unit that is done when it starts, as the tokens alone
    say."""
    popped = {
        (pop, edge[0]): push
        for edge, (pushes, pops) in edges.items()
        for push, pop in zip(pushes, pops, strict=True)
    }
    latest, found = [[-1] * len(Unit) for _ in Unit], []
    for position, unit in enumerate(units):
        for other in Unit:
            if (push := popped.get((position, other))) is not None:
                latest[unit] = [max(pair) for pair in zip(latest[unit], found[push], strict=True)]
                latest[unit][other] = max(latest[unit][other], push)
        found.append(list(latest[unit]))
    return found


def random_rows(seed: int) -> list[tuple[int, tuple[int, ...]]]:
    rng = random.Random(seed)
    units = [rng.choice((LOAD, COMPUTE, STORE)) for _ in range(300)]
    rows = []
    for number, unit in enumerate(units):
        near = [
            at
            for at in range(max(number - rng.choice((5, 60)), 0), number)
            if units[at] != unit and rng.random() < 0.1
        ]
        rows.append(
            (
                unit,
                tuple(
                    max((at for at in near if units[at] == other), default=-1)
                    for other in (LOAD, COMPUTE, STORE)
                ),
            )
        )
    return rows


@pytest.mark.parametrize("depth", [1, 2, 255])
@pytest.mark.parametrize("seed", range(10))
def test_every_need_is_ordered_and_no_edge_overflows(seed, depth):
    rows = random_rows(seed)
    plan = planned(rows, depth)
    units, flags = units_of(plan, rows), flags_of(plan)
    assert [number for number in plan.numbers if number >= 0] == list(range(len(rows)))
    edges = tokens(units, flags)
    for pushes, pops in edges.values():
        assert all(push < pop for push, pop in zip(pushes, pops, strict=True))
        assert all(number + 1 - bisect_right(pops, push) <= depth for number, push in enumerate(pushes))
    places, knows = {number: at for at, number in enumerate(plan.numbers)}, known(units, edges)
    for number, (_, needs) in enumerate(rows):
        assert all(
            knows[places[number]][other] >= places[need] for other, need in enumerate(needs) if need >= 0
        )


def test_a_broken_plan_is_noticed():
    rows = random_rows(0)
    plan = planned(rows)
    units, flags = units_of(plan, rows), flags_of(plan)
    first = next(at for at, unit in enumerate(units) if unit == LOAD and "push_next" in flags[at])
    pop = next(at for at, unit in enumerate(units) if unit == COMPUTE and "pop_prev" in flags[at])
    needs, at = (
        rows[plan.numbers[pop]][1],
        [position for position, number in enumerate(plan.numbers) if number >= 0],
    )
    flags[first].discard("push_next")
    flags[pop].discard("pop_prev")
    assert known(units, tokens(units, flags))[pop][LOAD] < at[needs[LOAD]]


@pytest.mark.parametrize(
    ("rows", "numbers", "flags"),
    [
        ([(LOAD, (-1, -1, -1)), (COMPUTE, (0, -1, -1))], [0, 1], [{"push_next"}, {"pop_prev"}]),
        (
            [(LOAD, (-1, -1, -1)), (COMPUTE, (0, -1, -1)), (COMPUTE, (0, -1, -1))],
            [0, 1, 2],
            [{"push_next"}, {"pop_prev"}, set()],
        ),
        (
            [(STORE, (-1, -1, -1)), (LOAD, (-1, -1, 0))],
            [0, -1 - COMPUTE, 1],
            [{"push_prev"}, {"pop_next", "push_prev"}, {"pop_next"}],
        ),
        (
            [(LOAD, (-1, -1, -1)), (COMPUTE, (0, -1, -1)), (STORE, (0, -1, -1))],
            [0, 1, 2],
            [{"push_next"}, {"pop_prev", "push_next"}, {"pop_prev"}],
        ),
    ],
)
def test_small_streams_have_the_tokens_that_they_need(rows, numbers, flags):
    plan = planned(rows)
    assert (plan.numbers, flags_of(plan)) == (numbers, flags)


def test_where_an_edge_is_full_a_later_transfer_of_nothing_pushes():
    rows = [*[(LOAD, (-1, -1, -1))] * 2, (COMPUTE, (0, -1, -1)), (COMPUTE, (1, -1, -1))]
    assert planned(rows, 2).numbers == [0, 1, 2, 3]
    assert planned(rows, 1).numbers == [0, 1, 2, -1 - LOAD, 3]
