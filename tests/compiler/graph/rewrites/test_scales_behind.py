"""Scales go behind products of two activations."""

import pytest

from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.rewrites.channel_scales import SCALES_AFTER_PRODUCTS

TEXTS = {
    "of an operand that is moved": (
        """\
def f(q: float32[2, 4], k: float32[3, 4]):
    s: float32 = constant(0.5)
    a: float32[3, 4] = Mul(k, s)
    t: float32[4, 3] = Transpose(a, perm=(1, 0))
    y: float32[2, 3] = MatMul(q, t, name="scores")
    return y
""",
        """\
def f(q: float32[2, 4], k: float32[3, 4]):
    t: float32[4, 3] = Transpose(k, perm=(1, 0))
    y_sums: float32[2, 3] = MatMul(q, t, name="scores")
    y_factor: float32 = constant(0.5)
    y: float32[2, 3] = Mul(y_sums, y_factor, name="scores")
    return y
""",
    ),
    "of both operands, in several steps": (
        """\
def f(q: float32[2, 4], k: float32[4, 3]):
    s: float32 = constant(0.5)
    a: float32[2, 4] = Mul(s, q)
    d: float32[1] = constant([4.0])
    b: float32[2, 4] = Div(a, d)
    c: float32[4, 3] = Mul(k, s)
    y: float32[2, 3] = MatMul(b, c)
    return y
""",
        """\
def f(q: float32[2, 4], k: float32[4, 3]):
    y_sums: float32[2, 3] = MatMul(q, k)
    y_factor: float32 = constant(0.0625)
    y: float32[2, 3] = Mul(y_sums, y_factor)
    return y
""",
    ),
}
LEFT_ALONE = {
    "a scale that something else reads": """\
def f(q: float32[2, 4], k: float32[4, 3]):
    s: float32 = constant(0.5)
    a: float32[2, 4] = Mul(q, s)
    y: float32[2, 3] = MatMul(a, k)
    return y, a
""",
    "an operand that is both": """\
def f(q: float32[2, 2]):
    s: float32 = constant(0.5)
    a: float32[2, 2] = Mul(q, s)
    y: float32[2, 2] = MatMul(a, a)
    return y
""",
    "constant weights": """\
def f(q: float32[2, 2]):
    s: float32 = constant(0.5)
    a: float32[2, 2] = Mul(q, s)
    w: float32[2, 2] = constant([[1.0, 2.0], [3.0, 4.0]])
    y: float32[2, 2] = MatMul(a, w)
    return y
""",
    "a factor for each column": """\
def f(q: float32[2, 2], k: float32[2, 2]):
    s: float32[2] = constant([0.5, 1.0])
    a: float32[2, 2] = Mul(q, s)
    y: float32[2, 2] = MatMul(a, k)
    return y
""",
    "a function between": """\
def f(q: float32[2, 2], k: float32[2, 2]):
    s: float32 = constant(0.5)
    a: float32[2, 2] = Mul(q, s)
    b: float32[2, 2] = Sigmoid(a)
    y: float32[2, 2] = MatMul(b, k)
    return y
""",
}


@pytest.mark.parametrize("title", TEXTS)
def test_the_text_before_and_after(title):
    check_text(SCALES_AFTER_PRODUCTS, *TEXTS[title])


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_cannot_go_behind_stays(title):
    check_text(SCALES_AFTER_PRODUCTS, LEFT_ALONE[title])
