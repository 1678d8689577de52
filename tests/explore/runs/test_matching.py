"""Layers of two runs match when they compute the same operators."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.explore.runs.records import layer
from vdla.explore.runs.matching import Match, match_layers, shared_operators


def layers(text: str):
    """Return layers; each is written as its operators with + between. A name in brackets tells no operators."""
    return [
        layer(word.strip("()")) if word.startswith("(") else layer(word[0], operators=word.replace("+", " "))
        for word in text.split()
    ]


def matched(a: str, b: str) -> str:
    """Return the matches of layers as numbers: of A, a colon, of B."""
    sides = ((match.a, match.b) for match in match_layers(layers(a), layers(b)))
    return " ".join(f"{''.join(map(str, a))}:{''.join(map(str, b))}" for a, b in sides)


@pytest.mark.parametrize(
    ("a", "b", "matches"),
    [
        ("a b c", "a b c", "0:0 1:1 2:2"),
        ("a b c", "b c a", "0:2 1:0 2:1"),
        ("a+b c", "a b c", "0:01 1:2"),
        ("a b+c d", "a+b c d", "01:01 2:2"),
        ("a b", "a+b", "01:0"),
        ("a+b c+d", "a c b d", "0:02 1:13"),
        ("a+b b+c", "a+b b+c", "01:01"),
        ("a b", "c a d b e", ":0 0:1 :2 1:3 :4"),
        ("a b c", "a", "0:0 1: 2:"),
        ("a", "b c", ":0 :1 0:"),
        ("a", "", "0:"),
        ("", "", ""),
        ("(a) (b)", "(a) (b)", "0:0 1:1"),
        ("(a) (a)", "(a) (a) (a)", "0:0 1:1 :2"),
        ("a+b", "(a) (b)", "0:01"),
        ("(a)", "(a) (b)", "0:0 :1"),
    ],
)
def test_layers_are_matched_by_their_operators(a, b, matches):
    assert matched(a, b) == matches


@pytest.mark.parametrize(("a", "b", "count"), [("a b+c", "c d", 1), ("a", "b", 0), ("(a) b", "a+b", 2)])
def test_operators_of_both_runs_are_counted(a, b, count):
    assert shared_operators(layers(a), layers(b)) == count


RUNS = st.lists(st.sets(st.sampled_from("abcdefgh"), min_size=1, max_size=3).map(sorted), max_size=7)


@given(RUNS, RUNS)
def test_matches_partition_the_layers_and_share_no_operator(a, b):
    sides = [[layer(names[0], operators=" ".join(names)) for names in run] for run in (a, b)]
    matches = match_layers(*sides)
    for side in (0, 1):
        numbers = [number for match in matches for number in (match.a, match.b)[side]]
        assert sorted(numbers) == list(range(len(sides[side])))
    names = [
        {name for run, numbers in ((a, match.a), (b, match.b)) for number in numbers for name in run[number]}
        for match in matches
    ]
    assert sum(map(len, names)) == len(set().union(*names))
    assert [match.a[0] for match in matches if match.a] == sorted(match.a[0] for match in matches if match.a)


@given(RUNS)
def test_a_run_is_matched_with_itself_in_its_order(run):
    layers = [layer(names[0], operators=" ".join(names)) for names in run]
    assert all(match == Match(match.b, match.a) for match in match_layers(layers, layers))
