"""Sharing memory: nothing that is needed is overwritten, and sharing never costs anything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdla.compiler.network.memory_plan import Life, share

LIVES = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 12), st.integers(0, 6)), max_size=20).map(
    lambda rows: [
        Life(f"t{number}", size, first, first + length) for number, (size, first, length) in enumerate(rows)
    ]
)


@given(LIVES)
def test_no_two_tensors_that_are_needed_at_once_share_a_place(lives):
    places, _ = share(lives)
    for left in lives:
        for right in lives:
            if left.tensor < right.tensor and left.first <= right.last and right.first <= left.last:
                assert places[left.tensor] != places[right.tensor]


@given(LIVES)
def test_every_tensor_fits_and_sharing_costs_nothing(lives):
    places, sizes = share(lives)
    assert set(places) == {life.tensor for life in lives}
    assert set(places.values()) == set(sizes)
    assert all(life.size <= sizes[places[life.tensor]] for life in lives)
    assert sum(sizes.values()) <= sum(life.size for life in lives)


@given(LIVES)
def test_there_are_as_few_places_as_tensors_are_needed_at_once(lives):
    _, sizes = share(lives)
    assert len(sizes) == max(
        (sum(life_span.first <= step <= life_span.last for life_span in lives) for step in range(20)),
        default=0,
    )


def test_a_chain_needs_two_places():
    _, sizes = share(
        [
            Life("a", 9, 0, 1),
            Life("b", 4, 1, 2),
            Life("c", 9, 2, 3),
            Life("d", 5, 3, 4),
        ]
    )
    assert sizes == {"place0": 9, "place1": 5}


def test_the_nearest_place_that_is_large_enough_is_taken():
    places, sizes = share(
        [
            Life("large", 100, 0, 0),
            Life("near", 12, 0, 0),
            Life("small", 5, 0, 0),
            Life("new", 10, 1, 1),
        ]
    )
    assert (places["new"], sizes[places["near"]]) == (places["near"], 12)


def life(name: str, size: int, first: int, last: int) -> Life:
    return Life(name, size, first, last)


@pytest.mark.parametrize(
    ("lives", "places", "sizes"),
    [
        ([("a", 5, 0, 1), ("b", 9, 0, 1)], {"b": 0, "a": 1}, [9, 5]),
        ([("b", 4, 1, 1), ("a", 5, 0, 0)], {"a": 0, "b": 0}, [5]),
        ([("a", 3, 0, 0), ("b", 4, 0, 0), ("c", 10, 1, 1)], {"b": 0, "a": 1, "c": 0}, [10, 3]),
        ([("a", 4, 0, 0), ("b", 4, 0, 0), ("c", 10, 1, 1)], {"a": 0, "b": 1, "c": 0}, [10, 4]),
        ([("a", 6, 0, 0), ("b", 4, 0, 0), ("c", 4, 1, 1)], {"a": 0, "b": 1, "c": 1}, [6, 4]),
        ([("a", 6, 0, 0), ("b", 5, 0, 2), ("c", 5, 2, 3)], {"a": 0, "b": 1, "c": 0}, [6, 5]),
    ],
)
def test_tensors_take_places_by_their_first_step_the_larger_first(lives, places, sizes):
    assigned, assigned_sizes = share([life(*each) for each in lives])
    assert assigned == {name: f"place{place}" for name, place in places.items()}
    assert list(assigned_sizes.items()) == [(f"place{place}", size) for place, size in enumerate(sizes)]
