"""What the interpreter refuses before it runs a program."""

import numpy as np
import pytest

from vdla.compiler.ir.interpret import interpret
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
