"""Rules: the first that is broken is told, with the cure or with what is taken."""

import pytest

from vdla.compiler.rules import Rule, Unfit, conditions, counted, enabling, unfit

EVEN = Rule("even numbers", lambda number: "an odd number" if number % 2 else "")
SMALL = Rule("numbers below 10", lambda number: f"{number}" if number >= 10 else "", "divide it")


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (4, None),
        (5, "Op with an odd number; the accelerator takes even numbers"),
        (12, "Op with 12; divide it"),
        (13, "Op with an odd number; the accelerator takes even numbers"),
    ],
)
def test_the_first_broken_rule_is_the_reason(number, reason):
    broken = unfit("Op", (EVEN, SMALL), number)
    assert (broken and broken.reason) == reason


def test_a_reason_keeps_what_is_taken_beside_the_cure():
    assert unfit("Op", (SMALL,), 12) == Unfit(
        "Op with 12", "the accelerator takes numbers below 10", "divide it"
    )
    assert Unfit("Op is a part of another").reason == "Op is a part of another"
    assert Unfit("Op", "it needs numbers").reason == "Op; it needs numbers"


def test_what_is_taken_may_be_told_otherwise():
    assert unfit("Op", (EVEN,), 1, "it needs").reason == "Op with an odd number; it needs even numbers"
    assert unfit("Op", (), 1) is None


def test_tables_and_cures():
    assert conditions((EVEN, SMALL)) == "even numbers; numbers below 10"
    assert conditions(()) == ""
    assert enabling("a") == "enable extension `a` (--set extensions=+a)"
    assert enabling("a", "b") == "enable extensions `a` and `b` (--set extensions=+a,+b)"
    assert [counted(count, "row") for count in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]
