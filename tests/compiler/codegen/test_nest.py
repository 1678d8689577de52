"""Forms of nests part into what their loops change and what they do not; conditions cut boxes out of the
iterations."""

from itertools import product

import numpy as np
import pytest

from vdla.compiler.codegen.intrinsics import accelerator
from vdla.compiler.codegen.nest import (
    AffineSum,
    affine_sum_of,
    condition_boxes,
    conditions_of,
    element_index,
    evaluator,
    nest_of,
    value_of,
)
from vdla.compiler.ir.calls import Call
from vdla.compiler.ir.nodes import Binary, Buffer, Const, For, If, IrError, LoopKind, Read, Var, all_of
from vdla.compiler.ir.parse import parse_func
from vdla.hw.spec.presets import TINY


@pytest.mark.parametrize(
    "affine_sum",
    [AffineSum(7, ()), AffineSum(0, (("x", 3),)), AffineSum(-2, (("x", 3), ("y", -1), ("tile", 8)))],
)
@pytest.mark.parametrize("loops", [{}, {"x": 4}, {"x": 4, "y": 5}])
def test_an_affine_sum_is_the_sum_of_its_parts(affine_sum, loops):
    values = {"x": 2, "y": 9, "tile": 5}
    outside, inside = affine_sum.split_by(loops)
    assert evaluator(affine_sum)(values) == affine_sum.constant + sum(
        factor * values[name] for name, factor in affine_sum.terms
    )
    assert evaluator(outside)(values) + evaluator(inside)(values) == evaluator(affine_sum)(values)
    assert {name for name, _ in inside.terms} <= loops.keys()
    assert not {name for name, _ in outside.terms} & loops.keys()


@pytest.mark.parametrize("seed", range(30))
def test_boxes_hold_the_iterations_that_meet_every_condition_and_no_other(seed):
    rng = np.random.default_rng(seed)
    loops = {name: int(rng.integers(1, 6)) for name in "xyz"}
    terms = [
        [(name, int(rng.choice((-2, -1, 1, 2)))) for name in (*"xyz", "tile") if rng.random() < 0.5]
        for _ in range(rng.integers(0, 4))
    ]
    conditions = tuple(AffineSum(int(rng.integers(-6, 12)), tuple(part)) for part in terms)
    points = [
        point
        for fixed, ranges in condition_boxes(conditions, loops, {"tile": 3})
        for point in product(*(range(*ranges[name]) if name in ranges else (fixed[name],) for name in "xyz"))
    ]
    met = [
        point
        for point in product(*(range(loops[name]) for name in "xyz"))
        if all(
            evaluator(affine_sum)({**dict(zip("xyz", point, strict=True)), "tile": 3}) >= 0
            for affine_sum in conditions
        )
    ]
    assert sorted(points) == met


X, Y, Z = (Var(name) for name in "xyz")


@pytest.mark.parametrize("x", [-4, 0, 7])
def test_a_value_is_a_sum_or_its_quotient_or_remainder(x):
    total = Var("x") * 3 + 1
    values = {"x": x}
    assert value_of(total)(values) == 3 * x + 1
    assert value_of(total // 5)(values) == (3 * x + 1) // 5
    assert value_of(total % 5)(values) == (3 * x + 1) % 5
    with pytest.raises(IrError, match="x % 2 is not affine"):
        value_of(Var("x") % 2 // 5)


def test_an_index_is_a_sum_of_variables():
    assert affine_sum_of(X * 3 - Y + 7) == AffineSum(7, (("x", 3), ("y", -1)))
    with pytest.raises(IrError) as error:
        affine_sum_of(X // 2 + Y)
    assert str(error.value) == (
        "x // 2 + y is not affine, so no instruction can follow it; do not fuse loops around an intrinsic"
    )


@pytest.mark.parametrize(
    ("indices", "base", "expected"),
    [
        ((X, Y, Z), 0, AffineSum(0, (("x", 35), ("y", 7), ("z", 1)))),
        ((X + 1, Y * 2 + 3, Z + 4), 100, AffineSum(100 + 35 + 21 + 4, (("x", 35), ("y", 14), ("z", 1)))),
        ((X, X, X - Y), 0, AffineSum(0, (("x", 43), ("y", -1)))),
        ((Const(0), X, Y - X * 7), 2, AffineSum(2, (("y", 1),))),
    ],
)
def test_elements_stand_one_after_another(indices, base, expected):
    """The last two dimensions belong to an element."""
    buffer = Buffer("B", (3, 5, 7, 2, 4), "int8")
    index = element_index(Read(buffer, (*indices, Const(0), Const(0))), base)
    assert (index.constant, dict(index.terms)) == (expected.constant, dict(expected.terms))


@pytest.mark.parametrize(
    ("condition", "sums"),
    [
        (X < 5, [AffineSum(4, (("x", -1),))]),
        (Y * 2 <= X, [AffineSum(0, (("x", 1), ("y", -2)))]),
        (all_of(X < 5, Const(-1) < Y, X <= Y), [AffineSum(4, (("x", -1),)), AffineSum(0, (("y", 1),)), AffineSum(0, (("x", -1), ("y", 1)))]),
        (Const(True, "bool"), []),
        (Const(False, "bool"), [AffineSum(-1, ())]),
    ],
)  # fmt: skip
def test_a_condition_holds_where_sums_are_not_negative(condition, sums):
    affine_sums = conditions_of(condition)
    assert [(affine_sum.constant, dict(affine_sum.terms)) for affine_sum in affine_sums] == [
        (affine_sum.constant, dict(affine_sum.terms)) for affine_sum in sums
    ]


def test_other_conditions_are_refused():
    with pytest.raises(IrError) as error:
        conditions_of(Binary("or", X < 5, Y < 2))
    assert str(error.value) == (
        "x < 5 or y < 2 cannot be turned into bounds of a transfer; use comparisons joined by and"
    )


def test_a_nest_is_loops_and_conditions_around_one_call():
    text = "def f(A: int8[4]):\n    for y in range(3):\n        A[y] = int8(0)\n"
    write = parse_func(text).body.body
    assert nest_of(write) is None
    assert nest_of(For(Y, 3, write)) is None
    call = Call(accelerator(TINY).every[0], ())
    assert nest_of(call).loops == {}
    nest = nest_of(For(Y, 3, If(X < 5, For(Z, 4, If(Y < 2, call)))))
    assert nest.call is call
    assert list(nest.loops.items()) == [("y", 3), ("z", 4)]
    assert nest.conditions == (AffineSum(4, (("x", -1),)), AffineSum(1, (("y", -1),)))
    assert nest_of(For(Y, 3, call, LoopKind.VTHREAD)) is None
