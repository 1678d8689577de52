"""The matcher accepts what an intrinsic means, under other names and in other places, and says where anything
else differs."""

import numpy as np
import pytest

from vdla.compiler.codegen.intrinsics import accelerator
from vdla.compiler.ir.affine import simplify
from vdla.compiler.ir.calls import Call, meaning_of
from vdla.compiler.ir.interpret import execute
from vdla.compiler.ir.nodes import Const, Func, Read
from vdla.compiler.ir.parse import parse_func, parse_intrinsic
from vdla.compiler.ir.text import print_stmt
from vdla.compiler.ir.types import DTYPES
from vdla.compiler.ir.verify import verify
from vdla.compiler.te.tensorize import MatchError, tensorized_call
from vdla.hw.spec.presets import TINY

DOT = parse_intrinsic("""\
def dot(acc: int32[2] @ accumulator, left: int8[2, 4], right: int8[4]):
    for i in range(2):
        for k in range(4):
            acc[i] = acc[i] + int32(left[i, k]) * int32(right[k])
""")

HEAD = (
    'def f(A: int8[6, 2, 4], B: int8[3, 4], P: int8[2, 2, 4]):\n    C = alloc(int32[5, 2], "{}")\n    '
    "for n in range(3):\n"
)


def nest(text: str, scope: str = "accumulator"):
    """Return the loop over n, and the scope of C."""
    body = "".join(f"        {line}\n" for line in text.splitlines())
    return parse_func(HEAD.format(scope) + body).body.body.body


ACCEPTED = {
    "as it is": "for y in range(2):\n    for x in range(4):\n        C[n, y] = C[n, y] + int32(A[n * 2, "
    "y, x]) * int32(B[n, x])",
    "loops in another order": "for x in range(4):\n    for y in range(2):\n        C[n, y] = C[n, y] + "
    "int32(A[n * 2, y, x]) * int32(B[n, x])",
    "operands exchanged": "for y in range(2):\n    for x in range(4):\n        C[n, y] = int32(B[n, x]) "
    "* int32(A[n * 2, y, x]) + C[n, y]",
    "a loop of one trip more": "for o in range(1):\n    for y in range(2):\n        for x in range(4):\n"
    "            C[n, y] = C[n, y] + int32(A[n * 2, y + o, x]) * int32(B[n, x])",
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_same_meaning_is_found(name):
    call = tensorized_call(nest(ACCEPTED[name]), [DOT])
    assert print_stmt(call) == "dot(C[n, 0], A[n * 2, 0, 0], B[n, 0])\n"


def test_conditions_around_the_tile_stay():
    text = (
        "for y in range(2):\n    for x in range(4):\n        if n < 2:\n            C[n, y] = C[n, y] "
        "+ int32(A[n * 2, y, x]) * int32(B[n, x])"
    )
    assert (
        print_stmt(tensorized_call(nest(text), [DOT]))
        == "if n < 2:\n    dot(C[n, 0], A[n * 2, 0, 0], B[n, 0])\n"
    )


REFUSED = {
    "another operation": (
        "for y in range(2):\n    for x in range(4):\n        C[n, y] = C[n, y] - int32(A[n, y, x]) * "
        "int32(B[n, x])",
        "it has acc[i] + int32(left[i, k]) * int32(right[k]) where these loops have C[n, i] - int32(A[n, "
        "i, k]) * int32(B[n, k])",
    ),
    "other extents": (
        "for y in range(2):\n    for x in range(2):\n        C[n, y] = C[n, y] + int32(A[n, y, x]) * "
        "int32(B[n, x])",
        "its loops have extents 2x4, these 2x2",
    ),
    "a shifted subscript": (
        "for y in range(2):\n    for x in range(4):\n        C[n, y] = C[n, y] + int32(A[n, y, x]) * "
        "int32(B[n, 3 - x])",
        "it has acc[i] where these loops have int32(A[n, i, k]) * int32(B[n, 0 - k + 3])",
    ),
    "a subscript outside that moves": (
        "for y in range(2):\n    for x in range(4):\n"
        "        C[n, y] = C[n, y] + int32(A[n + y, y, x]) * int32(B[n, x])",
        "it has acc[i] where these loops have int32(A[n + i, i, k]) * int32(B[n, k])",
    ),
    "a condition on the tile": (
        "for y in range(2):\n    for x in range(4):\n        if x < 3:\n"
        "            C[n, y] = C[n, y] + int32(A[n, y, x]) * int32(B[n, x])",
        "the condition x < 3 cuts the tile: its loops must divide",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_meaning_is_refused_where_it_differs(name):
    text, message = REFUSED[name]
    loops = nest(text)
    with pytest.raises(MatchError) as caught:
        tensorized_call(loops, [DOT])
    shown = print_stmt(simplify(loops))
    if name == "a condition on the tile":
        assert str(caught.value) == f"{message}\n{print_stmt(loops)}"
    else:
        assert str(caught.value) == f"no intrinsic means these loops\n{shown}dot: {message}"


def test_a_tile_in_another_memory_is_refused():
    with pytest.raises(MatchError, match=r"\ndot: C is in input, but acc must be in accumulator$"):
        tensorized_call(nest(ACCEPTED["as it is"], "input"), [DOT])


SCALED = parse_intrinsic("""\
def scaled(acc: int32[2] @ accumulator, left: int8[2], imm: int32[1]):
    for i in range(2):
        acc[i] = int32(left[i]) * imm[0]
""")
SQUARE = parse_intrinsic("""\
def square(acc: int32[2] @ accumulator, left: int8[2]):
    for i in range(2):
        acc[i] = int32(left[i]) * int32(left[i])
""")
PICKED = parse_intrinsic("""\
def picked(acc: int32[2] @ accumulator, left: int8[2], inside: bool[1]):
    for i in range(2):
        acc[i] = select(inside[0], int32(left[i]), int32(0))
""")
ROWS = """\
def f(A: int8[6, 2], D: int16[6, 2], E: int8[2, 2, 2]):
    C = alloc(int32[5, 2], "accumulator")
    for n in range(3):
        for y in range(2):
"""


def rows(*statements: str):
    """Return the loop over y."""
    return parse_func(ROWS + "".join(f"            {line}\n" for line in statements)).body.body.body


@pytest.mark.parametrize(
    ("intrinsic", "statement", "call"),
    [
        (SCALED, "C[n, y] = int32(A[n, y]) * int32(7)", "scaled(C[n, 0], A[n, 0], int32(7))"),
        (SCALED, "C[n, y] = int32(7) * int32(A[n, y])", "scaled(C[n, 0], A[n, 0], int32(7))"),
        (SQUARE, "C[n, y] = int32(A[n, y]) * int32(A[n, y])", "square(C[n, 0], A[n, 0])"),
        (
            SQUARE,
            "C[n, y] = int32(E[1, n - 1, y]) * int32(E[1, n - 1, y])",
            "square(C[n, 0], E[1, n - 1, 0])",
        ),
        (
            PICKED,
            "C[n, y] = select(n < 2, int32(A[n, y]), int32(0))",
            "picked(C[n, 0], A[n, 0], n < 2)",
        ),
    ],
)
def test_constants_and_conditions_are_operands(intrinsic, statement, call):
    assert print_stmt(tensorized_call(rows(statement), [intrinsic])) == f"{call}\n"


@pytest.mark.parametrize(
    ("intrinsic", "statement", "reason"),
    [
        (
            SCALED,
            "C[n, y] = int32(A[n, y]) * int32(A[0, 0])",
            "it has left[i] where these loops have A[0, 0]",
        ),
        (
            SQUARE,
            "C[n, y] = int32(A[n, y]) * int32(A[n + 1, y])",
            "left would be A[n + 1, 0] and A[n, 0] at once",
        ),
        (
            SQUARE,
            "C[n, y] = int32(A[n, y]) + int32(A[n, y])",
            "it has int32(left[i]) * int32(left[i]) where these loops have int32(A[n, i]) + int32(A[n, i])",
        ),
        (
            SQUARE,
            "C[n, y] = int32(A[n, y])",
            "it has int32(left[i]) * int32(left[i]) where these loops have int32(A[n, i])",
        ),
        (
            SQUARE,
            "C[n, 1 - y] = int32(A[n, y]) * int32(A[n, y])",
            "it has acc[i] where these loops have C[n, 0 - i + 1]",
        ),
        (
            PICKED,
            "C[n, y] = select(y < 1, int32(A[n, y]), int32(0))",
            "it has inside[0] where these loops have i < 1",
        ),
        (
            PICKED,
            "C[n, y] = select(n < 2, int32(A[n, y]), int32(1))",
            "it has int32(0) where these loops have int32(1)",
        ),
        (
            PICKED,
            "C[n, y] = select(n < 2, int32(D[n, y]), int32(0))",
            "D[n, y] is in int16[6, 2], but left is int8[2]",
        ),
        (
            SQUARE,
            "C[n, y] = int32(0)\n            C[n, y] = int32(1)",
            "the loops hold more than one statement",
        ),
    ],
)
def test_other_operands_are_refused(intrinsic, statement, reason):
    loops = rows(statement)
    with pytest.raises(MatchError) as caught:
        tensorized_call(loops, [intrinsic])
    shown = print_stmt(simplify(loops))
    assert str(caught.value) == f"no intrinsic means these loops\n{shown}{intrinsic.name}: {reason}"


SUMS = parse_intrinsic("""\
def sums(acc: int32[2] @ accumulator, x: int8[2], y: int8[2] @ weight, u: int8[2], v: int8[2] @ input):
    for i in range(2):
        acc[i] = (int32(x[i]) + int32(y[i])) * (int32(u[i]) + int32(v[i]))
""")


def test_what_was_bound_before_operands_are_exchanged_is_forgotten():
    text = ROWS.replace(
        "    for n", '    V = alloc(int8[5, 2], "input")\n    W = alloc(int8[5, 2], "weight")\n    for n'
    )
    line = "C[n, y] = (int32(A[n, y]) + int32(V[n, y])) * (int32(A[n + 1, y]) + int32(W[n, y]))"
    body = parse_func(f"{text}            {line}\n").body.body.body.body.body
    assert print_stmt(tensorized_call(body, [SUMS])) == (
        "sums(C[n, 0], A[n + 1, 0], W[n, 0], A[n, 0], V[n, 0])\n"
    )


def test_the_first_intrinsic_that_fits_is_taken_and_each_says_why_it_does_not():
    assert tensorized_call(rows("C[n, y] = int32(A[n, y]) * int32(3)"), [SQUARE, SCALED]).intrinsic is SCALED
    with pytest.raises(MatchError) as caught:
        tensorized_call(rows("C[n, y] = int32(A[n, y]) * int32(A[n + 1, y])"), [SQUARE, SCALED])
    assert str(caught.value).splitlines()[-2:] == [
        "square: left would be A[n + 1, 0] and A[n, 0] at once",
        "scaled: it has imm[0] where these loops have int32(A[n, i])",
    ]


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_call_means_what_it_was_put_in_place_of(name):
    loops = nest(ACCEPTED[name])
    rng = np.random.default_rng(0)
    shapes = {"A": ((6, 2, 4), np.int8), "B": ((3, 4), np.int8), "C": ((5, 2), np.int32)}
    loop_arrays = {
        buffer: rng.integers(-100, 100, shape).astype(kind) for buffer, (shape, kind) in shapes.items()
    }
    call_arrays = {buffer: array.copy() for buffer, array in loop_arrays.items()}
    execute(loops, loop_arrays, {"n": 2})
    execute(tensorized_call(loops, [DOT]), call_arrays, {"n": 2})
    np.testing.assert_array_equal(loop_arrays["C"], call_arrays["C"])


EVERY = accelerator(TINY).every


def test_intrinsics_of_the_accelerator_have_names_of_their_own():
    assert len({intrinsic.name for intrinsic in EVERY}) == len(EVERY)


@pytest.mark.parametrize("intrinsic", EVERY, ids=lambda intrinsic: intrinsic.name)
def test_an_intrinsic_of_the_accelerator_means_itself(intrinsic):
    params = intrinsic.meaning.params
    operands = tuple(
        Const(True, "bool")
        if param.dtype == "bool"
        else Const(3, param.dtype)
        if param.name == "imm"
        else Read(param, (Const(0),) * len(param.shape))
        for param in params
    )
    call = Call(intrinsic, operands)
    verify(Func("alone", params, call))
    rng = np.random.default_rng(1)
    meaning_arrays = {
        param.name: rng.integers(0, 20, param.shape).astype(DTYPES[param.dtype].numpy) for param in params
    }
    meaning_arrays |= {
        param.name: np.full(1, operand.value)
        for param, operand in zip(params, operands, strict=True)
        if isinstance(operand, Const)
    }
    call_arrays = {name: array.copy() for name, array in meaning_arrays.items()}
    execute(intrinsic.meaning.body, meaning_arrays, {})
    execute(meaning_of(call), call_arrays, {})
    for name, array in meaning_arrays.items():
        np.testing.assert_array_equal(array, call_arrays[name])
