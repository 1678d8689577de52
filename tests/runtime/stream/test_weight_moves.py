"""The search for moves of weights: the places that are free, and what the bus can carry."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.runtime.stream.test_weights import DEPTH, recorded
from vdla.runtime.stream.prefetch import moves_of
from vdla.runtime.stream.weight_moves import (
    NEVER,
    Bus,
    end_of_gap,
    idle_cycles,
    last_touch,
    lay_out,
    next_gap,
)


def bus_with(*bursts: tuple[int, int]) -> Bus:
    """Return a bus that is busy in some intervals of cycles."""
    begin, end = np.array(bursts or [(0, 1)]).T.copy()
    busy = np.concatenate(([0], np.cumsum(end - begin)))
    return Bus(begin, end, busy, np.zeros(0, np.int64), latency=64, width=8, cycles_per_beat=1, element=16)


def search_in(*steps):
    """Return the search in the recorded steps, see `recorded`, and its values' groups."""
    weights = recorded(*steps)
    moves = moves_of(weights, {}, bus_with(), renames=True)
    search = SimpleNamespace(oldest=0, newest=NEVER)  # plain Python reads no fields of records by dots
    return moves._replace(search=search), weights.values.group.tolist()


@pytest.mark.parametrize(
    ("low", "high", "number", "touch"),
    [
        (1, 4, 3, 2),  # behind the last read of the value there
        (0, 4, 3, 3),  # another value is loaded at 3
        (0, 4, 2, 3),  # it is read at 2, and another value is loaded at 3
        (0, 5, 3, 4),  # the neighbour is read at 4
        (4, 8, 5, 4),
        (8, 12, 1, NEVER),
    ],
)
def test_a_place_is_free_behind_the_last_touch_of_each_value_there(low, high, number, touch):
    moves, groups = search_in((0, 4), (4, 4), [1], (0, 1), [6], (8, 4), [9])
    assert last_touch(moves, groups[3], low, high, number) == touch


def gaps(moves, group: int, number: int) -> list[int]:
    """Return the begins of the gaps in which there is room for a group."""
    lay_out(moves, group, number)
    size = int(moves.groups.high[group] - moves.groups.low[group])
    gap_begins, place = [], next_gap(moves.taken, 0, size)
    while place != NEVER:
        gap_begins.append(place)
        place = next_gap(moves.taken, end_of_gap(moves.taken, place), size)
    return gap_begins


def test_gaps_are_free_as_long_as_a_group_lives():
    moves, _ = search_in((0, 4), (10, 4), [0], [10], (2, 4), (6, DEPTH - 6), [2], [8])
    assert gaps(moves, 2, 3) == [0]  # 10 to 14 is read at 3, 6 and more from 5 on
    assert gaps(moves, 3, 3) == []


@pytest.mark.parametrize(
    ("taken", "size", "begins"),
    [
        ("....", 4, [0]),
        ("#..#...", 2, [1, 4]),
        ("#..#...", 3, [4]),
        ("..#.", 3, []),
        ("####", 1, []),
    ],
)
def test_gaps_begin_where_places_become_free(taken, size, begins):
    places = np.array([each == "#" for each in taken], np.int64)
    gap_begins, place = [], next_gap(places, 0, size)
    while place != NEVER:
        gap_begins.append(place)
        place = next_gap(places, end_of_gap(places, place), size)
    assert gap_begins == begins


def test_the_idle_cycles_of_a_bus():
    bus = bus_with((10, 15), (20, 30), (30, 35))
    assert [idle_cycles(bus, 0, end) for end in (5, 12, 18, 25, 40)] == [5, 10, 13, 15, 20]
    assert idle_cycles(bus, 12, 16) == 1
    assert idle_cycles(bus, 16, 12) == 0
