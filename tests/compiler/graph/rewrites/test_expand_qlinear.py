"""Operators on quantised tensors as float operators between conversions."""

import pytest

from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.rewrites.quantised import EXPAND_INTEGERS

TEXTS = {
    "a convolution, with a scale for each output channel": (
        """\
def f(x: uint8[1, 1, 3, 3]):
    s: float32 = constant(0.5)
    p: uint8 = constant(3)
    w: int8[2, 1, 2, 2] = constant([[[[1, -2], [3, 4]]], [[[5, 6], [-7, 8]]]])
    t: float32[2] = constant([0.25, 0.5])
    o: int8[2] = constant([0, 0])
    u: float32 = constant(2.0)
    q: uint8 = constant(7)
    b: int32[2] = constant([10, -20])
    y: uint8[1, 2, 2, 2] = QLinearConv(x, s, p, w, t, o, u, q, b, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1), name="c")
    return y
""",
        """\
def f(x: uint8[1, 1, 3, 3]):
    s: float32 = constant(0.5)
    p: uint8 = constant(3)
    x_real: float32[1, 1, 3, 3] = DequantizeLinear(x, s, p, axis=0)
    w: int8[2, 1, 2, 2] = constant([[[[1, -2], [3, 4]]], [[[5, 6], [-7, 8]]]])
    t: float32[2] = constant([0.25, 0.5])
    o: int8[2] = constant([0, 0])
    w_real: float32[2, 1, 2, 2] = DequantizeLinear(w, t, o, axis=0)
    b: int32[2] = constant([10, -20])
    b_scale: float32[2] = constant([0.125, 0.25])
    b_zero: int32[2] = constant([0, 0])
    b_real: float32[2] = DequantizeLinear(b, b_scale, b_zero, axis=0)
    y_real: float32[1, 2, 2, 2] = Conv(x_real, w_real, b_real, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1), name="c")
    u: float32 = constant(2.0)
    q: uint8 = constant(7)
    y: uint8[1, 2, 2, 2] = QuantizeLinear(y_real, u, q, axis=0, name="c")
    return y
""",
    ),
    "a matrix product with scales of rows and columns": (
        """\
def f(x: int8[2, 2]):
    s: float32[2] = constant([0.5, 0.25])
    p: int8[2] = constant([3, 4])
    w: int8[2, 3] = constant([[1, 2, 3], [4, 5, 6]])
    t: float32[3] = constant([0.25, 0.5, 1.0])
    o: int8[3] = constant([0, 0, 0])
    u: float32 = constant(2.0)
    q: int8 = constant(7)
    m: int8[2, 3] = QLinearMatMul(x, s, p, w, t, o, u, q)
    return m
""",
        """\
def f(x: int8[2, 2]):
    s: float32[2] = constant([0.5, 0.25])
    p: int8[2] = constant([3, 4])
    x_real: float32[2, 2] = DequantizeLinear(x, s, p, axis=0)
    w: int8[2, 3] = constant([[1, 2, 3], [4, 5, 6]])
    t: float32[3] = constant([0.25, 0.5, 1.0])
    o: int8[3] = constant([0, 0, 0])
    w_real: float32[2, 3] = DequantizeLinear(w, t, o, axis=1)
    m_real: float32[2, 3] = MatMul(x_real, w_real)
    u: float32 = constant(2.0)
    q: int8 = constant(7)
    m: int8[2, 3] = QuantizeLinear(m_real, u, q, axis=0)
    return m
""",
    ),
}


@pytest.mark.parametrize("title", TEXTS)
def test_the_text_before_and_after(title):
    check_text(EXPAND_INTEGERS, *TEXTS[title])


def test_scales_that_are_no_constants_are_left_alone():
    check_text(
        EXPAND_INTEGERS,
        """\
def f(x: int8[2, 2], s: float32):
    p: int8 = constant(0)
    y: int8[2, 2] = QLinearMatMul(x, s, p, x, s, p, s, p)
    return y
""",
    )
