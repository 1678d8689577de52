"""Sharing memory: nothing that is needed is overwritten, and sharing never costs anything."""

from hypothesis import given
from hypothesis import strategies as st

from vdla.compiler.network.memory import Life, Stored, share
from vdla.runtime.layout import SpaceToDepth

LIVES = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 12), st.integers(0, 6)), max_size=20).map(
    lambda rows: [
        Life(Stored(f"t{number}", 4), size, first, first + length)
        for number, (size, first, length) in enumerate(rows)
    ]
)


@given(LIVES)
def test_no_two_tensors_that_are_needed_at_once_share_a_place(lives):
    places, _ = share(lives)
    for one in lives:
        for other in lives:
            if one.tensor.value < other.tensor.value and one.first <= other.last and other.first <= one.last:
                assert places[one.tensor] != places[other.tensor]


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
        (sum(one.first <= step <= one.last for one in lives) for step in range(20)), default=0
    )


def test_a_chain_needs_two_places():
    _, sizes = share(
        [
            Life(Stored("a", 4), 9, 0, 1),
            Life(Stored("b", 4), 4, 1, 2),
            Life(Stored("c", 4), 9, 2, 3),
            Life(Stored("d", 4), 5, 3, 4),
        ]
    )
    assert sizes == {"place0": 9, "place1": 5}


def test_the_nearest_place_that_is_large_enough_is_taken():
    places, sizes = share(
        [
            Life(Stored("large", 4), 100, 0, 0),
            Life(Stored("near", 4), 12, 0, 0),
            Life(Stored("small", 4), 5, 0, 0),
            Life(Stored("new", 4), 10, 1, 1),
        ]
    )
    assert (places[Stored("new", 4)], sizes[places[Stored("near", 4)]]) == (places[Stored("near", 4)], 12)


def test_an_identity_prints_how_the_tensor_is_stored():
    assert str(Stored("x", 16)) == "x in blocks of 16"
    gathered = Stored("x", 16, SpaceToDepth((2, 3), (0, 0, 0, 0)))
    assert str(gathered) == "x in blocks of 16, 2x3 pixels gathered"
    assert gathered != Stored("x", 16)
