"""Building loop programs: operators of Python, types of numbers, and what an intrinsic is certain to touch."""

import re

import pytest

from vdla.compiler.ir.calls import Call, Intrinsic, is_tile
from vdla.compiler.ir.nodes import (
    Alloc,
    Binary,
    Block,
    Buffer,
    Cast,
    Const,
    For,
    Func,
    If,
    IrError,
    Let,
    LoopKind,
    Read,
    Scope,
    Select,
    Var,
    Write,
    all_of,
    as_expr,
    binary,
    block,
    cast,
    maximum,
    minimum,
    select,
)
from vdla.compiler.ir.parse import parse_intrinsic
from vdla.compiler.ir.rewrite import rewrite, rewrite_statements, walk, walk_statements
from vdla.compiler.ir.text import print_expr, print_stmt

X, J = Var("i"), Var("j")
A, B = Buffer("A", (4,), "int8"), Buffer("B", (2, 3), "int32", Scope.ACCUMULATOR)
FIRST = Read(A, (X,))

WRITTEN = {
    "i + j": X + J,
    "3 + i": 3 + X,
    "i + 3": X + 3,
    "i - j": X - J,
    "3 - i": 3 - X,
    "i - 3": X - 3,
    "i * 3": X * 3,
    "3 * i": 3 * X,
    "i // 3": X // 3,
    "i % 3": X % 3,
    "i >> 3": X >> 3,
    "i << 3": X << 3,
    "i / 3": X / 3,
    "0 - i": -X,
    "i < 3": X < 3,
    "i <= 3": X <= 3,
    "3 < i": X > 3,
    "3 <= i": X >= 3,
    "i == 3": X.equal(3),
    "min(i, 3)": minimum(X, 3),
    "max(3, i)": maximum(3, X),
    "int8(0) - A[i]": -FIRST,
    "A[i] + int8(3)": FIRST + 3,
    "int8(3) - A[i]": 3 - FIRST,
    "max(A[i], int8(3))": maximum(FIRST, 3),
    "min(int8(3), A[i])": minimum(3, FIRST),
    "select(i < 3, A[i], int8(7))": select(X < 3, FIRST, 7),
    "select(i < 3, int8(7), A[i])": select(X < 3, 7, FIRST),
    "select(i < 3, 7, 8)": select(X < 3, 7, 8),
    "select(i < 3, i, j)": select(X < 3, X, J),
    "i < 4": all_of(X < 4),
    "i < 3 and j < 4 and i < j": all_of(X < 3, J < 4, X < J),
    "int32(A[i])": cast("int32", FIRST),
    "A[i]": cast("int8", FIRST),
    "int8(-126)": cast("int8", Const(130)),
}


@pytest.mark.parametrize("text", WRITTEN)
def test_operators_of_python_build_expressions(text):
    assert print_expr(WRITTEN[text]) == text


@pytest.mark.parametrize(
    ("expr", "dtype"),
    [
        (X + J, "index"),
        (FIRST + 1, "int8"),
        (X < 3, "bool"),
        (FIRST.equal(3), "bool"),
        (all_of(X < 3, J < 3), "bool"),
        (Binary("or", X < 3, J < 3), "bool"),
        (minimum(FIRST, 3), "int8"),
        (select(X < 3, FIRST, 3), "int8"),
        (Cast("float32", FIRST), "float32"),
        (Read(B, (X, J)), "int32"),
        (as_expr(3), "index"),
        (as_expr(3, "int8"), "int8"),
        (Const(0.5, "float32") / 2.0, "float32"),
    ],
    ids=str,
)
def test_an_expression_has_a_type(expr, dtype):
    assert expr.dtype == dtype


REFUSED = {
    "+ has operands of types index and int8; cast one of them": lambda: X + FIRST,
    "min has operands of types int8 and int32; cast one of them": lambda: minimum(FIRST, Read(B, (X, J))),
    "select has a condition of type index, not bool": lambda: select(X, 1, 2),
    "select has values of types int8 and index; cast one of them": lambda: select(X < 1, FIRST, X),
    "'x' is not an expression": lambda: as_expr("x"),
    "None is not an expression": lambda: binary("+", X, None),
    "buffer A: extent 0 is not a positive whole number": lambda: Buffer("A", (2, 0), "int8"),
    "buffer A: extent 1.5 is not a positive whole number": lambda: Buffer("A", (1.5,), "int8"),
    "the truth of Var is known only when the program runs; use select or all_of": lambda: bool(X),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_built_is_refused(message):
    with pytest.raises(IrError, match=f"^{re.escape(message)}$"):
        REFUSED[message]()


def test_a_type_that_is_not_there_is_refused():
    for make in (lambda: cast("int9", X), lambda: Buffer("A", (1,), "int9")):
        with pytest.raises(IrError, match=r"type 'int9' is none of bool, int8, "):
            make()


def test_a_buffer_has_a_size():
    assert (A.size, B.size, Buffer("C", (1,), "int8").size) == (4, 6, 1)


WRITE = Write(A, (X,), FIRST + 1)
MEANING = parse_intrinsic("""\
def g(dst: int32[2] @ accumulator, src: int8[2], other: int8[2], inside: bool[1], imm: int32[1]):
    for i in range(2):
        dst[i] = select(inside[0], int32(src[i]), imm[0])
        if i < 1:
            dst[i] = int32(other[i])
""")
NODES = [
    X + J,
    Select(X < J, X, J),
    Cast("int32", FIRST),
    Read(B, (X, J)),
    WRITE,
    Write(B, (X, J), Const(0, "int32")),
    For(X, 4, WRITE, LoopKind.VTHREAD),
    If(X < J, WRITE),
    Block((WRITE, If(X < J, WRITE))),
    Alloc(B, WRITE),
    Let(J, X + 1, WRITE),
    Call(MEANING, (Read(B, (X, Const(0))), FIRST, FIRST, X < J, Const(3, "int32"))),
]


@pytest.mark.parametrize("node", NODES, ids=lambda node: type(node).__name__)
def test_a_node_is_rebuilt_of_what_is_below_it(node):
    assert node.rebuilt(node.below()) == node
    other = node.rebuilt(tuple(("new", place) for place in range(len(node.below()))))
    assert other.below() == tuple(("new", place) for place in range(len(node.below())))
    assert type(other) is type(node)


def test_a_rebuilt_statement_keeps_what_it_declares():
    loop, alloc = (node.rebuilt((Block(()),)) for node in (NODES[6], NODES[9]))
    assert (loop.var, loop.extent, loop.kind) == (X, 4, LoopKind.VTHREAD)
    assert alloc.buffer == B
    assert NODES[11].rebuilt(NODES[11].operands).name == "g"


def test_an_intrinsic_is_certain_of_what_it_touches_under_no_condition():
    """Of a choice and of a condition, the condition alone is looked at in any case."""
    assert MEANING.certain == {"dst", "inside"}
    assert [is_tile(param) for param in MEANING.meaning.params] == [True, True, True, False, False]
    read, guard = Read(A, (Const(0),)), Read(B, (Const(0), Const(0)))
    body = If(guard < 1, Write(A, (Const(0),), read))
    assert Intrinsic(Func("h", (A, B), body)).certain == {"B"}
    assert Intrinsic(Func("h", (A,), Block((body, Write(A, (Const(0),), read))))).certain == {"A", "B"}


def test_blocks_do_not_stand_in_blocks():
    other = If(X < J, WRITE)
    assert block(WRITE) is WRITE
    assert block(block(WRITE, other), WRITE) == Block((WRITE, other, WRITE))
    assert block() == Block(())


def test_statements_are_rewritten_from_the_bottom_up():
    stmt = For(X, 4, If(X < J, block(WRITE, Alloc(B, WRITE))))
    seen = []
    assert rewrite_statements(stmt, seen.append) is stmt
    kinds = [type(part).__name__ for part in seen]
    assert kinds == ["Write", "Write", "Alloc", "Block", "If", "For"]
    assert [type(part).__name__ for part in walk_statements(stmt)] == [
        "For",
        "If",
        "Block",
        "Write",
        "Alloc",
        "Write",
    ]
    less = rewrite_statements(stmt, lambda part: part.body if isinstance(part, Alloc) else None)
    assert less == For(X, 4, If(X < J, block(WRITE, WRITE)))
    assert print_stmt(less) == (
        "for i in range(4):\n    if i < j:\n        A[i] = A[i] + int8(1)\n        A[i] = A[i] + int8(1)\n"
    )


def test_nodes_are_walked_from_the_top_down_and_rewritten_from_the_bottom_up():
    expr = select(X < J, X * 2, J)
    names = [print_expr(part) for part in walk(expr)]
    assert names == ["select(i < j, i * 2, j)", "i < j", "i", "j", "i * 2", "i", "2", "j"]
    assert print_expr(rewrite(expr, lambda part: J if part == X else None)) == "select(j < j, j * 2, j)"


def test_an_intrinsic_whose_meaning_is_wrong_is_refused():
    with pytest.raises(IrError, match=r"A\[4\]: subscript 0 runs from 4 to 4, but the axis has 4 elements"):
        parse_intrinsic("def g(A: int8[4]):\n    A[4] = int8(0)\n")
