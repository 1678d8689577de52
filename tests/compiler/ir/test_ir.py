"""Loop programs: text that reads back equal, meaning, affine forms, and what the verifier refuses."""

import ast
import random

import numpy as np
import pytest

from vdla.compiler.ir.affine import Interval, affine, bounds, decide, simplify
from vdla.compiler.ir.calls import Call, intrinsics_of
from vdla.compiler.ir.interpret import evaluate, interpret, operate
from vdla.compiler.ir.nodes import (
    Binary,
    Buffer,
    Cast,
    Const,
    For,
    Func,
    IrError,
    Read,
    Var,
    Write,
    block,
    cast,
    maximum,
    select,
)
from vdla.compiler.ir.parse import parse_func, parse_intrinsic
from vdla.compiler.ir.rewrite import rewrite, substitute, variables
from vdla.compiler.ir.text import print_calls, print_expr, print_func
from vdla.compiler.ir.types import DTYPES
from vdla.compiler.ir.verify import verify

MATMUL = """\
def matmul(A: int8[4, 6], B: int8[5, 6], C: int32[4, 5]):
    for y in range(4):
        for x in vthread(5):
            C[y, x] = int32(0)
            for k in range(6):
                C[y, x] = C[y, x] + int32(A[y, k]) * int32(B[x, k])
"""
EVERYTHING = """\
@intrinsic
def vdla(dst: int32[8] @ accumulator, src: int32[8], rows: int32[8, 8], inside: bool[1], imm: int32[1]):
    for j in range(8):
        dst[j] = select(inside[0], min(src[j], int32(-7)), max(rows[j, 7 - j] >> imm[0], rows[0, 7 - j]))

def everything(X: int32[8, 8], Y: float32[8]):
    T = alloc(int32[4, 8], "accumulator")
    for i in vthread(4):
        for j in range(8):
            if i * 2 - j < 3 and (j // 2 == i or 1 <= i):
                vdla(T[i, 0], X[i * 3, 0], X[0, 0], j < 4, int32(2))
                T[i, j] = select(j < 4, min(X[i, j], int32(-7)), max(X[j, i] >> int32(2), X[i * 2, 7 - j]))
        k = (i + 1) // 2
        m = k % 2
        Y[k + m] = Y[i] * float32(0.5) - (Y[i + 1] - float32("-inf"))
"""


@pytest.mark.parametrize("text", [MATMUL, EVERYTHING])
def test_text_reads_back_equal(text):
    func = parse_func(text)
    assert print_func(func) == text
    assert parse_func(print_func(func)) == func
    verify(func)


DOUBLED = "dst: int32[4] @ accumulator, src: int32[4]):\n    for i in range(4):\n        dst[i] = src[i]"
CALLING = (
    'def f(A: int32[9, 4], B: int8[9, 4]):\n    C = alloc(int32[9, 4], "accumulator")\n    for i '
    "in range(9):\n        {}\n"
)
COPY, CHOICE = (
    parse_intrinsic(f"def copy({DOUBLED}\n"),
    parse_intrinsic("""\
def choice(dst: int32[4] @ accumulator, src: int32[4], inside: bool[1], imm: int32[1]):
    for i in range(4):
        dst[i] = select(inside[0], src[i], imm[0])
"""),
)


def test_intrinsics_given_to_the_parser_are_those_called():
    func = parse_func(CALLING.format("copy(C[i, 0], A[i, 0])"), [COPY])
    assert intrinsics_of(func)["copy"] is COPY
    assert parse_func(print_func(func), [COPY]) == parse_func(print_func(func)) == func
    assert parse_func(print_calls(func), [COPY]) == func


def test_intrinsics_are_refused_that_mean_something_else_than_the_one_given():
    func = parse_func(CALLING.format("copy(C[i, 0], A[i, 0])"), [COPY])
    other = print_func(func).replace("dst[i] = src[i]", "dst[i] = src[i] + int32(1)")
    with pytest.raises(
        IrError,
        match="line 2: copy is declared differently from the given intrinsic of that name:\ndef copy",
    ):
        parse_func(other, [COPY])


def test_a_call_outside_reads_only_where_its_condition_holds():
    func = parse_func(
        CALLING.format("choice(C[i, 0], A[i - 1, 0], 0 < i, int32(7))")
        + "        for j in range(4):\n            B[i, j] = int8(C[i, j])\n",
        [CHOICE],
    )
    verify(func)
    arrays = {"A": np.arange(36, dtype=np.int32).reshape(9, 4), "B": np.zeros((9, 4), np.int8)}
    interpret(func, arrays)
    np.testing.assert_array_equal(arrays["B"], np.vstack([np.full((1, 4), 7), arrays["A"][:-1]]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("copy(C[i, 0])", r"copy\(C\[i, 0\]\): 1 operands, but copy takes dst, src"),
        ("copy(C[i, 0], A[i, 1])", r"src is A\[i, 1\], which is not the beginning of a tile"),
        ("copy(C[i, 0], int32(3))", r"src is int32\(3\), which is not the beginning of a tile"),
        ("copy(C[i, 0], B[i, 0])", r"B holds int8\[4\] in dram, but src is int32\[4\] in dram"),
        ("copy(A[i, 0], A[i, 0])", r"A holds int32\[4\] in dram, but dst is int32\[4\] in accumulator"),
        (
            "copy(C[i, 0], A[i + 1, 0])",
            r"A\[i \+ 1, 0\]: subscript 0 runs from 1 to 9, but the axis has 9 elements",
        ),
        (
            "choice(C[i - 1, 0], A[i, 0], i < 3, int32(7))",
            r"C\[i - 1, 0\]: subscript 0 runs from -1 to 7, but the axis has 9 elements",
        ),
        ("choice(C[i, 0], A[i, 0], i, int32(7))", "inside is i, not a condition of type bool"),
        ("choice(C[i, 0], A[i, 0], i < 3, A[i, 0])", r"imm is A\[i, 0\], not a constant of type int32"),
    ],
)
def test_the_verifier_refuses_operands_that_an_intrinsic_cannot_take(call, message):
    with pytest.raises(IrError, match=message):
        verify(parse_func(CALLING.format(call), [COPY, CHOICE]))


def test_two_parameters_of_one_name_are_refused():
    func = parse_func("def f(A: int8[2], B: int8[2]):\n    A[0] = B[1]\n")
    with pytest.raises(IrError, match=r"^f: two parameters have the same name among A, B, A$"):
        verify(Func("f", (*func.params, func.params[0]), func.body))


def test_two_intrinsics_of_one_name_are_refused():
    func = parse_func(CALLING.format("copy(C[i, 0], A[i, 0])"), [COPY])
    other = parse_intrinsic(f"def copy({DOUBLED} + int32(1)\n")
    body = rewrite(
        func.body, lambda part: block(part, Call(other, part.operands)) if isinstance(part, Call) else None
    )
    with pytest.raises(IrError, match="two intrinsics are called copy"):
        verify(Func("f", func.params, body))


def test_what_is_not_changed_stays_the_same_node():
    func = parse_func(EVERYTHING)
    assert rewrite(func.body, lambda part: None) is func.body
    assert substitute(func.body, {"elsewhere": Const(0)}) is func.body
    changed = substitute(func.body, {"j": Const(0)})
    assert changed is not func.body
    assert changed.body.body.statements[1] is func.body.body.body.statements[1]


def test_the_interpreter_multiplies_matrices():
    rng = np.random.default_rng(0)
    a, b, c = (
        rng.integers(-128, 128, (4, 6), np.int8),
        rng.integers(-128, 128, (5, 6), np.int8),
        np.empty((4, 5), np.int32),
    )
    interpret(parse_func(MATMUL), {"A": a, "B": b, "C": c})
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32).T)


@pytest.mark.parametrize(
    ("op", "left", "right", "dtype", "result"),
    [
        ("+", 127, 1, "int8", -128),
        ("*", 1 << 30, 4, "int32", 0),
        ("-", 0, 1, "uint8", 255),
        (">>", -5, 1, "int32", -3),
        (">>", 3, -2, "int32", 12),
        ("<<", 3, 31, "int32", -(1 << 31)),
        ("//", -7, 2, "int32", -4),
        ("%", -7, 3, "int32", 2),
        ("min", -3, 4, "int8", -3),
        ("<=", 3, 3, "int32", True),
        ("/", 1.0, 3.0, "float32", float(np.float32(1) / np.float32(3))),
    ],
)
def test_arithmetic_wraps_and_rounds_as_the_type_says(op, left, right, dtype, result):
    assert operate(op, left, right, dtype) == result


def test_casts_wrap_integers_and_round_floats():
    assert [evaluate(cast("int8", Const(value, "int32")), {}, {}) for value in (130, -129, 5)] == [
        -126,
        127,
        5,
    ]
    reads = [Read(Buffer("X", (4,), "float32"), (Const(i),)) for i in range(4)]
    values = {"X": np.array([0.5, 1.5, -2.5, 300], np.float32)}
    assert [evaluate(cast("int8", read), values, {}) for read in reads] == [0, 2, -2, 44]


def test_numbers_wrap_to_their_type():
    assert [
        evaluate(Const(value, dtype), {}, {}) for value, dtype in [(200, "int8"), (-1, "uint8"), (2, "bool")]
    ] == [-56, 255, True]
    assert evaluate(Const(0.1, "float32"), {}, {}) == float(np.float32(0.1))


@pytest.mark.parametrize(
    ("value", "source", "target", "result"),
    [
        (3.5, "float32", "int8", 4),
        (float("nan"), "float32", "int32", 0),
        (1e30, "float32", "int64", (1 << 63) - 1),
        (-1e30, "float64", "int8", 0),
        ((1 << 60) + (1 << 36) + 1, "int64", "float32", float((1 << 60) + (1 << 37))),
        (1e300, "float64", "float32", float("inf")),
    ],
)
def test_casts_have_a_value_everywhere_and_round_once(value, source, target, result):
    array = np.array([value], DTYPES[source].numpy)
    read = Read(Buffer("X", (1,), source), (Const(0),))
    assert evaluate(Cast(target, read), {"X": array}, {}) == result
    assert cast(target, Const(array[0].item(), source)) == Const(result, target)


@pytest.mark.parametrize(
    ("op", "left", "right", "result"),
    [(">>", -5, 1 << 62, -1), (">>", 5, -(1 << 63), 0), ("<<", 5, 1 << 62, 0), ("<<", -5, -(1 << 63), -1)],
)
def test_shifts_by_more_than_the_width_have_a_value(op, left, right, result):
    assert operate(op, left, right, "int64") == result


def test_floats_divide_by_0_as_the_standard_says():
    assert [operate("/", value, zero, "float32") for value in (1.0, -1.0) for zero in (0.0, -0.0)] == [
        np.inf,
        -np.inf,
        -np.inf,
        np.inf,
    ]
    assert np.isnan(operate("/", 0.0, 0.0, "float32"))


@pytest.mark.parametrize("op", ["//", "%"])
def test_whole_numbers_divided_by_0_are_named(op):
    func = parse_func(
        f"def f(A: int32[4], B: int32[4]):\n    for i in range(4):\n        A[i] = A[i] {op} B[i]\n"
    )
    with pytest.raises(IrError, match=rf"^A\[i\] {op} B\[i\] divides 7 by 0 at i = 2$"):
        interpret(func, {"A": np.full(4, 7, np.int32), "B": np.array([1, 2, 0, 3], np.int32)})


def random_index(rng, depth=3):
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([Var("i"), Var("j"), Var("k"), Const(rng.randint(-9, 9))])
    left = random_index(rng, depth - 1)
    op = rng.choice(["+", "-", "*", "//", "%"])
    return Binary(op, left, random_index(rng, depth - 1) if op in "+-" else Const(rng.randint(1, 6)))


@pytest.mark.parametrize("seed", range(200))
def test_affine_forms_keep_value_and_bounds(seed):
    rng = random.Random(seed)
    expr = random_index(rng)
    ranges = {name: Interval(0, rng.randint(0, 7)) for name in "ijk"}
    reach = bounds(expr, ranges)
    for _ in range(20):
        values = {name: rng.randint(0, interval.high) for name, interval in ranges.items()}
        value = evaluate(expr, {}, values)
        assert evaluate(affine(expr).expr(), {}, values) == value
        assert evaluate(simplify(expr), {}, values) == value
        assert reach.low <= value <= reach.high


def step_by_step(part):
    """Return the affine form of an operation whose operands are in affine form."""
    return affine(part).expr() if isinstance(part, Binary) and part.op in ("+", "-", "*", "//", "%") else None


@pytest.mark.parametrize("seed", range(200))
def test_simplification_does_at_once_what_it_would_do_from_the_bottom_up(seed):
    expr = random_index(random.Random(seed), 5)
    simplified = simplify(expr)
    assert simplified == rewrite(expr, step_by_step)
    assert simplify(simplified) == simplified


@pytest.mark.parametrize("op", ["//", "%"])
@pytest.mark.parametrize("divisor", [-3, -1, 0])
def test_index_arithmetic_leaves_divisors_alone_that_are_not_positive(op, divisor):
    expr = Binary(op, Var("i") * 6 + 4, Const(divisor))
    assert simplify(expr) == expr
    reach = bounds(expr, {"i": Interval(0, 7)})
    values = [evaluate(expr, {}, {"i": i}) for i in range(8)] if divisor else [0]
    assert reach.low <= min(values)
    assert max(values) <= reach.high


def test_comparisons_are_decided_where_they_can_be():
    ranges = {"i": Interval(0, 3)}
    i = Var("i")
    assert decide(i * 2 < 7, ranges) is True
    assert decide(i * 2 < 6, ranges) is None
    assert decide(i >= 4, ranges) is False
    always, open_, never = i < 4, i < 2, i < 0
    for left, right, expected in (
        (always, always, True),
        (always, open_, None),
        (open_, always, None),
        (open_, open_, None),
        (never, open_, False),
        (open_, never, False),
        (never, always, False),
    ):
        assert decide(Binary("and", left, right), ranges) is expected


def test_simplification_reads_well():
    i, j = Var("i"), Var("j")
    assert print_expr(simplify((i * 8 + j) - i * 8)) == "j"
    assert print_expr(simplify((i * 8 + j * 4) // 4)) == "i * 2 + j"
    assert print_expr(simplify((i * 8 + j) % 8)) == "j % 8"
    assert print_expr(simplify(j - i * 2 - 3)) == "j - i * 2 - 3"


def test_substitution_reaches_everything():
    values = dict.fromkeys("ijkm", Const(0))
    assert variables(substitute(parse_func(EVERYTHING).body, values)) == set()
    assert variables(substitute(Var("i") + Var("j"), {"i": Var("k")})) == {"k", "j"}


A, C = Buffer("A", (4,), "int8"), Buffer("C", (4,), "int32")
INDEX = Var("i")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (Write(C, (INDEX,), Const(0, "int32")), "variable i is used outside its loop"),
        (
            For(INDEX, 4, Write(C, (INDEX,), Read(A, (INDEX,)))),
            r"C\[i\] = A\[i\]: the value is int8, but C holds int32",
        ),
        (
            For(INDEX, 5, Write(C, (INDEX,), Const(0, "int32"))),
            r"C\[i\]: subscript 0 runs from 0 to 4, but the axis has 4 elements",
        ),
        (For(INDEX, 4, Write(C, (INDEX, INDEX), Const(0, "int32"))), "has 2 subscripts, but C has 1 axes"),
        (
            For(INDEX, 4, For(INDEX, 4, Write(C, (INDEX,), Const(0, "int32")))),
            "loop variable i is declared twice",
        ),
        (For(INDEX, 0, Write(C, (INDEX,), Const(0, "int32"))), "loop i has extent 0; it must be at least 1"),
        (
            Write(A, (Const(0),), Binary("/", Read(A, (Const(0),)), Const(2, "int8"))),
            r"A\[0\] / int8\(2\): / is for float numbers, not for int8",
        ),
        (Write(A, (INDEX % 0,), Const(0, "int8")), "i % 0 divides by 0"),
        (
            Write(A, (Const(0),), Read(A, (Const(0),)) // Const(256, "int8")),
            r"A\[0\] // int8\(256\) divides by 0",
        ),
        (Write(Buffer("D", (1,), "int8"), (Const(0),), Const(0, "int8")), "buffer D is not declared here"),
    ],
)
def test_the_verifier_refuses(body, message):
    with pytest.raises(IrError, match=message):
        verify(Func("f", (A, C), body))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def f(A: int8[4]):\n    A[0] = B[0]",
            "line 2: an element of a known buffer is needed here\n    A[0] = B[0]\n           ^",
        ),
        (
            "def f(A: int8):\n    A[0] = int8(0)",
            "line 1: buffer A needs a type such as int8[4, 16]\ndef f(A: int8):\n      ^",
        ),
        ("def f(A: int9[4]):\n    A[0] = 1", "buffer A: type 'int9' is none of bool, int8"),
        ("def f(A: int8[4]):\n    while A: pass", "line 2: this is not a statement of a loop program"),
        ("def f(A: int8[4]):\n    A[0] = foo(1)", "line 2: foo with 1 arguments is unknown"),
        ("x = 1", "line 1: a program is one function"),
        (
            "def f(A: int8[4]):\n    foo(A[0])",
            "line 2: no intrinsic is called foo; there are none. "
            "Declare it before the program: @intrinsic def foo(tiles): loops\n    foo(A[0])\n    ^",
        ),
        (
            "@intrinsic\ndef g(A: int8[4]):\n    A[4] = int8(0)\n\ndef f(A: int8[4]):\n    g(A[0])",
            "line 2: intrinsic g: A[4]: subscript 0 runs from 4 to 4, but the axis has 4 elements",
        ),
        (
            "def g(A: int8[4]):\n    A[0] = int8(0)\n\ndef f(A: int8[4]):\n    g(A[0])",
            "declarations of intrinsics may precede it, each marked by @intrinsic",
        ),
        (
            "@intrinsic\ndef g(A: int8[4] @ chip):\n    A[0] = int8(0)\n\ndef f(A: int8[4]):\n    g(A[0])",
            "line 2: scope 'chip' is none of dram, input",
        ),
        ("def f(:\n", "line 1: "),
    ],
)
def test_the_parser_points_at_what_is_wrong(text, message):
    with pytest.raises(IrError) as caught:
        parse_func(text)
    assert message in str(caught.value)


def test_types_must_agree():
    with pytest.raises(IrError, match=r"\+ has operands of types int8 and int32; cast one of them"):
        Read(A, (Const(0),)) + Read(C, (Const(0),))
    with pytest.raises(IrError, match="select has values of types int8 and int32"):
        select(INDEX < 2, Read(A, (INDEX,)), Read(C, (INDEX,)))
    with pytest.raises(IrError, match="the truth of Binary is known only when the program runs"):
        bool(INDEX < 2)
    assert maximum(Read(A, (INDEX,)), 0).right == Const(0, "int8")


OPERATORS = ("or", "and", "<", "<=", "==", "<<", ">>", "+", "-", "*", "/", "//", "%")


def same_text(left: str, right: str) -> bool:
    return ast.dump(ast.parse(left)) == ast.dump(ast.parse(right))


@pytest.mark.parametrize("inner", OPERATORS)
@pytest.mark.parametrize("outer", OPERATORS)
def test_brackets_stand_where_python_needs_them_and_nowhere_else(outer, inner):
    below, other = Binary(inner, Var("i"), Var("j")), Var("k")
    for expr, text, plain in (
        (Binary(outer, below, other), f"(i {inner} j) {outer} k", f"i {inner} j {outer} k"),
        (Binary(outer, other, below), f"k {outer} (i {inner} j)", f"k {outer} i {inner} j"),
    ):
        chained = outer == inner in ("or", "and") and expr.left is below  # one BoolOp in Python
        assert print_expr(expr) == (plain if chained or same_text(text, plain) else text)


def test_a_sum_knows_the_coefficient_of_each_variable():
    i, j = Var("i"), Var("j")
    linear, divided, constant = affine(i * 8 - j * 3 + 5), affine(i // 3 * 2 - j), affine(Const(4))
    assert [linear.coefficient(name) for name in "ijk"] == [8, -3, 0]
    assert [divided.coefficient(name) for name in "ijk"] == [0, -1, 0]
    assert [each.is_constant for each in (linear, divided, constant)] == [False, False, True]
