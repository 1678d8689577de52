"""What the interpreter refuses, and what operators and statements mean."""

import itertools

import numpy as np
import pytest

from vdla.compiler.ir.interpret import interpret, operate
from vdla.compiler.ir.nodes import IrError
from vdla.compiler.ir.parse import parse_func

FUNC = parse_func("def f(A: int8[4, 4]):\n    A[0, 0] = int8(1)\n")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "f needs an array A; it was given none"),
        ({"B": np.zeros(3)}, "f needs an array A; it was given B"),
        ({"A": np.zeros((4, 4), np.int16)}, "f: A is int16[4, 4], not int8[4, 4]"),
        ({"A": np.zeros((4, 5), np.int8)}, "f: A is int8[4, 5], not int8[4, 4]"),
    ],
)
def test_wrong_arrays_are_refused(arrays, message):
    with pytest.raises(IrError) as caught:
        interpret(FUNC, arrays)
    assert str(caught.value) == message


def test_arrays_need_not_be_contiguous():
    array = np.zeros((8, 4), np.int8)
    interpret(FUNC, {"A": array[::2]})
    assert array.sum() == array[0, 0] == 1


BINARY = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": np.floor_divide,
    "%": np.mod,
    "min": np.minimum,
    "max": np.maximum,
    "<": np.less,
    "<=": np.less_equal,
    "==": np.equal,
}


@pytest.mark.parametrize("op", BINARY)
def test_operators_are_numpys(op):
    values = np.array([-128, -7, -1, 0, 1, 2, 7, 127], np.int8)
    for left, right in itertools.product(values, values):
        if right or op not in ("//", "%"):
            with np.errstate(over="ignore"):
                expected = BINARY[op](left, right)
            result = operate(op, int(left), int(right), "int8")
            assert (result, type(result)) == (expected.item(), type(expected.item())), (left, right)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("right", [True, False])
def test_truths_are_joined(left, right):
    assert operate("and", left, right, "bool") is (left and right)
    assert operate("or", left, right, "bool") is (left or right)


@pytest.mark.parametrize("places", [-65, -64, -63, -2, -1, 0, 1, 2, 30, 31, 63, 64, 65])
def test_shifts_by_a_negative_number_go_the_other_way(places):
    """The results are exact shifts, cut to the width of the type."""
    for value in (-5, 0, 3, 1 << 20):
        wide = value << places if places >= 0 else value >> -places
        expected = (wide + (1 << 31)) % (1 << 32) - (1 << 31)
        assert operate("<<", value, places, "int32") == expected
        assert operate(">>", value, -places, "int32") == expected


PROGRAM = parse_func("""\
@intrinsic
def add(dst: int32[2] @ accumulator, src: int8[2], imm: int32[1]):
    for k in range(2):
        other = 1 - k
        dst[other] = dst[other] + int32(src[other]) * imm[0]

def f(A: int8[3, 2], B: int32[3, 2]):
    for i in range(3):
        T = alloc(int32[1, 2], "accumulator")
        add(T[0, 0], A[i, 0], int32(10))
        for j in range(2):
            if j <= i - 1:
                other = 2 - i
                add(T[0, 0], A[other, 0], int32(1))
        for j in range(2):
            B[i, j] = T[0, j]
""")


def test_statements_do_what_they_say():
    """A local buffer begins with zeros each time, and a call is what it means."""
    a, b = np.array([[1, -2], [3, 4], [-5, 60]], np.int8), np.full((3, 2), 99, np.int32)
    interpret(PROGRAM, {"A": a, "B": b})
    wide = a.astype(int)
    expected = [wide[i] * 10 + min(i, 2) * wide[2 - i] for i in range(3)]
    np.testing.assert_array_equal(b, expected)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("i - 1", "A[-1, 0] is out of range: axis 0 has 4 elements"),
        ("i + 1", "A[4, 0] is out of range: axis 0 has 4 elements"),
        ("0, i + 1", "A[0, 4] is out of range: axis 1 has 4 elements"),
        ("0, i - 3", "A[0, -3] is out of range: axis 1 has 4 elements"),
    ],
)
def test_a_subscript_outside_is_named(index, message):
    place = index if "," in index else f"{index}, 0"
    func = parse_func(f"def f(A: int8[4, 4]):\n    for i in range(4):\n        A[{place}] = int8(1)\n")
    with pytest.raises(IrError) as caught:
        interpret(func, {"A": np.zeros((4, 4), np.int8)})
    assert str(caught.value) == message


def test_a_division_by_0_outside_of_loops_names_no_variables():
    func = parse_func("def f(A: int32[2]):\n    A[0] = A[0] // A[1]\n")
    with pytest.raises(IrError, match=r"^A\[0\] // A\[1\] divides 5 by 0$"):
        interpret(func, {"A": np.array([5, 0], np.int32)})
