"""A softmax that takes integers."""

import pytest

from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.rewrites.conversions import FUSE_CONVERSIONS

TEXTS = {
    "a conversion that only a softmax reads": (
        """\
def f(x: int8[1, 4]):
    s: float32 = constant(0.5)
    p: int8 = constant(-3)
    a: float32[1, 4] = DequantizeLinear(x, s, p, axis=0)
    y: float32[1, 4] = Softmax(a, axis=1, name="last")
    return y
""",
        """\
def f(x: int8[1, 4]):
    y_powers: float32[256] = constant(sha256="7f6b4e1265bfe8ab57c35c8389b48ec3b855dcb61a62af219dc8628dfb8b941d")
    y: float32[1, 4] = DequantizedSoftmax(x, y_powers, axis=1, name="last")
    return y
""",
    ),
}


@pytest.mark.parametrize("title", TEXTS)
def test_the_text_before_and_after(title):
    check_text(FUSE_CONVERSIONS, *TEXTS[title])


LEFT_ALONE = {
    "something else reads the real numbers": """\
def f(x: int8[1, 4]):
    s: float32 = constant(0.5)
    p: int8 = constant(-3)
    a: float32[1, 4] = DequantizeLinear(x, s, p, axis=0)
    y: float32[1, 4] = Softmax(a, axis=1)
    z: float32[1, 4] = Neg(a)
    return y, z
""",
    "the real numbers go out": """\
def f(x: int8[1, 4]):
    s: float32 = constant(0.5)
    p: int8 = constant(-3)
    a: float32[1, 4] = DequantizeLinear(x, s, p, axis=0)
    y: float32[1, 4] = Softmax(a, axis=1)
    return y, a
""",
    "several scales": """\
def f(x: int8[1, 2]):
    s: float32[2] = constant([0.5, 1.0])
    p: int8[2] = constant([0, 0])
    a: float32[1, 2] = DequantizeLinear(x, s, p, axis=1)
    y: float32[1, 2] = Softmax(a, axis=1)
    return y
""",
    "a scale that is no constant": """\
def f(x: int8[1, 2], s: float32):
    p: int8 = constant(0)
    a: float32[1, 2] = DequantizeLinear(x, s, p, axis=0)
    y: float32[1, 2] = Softmax(a, axis=1)
    return y
""",
    "uint8": """\
def f(x: uint8[1, 2]):
    s: float32 = constant(0.5)
    p: uint8 = constant(0)
    a: float32[1, 2] = DequantizeLinear(x, s, p, axis=0)
    y: float32[1, 2] = Softmax(a, axis=1)
    return y
""",
}


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_is_left_alone(title):
    check_text(FUSE_CONVERSIONS, LEFT_ALONE[title])
