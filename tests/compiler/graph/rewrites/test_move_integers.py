"""Moves of integers instead of real numbers."""

import pytest

from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.rewrites.quantised import MOVE_INTEGERS

TEXTS = {
    "behind a DequantizeLinear, one after another": (
        """\
def f(x: int8[2, 3]):
    s: float32 = constant(0.5)
    z: int8 = constant(1)
    a: float32[2, 3] = DequantizeLinear(x, s, z, axis=0)
    b: float32[3, 2] = Transpose(a, perm=(1, 0))
    c: float32[6] = Reshape(b, shape=(6,))
    y: float32[6] = Sigmoid(c)
    return y, a
""",
        """\
def f(x: int8[2, 3]):
    s: float32 = constant(0.5)
    z: int8 = constant(1)
    a: float32[2, 3] = DequantizeLinear(x, s, z, axis=0)
    b_moved: int8[3, 2] = Transpose(x, perm=(1, 0))
    c_moved: int8[6] = Reshape(b_moved, shape=(6,))
    c: float32[6] = DequantizeLinear(c_moved, s, z, axis=0)
    y: float32[6] = Sigmoid(c)
    return y, a
""",
    ),
    "before a QuantizeLinear, one after another": (
        """\
def f(x: float32[2, 3]):
    a: float32[2, 3] = Sigmoid(x)
    s: float32 = constant(0.5)
    z: int8 = constant(1)
    b: float32[3, 2] = Transpose(a, perm=(1, 0))
    c: float32[6] = Reshape(b, shape=(6,))
    y: int8[6] = QuantizeLinear(c, s, z, axis=0)
    return y, a
""",
        """\
def f(x: float32[2, 3]):
    a: float32[2, 3] = Sigmoid(x)
    s: float32 = constant(0.5)
    z: int8 = constant(1)
    a_quantised: int8[2, 3] = QuantizeLinear(a, s, z, axis=0)
    b_quantised: int8[3, 2] = Transpose(a_quantised, perm=(1, 0))
    y: int8[6] = Reshape(b_quantised, shape=(6,))
    return y, a
""",
    ),
    "elements that are picked": (
        """\
def f(x: int8[2, 3]):
    s: float32 = constant(0.5)
    z: int8 = constant(1)
    a: float32[2, 3] = DequantizeLinear(x, s, z, axis=0)
    i: int64[2] = constant([2, 0])
    b: float32[2, 2] = Gather(a, i, axis=1)
    y: float32[2, 2] = Sigmoid(b)
    return y
""",
        """\
def f(x: int8[2, 3]):
    i: int64[2] = constant([2, 0])
    b_moved: int8[2, 2] = Gather(x, i, axis=1)
    s: float32 = constant(0.5)
    z: int8 = constant(1)
    b: float32[2, 2] = DequantizeLinear(b_moved, s, z, axis=0)
    y: float32[2, 2] = Sigmoid(b)
    return y
""",
    ),
}


@pytest.mark.parametrize("title", TEXTS)
def test_the_text_before_and_after(title):
    graph = TEXTS[title]
    check_text(MOVE_INTEGERS, *graph)


LEFT_ALONE = {
    "scales of channels": """\
def f(x: int8[2, 3]):
    s: float32[2] = constant([0.5, 1.0])
    z: int8[2] = constant([1, 2])
    a: float32[2, 3] = DequantizeLinear(x, s, z, axis=0)
    y: float32[3, 2] = Transpose(a, perm=(1, 0))
    return y
""",
    "real numbers that something else reads": """\
def f(x: float32[2, 3]):
    b: float32[3, 2] = Transpose(x, perm=(1, 0))
    s: float32 = constant(0.5)
    z: int8 = constant(1)
    y: int8[3, 2] = QuantizeLinear(b, s, z, axis=0)
    return y, b
""",
}


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_is_left_alone(title):
    check_text(MOVE_INTEGERS, LEFT_ALONE[title])
