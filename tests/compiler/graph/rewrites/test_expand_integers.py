"""Operators on bytes as float operators between conversions."""

import pytest

from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.rewrites.quantised import EXPAND_INTEGERS

POOL = "ceil_mode=0, dilations=(1, 1), kernel_shape=(2, 2), pads=(0, 0, 0, 0), strides=(1, 1)"
TEXTS = {
    "pooling": (
        f"""\
def f(x: int8[1, 1, 3, 3]):
    y: int8[1, 1, 2, 2] = MaxPool(x, {POOL}, name="p")
    return y
""",
        f"""\
def f(x: int8[1, 1, 3, 3]):
    one: float32 = constant(1.0)
    zero: int8 = constant(0)
    x_real: float32[1, 1, 3, 3] = DequantizeLinear(x, one, zero, axis=0)
    y_real: float32[1, 1, 2, 2] = MaxPool(x_real, {POOL}, name="p")
    one_1: float32 = constant(1.0)
    zero_1: int8 = constant(0)
    y: int8[1, 1, 2, 2] = QuantizeLinear(y_real, one_1, zero_1, axis=0, name="p")
    return y
""",
    ),
    "a move of uint8": (
        """\
def f(x: uint8[2, 3]):
    y: uint8[3, 2] = Transpose(x, perm=(1, 0))
    return y
""",
        """\
def f(x: uint8[2, 3]):
    one: float32 = constant(1.0)
    zero: uint8 = constant(0)
    x_real: float32[2, 3] = DequantizeLinear(x, one, zero, axis=0)
    y_real: float32[3, 2] = Transpose(x_real, perm=(1, 0))
    one_1: float32 = constant(1.0)
    zero_1: uint8 = constant(0)
    y: uint8[3, 2] = QuantizeLinear(y_real, one_1, zero_1, axis=0)
    return y
""",
    ),
    "a product that is cast, with a zero point for each column": (
        """\
def f(x: uint8[2, 2]):
    w: int8[2, 2] = constant([[1, 2], [3, 4]])
    p: uint8 = constant(3)
    q: int8[2] = constant([1, -1])
    m: int32[2, 2] = MatMulInteger(x, w, p, q)
    y: float32[2, 2] = Cast(m, to="float32")
    return y
""",
        """\
def f(x: uint8[2, 2]):
    one: float32 = constant(1.0)
    zero: uint8 = constant(3)
    x_real: float32[2, 2] = DequantizeLinear(x, one, zero, axis=0)
    w: int8[2, 2] = constant([[1, 2], [3, 4]])
    one_1: float32[2] = constant([1.0, 1.0])
    zero_1: int8[2] = constant([1, -1])
    w_real: float32[2, 2] = DequantizeLinear(w, one_1, zero_1, axis=1)
    y: float32[2, 2] = MatMul(x_real, w_real)
    return y
""",
    ),
}


@pytest.mark.parametrize("title", TEXTS)
def test_the_text_before_and_after(title):
    check_text(EXPAND_INTEGERS, *TEXTS[title])


LEFT_ALONE = {
    "a move of int8": """\
def f(x: int8[2, 3]):
    y: int8[3, 2] = Transpose(x, perm=(1, 0))
    return y
""",
    "a product that something else reads": """\
def f(x: int8[2, 2]):
    w: int8[2, 2] = constant([[1, 2], [3, 4]])
    m: int32[2, 2] = MatMulInteger(x, w)
    y: float32[2, 2] = Cast(m, to="float32")
    return y, m
""",
    "a product that another operator reads, too": """\
def f(x: int8[2, 2]):
    w: int8[2, 2] = constant([[1, 2], [3, 4]])
    m: int32[2, 2] = MatMulInteger(x, w)
    y: float32[2, 2] = Cast(m, to="float32")
    z: int32[2, 2] = Add(m, m)
    return y, z
""",
    "a product that is cast to whole numbers": """\
def f(x: int8[2, 2]):
    w: int8[2, 2] = constant([[1, 2], [3, 4]])
    m: int32[2, 2] = MatMulInteger(x, w)
    y: int64[2, 2] = Cast(m, to="int64")
    return y
""",
    "a product that nothing reads": """\
def f(x: int8[2, 2]):
    w: int8[2, 2] = constant([[1, 2], [3, 4]])
    m: int32[2, 2] = MatMulInteger(x, w)
    y: int8[2, 2] = Transpose(x, perm=(1, 0))
    return y
""",
    "a zero point of weights that is computed": """\
def f(x: int8[2, 2], p: int8):
    w: int8[2, 2] = constant([[1, 2], [3, 4]])
    z: int8 = constant(1)
    m: int32[2, 2] = MatMulInteger(x, w, z, p)
    y: float32[2, 2] = Cast(m, to="float32")
    return y
""",
    "a move of int8 and whole numbers": """\
def f(x: uint8[2, 2]):
    i: int64[1] = constant([1])
    y: uint8[1, 2] = Gather(x, i, axis=0)
    return y
""",
    "a zero point that is computed": """\
def f(x: int8[2, 2], p: int8):
    w: int8[2, 2] = constant([[1, 2], [3, 4]])
    m: int32[2, 2] = MatMulInteger(x, w, p)
    y: float32[2, 2] = Cast(m, to="float32")
    return y
""",
    "pooling of real numbers": f"""\
def f(x: float32[1, 1, 3, 3]):
    y: float32[1, 1, 2, 2] = MaxPool(x, {POOL})
    return y
""",
}


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_is_left_alone(title):
    check_text(EXPAND_INTEGERS, LEFT_ALONE[title])
