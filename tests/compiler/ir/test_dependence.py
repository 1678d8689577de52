"""Loops whose iterations are said to be independent are so, on random subscripts too; the usual ones are
recognised."""

import random
from itertools import product

import pytest

from vdla.compiler.ir.affine import Interval
from vdla.compiler.ir.dependence import conflict
from vdla.compiler.ir.interpret import evaluate
from vdla.compiler.ir.nodes import Binary, Block, Buffer, Const, Expr, For, If, Read, Var, Write
from vdla.compiler.ir.parse import parse_func
from vdla.compiler.ir.rewrite import loops_of

HEAD = "def f(A: int32[64], M: int32[8, 8]):\n"


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(64):\n        A[i] = A[i] + int32(1)",
        "for i in range(8):\n        for j in range(8):\n            A[i * 8 + j] = M[j, i] + A[i * 8 + "
        "7 - j]",
        "for i in range(64):\n        M[i // 8, i % 8] = A[i]",
        "for i in range(64):\n        M[7 - i // 2 // 4, i // 2 % 4 * 2 + i % 2] = A[i]",
        "for i in range(2):\n        for j in range(20):\n            M[i * 4 + j // 5, j % 5] = int32(0)",
        "for i in range(2):\n        for j in range(4):\n            if i * 5 + j < 7:\n                "
        "A[i * 5 + j] = A[j * 4 + i * 5 - j * 3]",
        "for i in range(8):\n        T = alloc(int32[1])\n        T[0] = A[i]\n        M[i, 0] = T[0]",
        "for i in range(8):\n        for j in range(4):\n            M[i, j] = int32(0)\n        for j "
        "in range(8):\n            M[i, j] = M[i, 7 - j]",
        "for i in range(2):\n        for j in range(2):\n            for k in range(2):\n                "
        "if i * 2 + j < 3:\n"
        "                    A[k * 3 + i * 2 + j] = int32(0)",
        "for i in range(1):\n        A[0] = A[0] + int32(1)",
    ],
)
def test_independent_iterations_are_recognised(body):
    assert conflict(loops_of(parse_func(f"{HEAD}    {body}\n"))[0], {}) is None


@pytest.mark.parametrize(
    ("body", "places"),
    [
        ("for i in range(64):\n        A[0] = A[0] + M[0, 0]", r"A[0]"),
        ("for i in range(63):\n        A[i] = A[i + 1]", "A[i], A[i + 1]"),
        ("for i in range(64):\n        A[i // 2] = int32(0)", "A[i // 2]"),
        ("for i in range(64):\n        M[i // 8, i // 8] = A[i]", "M[i // 8, i // 8]"),
        (
            "for i in range(6):\n        for j in range(6):\n            A[i * 5 + j] = int32(0)",
            "A[i * 5 + j]",
        ),
        (
            "for i in range(8):\n        for j in range(2):\n            A[i * 4 + j] = int32(0)\n"
            "        for j in range(5):\n            A[i * 4 + j] = int32(1)",
            "A[i * 4 + j]",
        ),
        (
            "for i in range(2):\n        for j in range(2):\n            for k in range(2):\n            "
            "    if i * 2 + j < 4:\n"
            "                    A[k * 3 + i * 2 + j] = int32(0)",
            "A[k * 3 + i * 2 + j]",
        ),
        ("for i in range(8):\n        A[index(M[i, 0])] = int32(0)", "A[index(M[i, 0])]"),
    ],
)
def test_iterations_that_may_meet_are_named(body, places):
    assert (
        conflict(loops_of(parse_func(f"{HEAD}    {body}\n"))[0], {}) == f"its iterations may meet in {places}"
    )


def random_subscript(rng: random.Random, depth: int) -> Expr:
    if depth == 0:
        return Var(rng.choice("vvji"))
    op = rng.choice("+-*%/")
    left = random_subscript(rng, depth - 1)
    return (
        Binary(op, left, random_subscript(rng, 0))
        if op in "+-"
        else Binary({"/": "//"}.get(op, op), left, Const(rng.choice((2, 3, 4, 6))))
    )


def meets(loop: For, places: list[tuple[Expr, ...]], condition: Expr, extents: dict[str, int]) -> bool:
    """Try every pair of iterations of `loop`, at every value of i, the variable of the loop around."""
    for outer in range(extents["i"]):
        seen: dict[tuple, int] = {}
        for v, j, k in product(*(range(extents[name]) for name in "vjk")):
            values = {"i": outer, "v": v, "j": j, "k": k}
            for place in places if evaluate(condition, {}, values) else ():
                element = tuple(evaluate(index, {}, values) for index in place)
                if seen.setdefault(element, v) != v:
                    return True
    return False


def random_places(rng: random.Random, guarded: Expr) -> list[tuple[Expr, ...]]:
    """Return the subscripts of one or two accesses; some of them hold the expression that a condition
    bounds."""
    place = tuple(random_subscript(rng, rng.randint(0, 3)) for _ in range(rng.randint(1, 2)))
    if rng.random() < 0.6:
        place = (Var("k") * rng.randint(1, 9) + guarded * rng.choice((1, 2, -1)), *place[1:])
    return [place] if rng.random() < 0.7 else [place, tuple(index + rng.choice((0, 1, 4)) for index in place)]


def test_no_conflict_is_overlooked():
    proved = by_condition = 0
    for seed in range(1500):
        rng = random.Random(seed)
        extents = {name: rng.choice((2, 3, 4, 6, 12)) for name in "vji"} | {"k": 2}
        guarded = Var("v") * rng.choice((1, 2, 3)) + Var("j")
        places, condition = random_places(rng, guarded), guarded < rng.randint(1, 9)
        buffer = Buffer("A", (1,) * len(places[0]), "int32")
        statements = Block(tuple(Write(buffer, place, Read(buffer, places[0])) for place in places))
        bare, loop = (
            For(Var("v"), extents["v"], For(Var("j"), extents["j"], For(Var("k"), extents["k"], body)))
            for body in (statements, If(condition, statements))
        )
        ranges = {"i": Interval(0, extents["i"] - 1)}
        if conflict(loop, ranges) is None:
            proved += 1
            by_condition += conflict(bare, ranges) is not None
            assert not meets(loop, places, condition, extents), (seed, loop)
    assert proved > 100
    assert by_condition > 10
