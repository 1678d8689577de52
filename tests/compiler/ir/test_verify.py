"""What the verifier refuses: each part of a program is looked at, and what is declared holds no further."""

import re

import pytest

from vdla.compiler.ir.nodes import (
    Alloc,
    Binary,
    Buffer,
    Cast,
    Const,
    For,
    Func,
    If,
    IrError,
    Let,
    Read,
    Select,
    Var,
    Write,
    block,
)
from vdla.compiler.ir.verify import verify

A, B, F = Buffer("A", (4,), "int8"), Buffer("B", (4, 3), "int32"), Buffer("F", (4,), "float32")
X, J, GONE = Var("i"), Var("j"), Var("gone")
ZERO, YES = Const(0, "int8"), Const(True, "bool")
WRITE = Write(A, (X,), ZERO)
FAR = Write(A, (Const(4),), ZERO)
OUT = "A[4]: subscript 0 runs from 4 to 4, but the axis has 4 elements"
OUTSIDE = "variable gone is used outside its loop"


def loop(body, extent=4):
    return For(X, extent, body)


def first(value):
    return Write(A, (Const(0),), value)


def compared(left, op="<", right=ZERO):
    return loop(If(Binary(op, left, right), WRITE))


GONE_BYTE = Read(A, (GONE,))
REFUSED = {
    "a variable to the left": (first(Binary("+", GONE_BYTE, ZERO)), OUTSIDE),
    "a variable to the right": (first(Binary("+", ZERO, GONE_BYTE)), OUTSIDE),
    "a variable of a condition": (compared(GONE_BYTE), OUTSIDE),
    "a variable of a choice": (first(Select(Binary("<", GONE_BYTE, ZERO), ZERO, ZERO)), OUTSIDE),
    "a variable of what is chosen": (first(Select(YES, GONE_BYTE, ZERO)), OUTSIDE),
    "a variable of what is chosen otherwise": (first(Select(YES, ZERO, GONE_BYTE)), OUTSIDE),
    "a variable of a cast": (first(Cast("int8", Read(B, (GONE, GONE)))), OUTSIDE),
    "a variable of a subscript": (Write(A, (GONE,), ZERO), OUTSIDE),
    "a variable behind its loop": (block(loop(WRITE), WRITE), "variable i is used outside its loop"),
    "a second statement": (block(first(ZERO), FAR), OUT),
    "what stands behind a condition": (loop(block(If(YES, WRITE), FAR)), OUT),
    "what stands behind a choice": (block(first(Select(YES, Read(A, (Const(9),)), ZERO)), FAR), OUT),
    "a subscript within a choice's condition": (
        first(Select(Binary("<", Read(A, (Const(4),)), ZERO), ZERO, ZERO)),
        OUT,
    ),
    "a subscript of less than 0": (
        loop(Write(A, (X - 1,), ZERO)),
        "A[i - 1]: subscript 0 runs from -1 to 2, but the axis has 4 elements",
    ),
    "a second subscript": (
        loop(Write(B, (X, X), Const(0, "int32"))),
        "B[i, i]: subscript 1 runs from 0 to 3, but the axis has 3 elements",
    ),
    "too few subscripts": (
        Write(B, (Const(0),), Const(0, "int32")),
        "B[0] has 1 subscripts, but B has 2 axes",
    ),
    "a subscript that is a byte": (Write(A, (ZERO,), ZERO), "A[int8(0)]: subscript 0 is int8, not an index"),
    "a condition that is a number": (loop(If(X, WRITE)), "i is index, not a truth value"),
    "a choice by a number": (first(Select(Const(1), ZERO, ZERO)), "1 is index, not a truth value"),
    "a buffer that is declared twice": (Alloc(A, first(ZERO)), "buffer A is declared twice"),
    "a buffer of its own, behind its body": (
        block(
            Alloc(Buffer("T", (1,), "int8"), first(ZERO)), Write(Buffer("T", (1,), "int8"), (Const(0),), ZERO)
        ),
        "T[0]: buffer T is not declared here, or differently",
    ),
    "a buffer of another shape": (
        Write(Buffer("A", (5,), "int8"), (Const(0),), ZERO),
        "A[0]: buffer A is not declared here, or differently",
    ),
    "a loop variable of a buffer's name": (
        For(Var("A"), 4, first(ZERO)),
        "loop variable A is declared twice",
    ),
    "a variable of a loop's name": (loop(Let(X, Const(0), WRITE)), "variable i is declared twice"),
    "a variable that is a byte": (Let(J, ZERO, WRITE), "variable j is int8, not an index"),
    "a value of a variable": (Let(J, GONE, first(ZERO)), OUTSIDE),
    "a variable behind its statements": (
        block(Let(X, Const(0), WRITE), WRITE),
        "variable i is used outside its loop",
    ),
    "a variable that is too large": (
        loop(Let(J, X % 3 + 2, Write(A, (J,), ZERO))),
        "A[j]: subscript 0 runs from 2 to 4, but the axis has 4 elements",
    ),
    "another type to the right": (
        first(Binary("+", ZERO, Const(0, "int32"))),
        "int8(0) + int32(0): + has operands of types int8 and int32",
    ),
    "numbers for truths": (
        compared(Const(1), "and", Const(2)),
        "1 and 2: and has operands of types index and index",
    ),
    "truths for numbers": (
        first(Cast("int8", Binary("+", YES, YES))),
        "True + True: + is for whole and float numbers, not for bool",
    ),
    "a remainder of floats": (
        Write(F, (Const(0),), Binary("%", Read(F, (Const(0),)), Const(2.0, "float32"))),
        "F[0] % float32(2.0): % is for whole numbers, not for float32",
    ),
    "a shift of floats": (
        Write(F, (Const(0),), Binary("<<", Read(F, (Const(0),)), Const(2.0, "float32"))),
        "F[0] << float32(2.0): << is for whole numbers, not for float32",
    ),
    "a quotient by 0": (first(Binary("//", ZERO, ZERO)), "int8(0) // int8(0) divides by 0"),
    "a value of another type": (
        first(Const(0, "int32")),
        "A[0] = int32(0): the value is int32, but A holds int8",
    ),
    "an extent that is no whole number": (
        For(X, 1.5, WRITE),
        "loop i has extent 1.5; it must be at least 1\nfor i in range(1.5):\n    A[i] = int8(0)\n",
    ),
}


@pytest.mark.parametrize("title", REFUSED)
def test_each_part_of_a_program_is_looked_at(title):
    body, message = REFUSED[title]
    with pytest.raises(IrError, match=f"^{re.escape(message)}$"):
        verify(Func("f", (A, B, F), body))


TAKEN = {
    "subscripts under a condition": loop(If(Binary("<", X, Const(2)), Write(A, (X + 9,), ZERO))),
    "subscripts of a choice": first(Select(YES, Read(A, (Const(9),)), Read(A, (Const(-1),)))),
    "subscripts within a condition within one": loop(If(YES, block(If(YES, WRITE), FAR))),
    "subscripts that are read": Write(B, (Cast("index", Read(A, (Const(0),))), Const(2)), Const(0, "int32")),
    "one name in two loops": block(loop(WRITE), loop(WRITE, 2)),
    "one name of two buffers, one behind the other": block(
        *[Alloc(Buffer("T", (1,), "int8"), Write(Buffer("T", (1,), "int8"), (Const(0),), ZERO))] * 2
    ),
    "a loop once": loop(WRITE, 1),
    "comparisons of truths": loop(If(Binary("==", YES, YES), WRITE)),
    "floats": Write(F, (Const(3),), Binary("/", Read(F, (Const(0),)), Const(0.0, "float32"))),
    "a remainder by what a run tells": first(Binary("%", ZERO, Read(A, (Const(1),)))),
}


@pytest.mark.parametrize("title", TAKEN)
def test_what_may_be_is_taken(title):
    verify(Func("f", (A, B, F), TAKEN[title]))
