"""Affine forms: how they read, the least and the greatest value, and what is decided before a run."""

import itertools

import numpy as np
import pytest

from vdla.compiler.ir.affine import AffineForm, Interval, affine, bounds, decide, simplify
from vdla.compiler.ir.interpret import evaluate
from vdla.compiler.ir.nodes import (
    Binary,
    Buffer,
    Const,
    If,
    Read,
    Select,
    Var,
    Write,
    all_of,
    block,
    maximum,
    minimum,
    select,
)
from vdla.compiler.ir.text import print_expr, print_stmt

X, J = Var("i"), Var("j")
RANGES = {"i": Interval(-2, 10), "j": Interval(3, 6)}
NARROW = {"i": Interval(5, 6), "j": Interval(-3, -2)}
BUFFER = Buffer("B", (9,), "index")
TRUE, FALSE = Const(True, "bool"), Const(False, "bool")


@pytest.mark.parametrize("ranges", [RANGES, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize(
    "expr",
    [
        X * 3 - J * 2 + 7,
        J - X,
        X // 4,
        (X + 1) // 3 - J,
        X % 4,
        (X - 20) % 16,
        X % 4 - J % 2,
        J % 3 * 5,
        minimum(X, J),
        maximum(X, J),
        minimum(X * 2, 4) + maximum(J, 5),
        7 - minimum(J, X + 100),
        select(Read(BUFFER, (Const(0),)) < 1, X, J + 9),
        select(Read(BUFFER, (Const(0),)) < 1, J + 9, X),
        select(Read(BUFFER, (Const(0),)) < 1, J, X * 2) - 4,
    ],
    ids=print_expr,
)
def test_bounds_are_the_least_and_the_greatest_value(expr, ranges):
    """Of each expression that reads a variable once; a remainder over a border may be any."""
    spans = [range(ranges[name].low, ranges[name].high + 1) for name in "ij"]
    values = [
        evaluate(expr, {BUFFER.name: np.full(9, chosen)}, {"i": i, "j": j})
        for i, j in itertools.product(*spans)
        for chosen in (0, 1)
    ]
    assert bounds(expr, ranges) == Interval(min(values), max(values))


@pytest.mark.parametrize("ends", [(3, 3), (3, 4), (4, 7), (4, 8), (7, 8), (-1, 0), (-4, -1), (0, 3)])
def test_a_remainder_is_exact_within_one_period_alone(ends):
    low, high = ends
    interval = bounds(X % 4, {"i": Interval(low, high)})
    exact = [value % 4 for value in range(low, high + 1)]
    same = low // 4 == high // 4
    assert interval == (Interval(min(exact), max(exact)) if same else Interval(0, 3))


def test_what_only_a_run_tells_has_no_narrow_bounds():
    interval = bounds(Read(BUFFER, (X,)), RANGES)
    assert interval.low < -(1 << 32)
    assert interval.high > 1 << 32
    assert bounds(Read(BUFFER, (X,)) % 5, RANGES) == Interval(0, 4)


FORMS = {
    "0": X - X,
    "7": Const(3) + 4,
    "-4": Const(3) - 7,
    "i": 0 + X,
    "0 - i": 0 - X,
    "j - i": 0 - X + J,
    "i + 1": 1 + X,
    "i - 1": X - 1,
    "i * 3 - j * 2 - 1": (X - 1) * 3 - J * 2 + 2,
    "i + j": X * 1 + J * 1,
    "0 - i * 2 + 5": 5 - X * 2,
    "0 - i - j": 0 - X - J,
    "i * 2 + 1": (X * 6 + 5) // 3,
    "i * 2 + (j + 1) // 3": (X * 6 + J + 1) // 3,
    "(j + 7) % 3": (X * 6 + J + 7) % 3,
    "1": (X * 6 + 4) % 3,
    "i * 12": 3 * (X * 4),
    "i % 2 * 4 + j": X % 2 * 3 + J + X % 2,
    "i * j": X * J,
    "i // j": X // J,
    "min(i + 1, j)": minimum(1 + X, J),
}


@pytest.mark.parametrize("text", FORMS)
def test_simple_forms_read_well(text):
    assert print_expr(simplify(FORMS[text])) == text


def test_a_coefficient_of_0_is_no_term():
    assert affine(X * 2 + J - X - X) == AffineForm(((J, 1),), 0)
    assert simplify(Binary("*", X, Const(0))) == Const(0)
    assert affine((X * 4 + J * 3) // 2 - X * 2) == AffineForm(((Binary("//", J * 3, Const(2)), 1),), 0)


FOLDED = {
    "a lesser number": (Const(2) < Const(3), TRUE),
    "an equal number is not less": (Const(3) < Const(3), FALSE),
    "a greater number": (Const(4) < Const(3), FALSE),
    "at most, less": (Const(2) <= Const(3), TRUE),
    "at most, equal": (Const(3) <= Const(3), TRUE),
    "at most, greater": (Const(4) <= Const(3), FALSE),
    "equal": (Const(3).equal(3), TRUE),
    "not equal": (Const(3).equal(4), FALSE),
    "what is computed first": (Const(1) + 2 > X - X + 2, TRUE),
    "a condition that holds, before": (all_of(TRUE, X < 3), X < 3),
    "a condition that holds, behind": (all_of(X < 3, TRUE), X < 3),
    "a condition that never holds stays": (all_of(X < 3, FALSE), all_of(X < 3, FALSE)),
    "either stays": (Binary("or", TRUE, X < 3), Binary("or", TRUE, X < 3)),
    "a choice that is made": (Select(TRUE, X, J), X),
    "a choice that is made otherwise": (Select(Const(2) < Const(1), X, J + 0), J),
    "an open choice": (Select(X < 0 + J, X + 0, J * 1), Select(X < J, X, J)),
    "numbers of another type": (
        Binary("+", Const(3, "int8"), Const(4, "int8")),
        Binary("+", Const(3, "int8"), Const(4, "int8")),
    ),
}


@pytest.mark.parametrize("title", FOLDED)
def test_constants_are_folded_and_decided_branches_are_taken(title):
    before, after = FOLDED[title]
    assert simplify(before) == after


def test_statements_are_simplified_within():
    write = Write(BUFFER, (X + 1 - 1,), Read(BUFFER, (J * 1 + 0,)))
    simplified = simplify(block(If(all_of(TRUE, 0 + X < 3), write), write))
    assert print_stmt(simplified) == "if i < 3:\n    B[i] = B[j]\nB[i] = B[j]\n"


@pytest.mark.parametrize("op", ["<", "<="])
@pytest.mark.parametrize("number", range(-4, 14))
def test_a_comparison_is_decided_where_all_values_agree(op, number):
    values = range(RANGES["i"].low, RANGES["i"].high + 1)
    for left, right in ((X, Const(number)), (Const(number), X)):
        condition = Binary(op, left, right)
        truths = {bool(evaluate(condition, {}, {"i": value})) for value in values}
        assert decide(condition, RANGES) is (truths.pop() if len(truths) == 1 else None)


def test_other_conditions_are_open():
    floats = Buffer("F", (2,), "float32")
    low = Read(floats, (Const(0),))
    for condition in (low < low, Binary("or", X < 99, X < 99), Const(3).equal(3), TRUE):
        assert decide(condition, RANGES) is None
