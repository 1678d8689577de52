"""Conversions of constants."""

import pytest

from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.pipeline import Pipeline
from vdla.compiler.graph.rewrites.quantised import DEQUANTISE_CONSTANTS, QUANTISE_CONSTANTS

FOLD_CONVERSIONS = Pipeline((QUANTISE_CONSTANTS, DEQUANTISE_CONSTANTS))

TEXTS = {
    "an activation of scale 0 is zeros, and what quantises it is not needed": (
        """\
def f(x: float32[2, 2]):
    s: float32 = constant(0.0)
    z: int8 = constant(3)
    q: int8[2, 2] = QuantizeLinear(x, s, z, axis=0)
    a: float32[2, 2] = DequantizeLinear(q, s, z, axis=0)
    y: float32[2, 2] = Relu(a)
    return y
""",
        """\
def f(x: float32[2, 2]):
    a: float32[2, 2] = constant([[0.0, 0.0], [0.0, 0.0]])
    y: float32[2, 2] = Relu(a)
    return y
""",
    ),
    "weights of float, as training leaves them, are narrow; they are transposed as integers": (
        """\
def f(x: int8[2, 2]):
    s: float32 = constant(0.5)
    z: int8 = constant(0)
    a: float32[2, 2] = DequantizeLinear(x, s, z, axis=0)
    w: float32[3, 2] = constant([[1.0, -2.0], [3.0, 4.0], [5.0, 6.0]])
    t: float32[3] = constant([0.5, 0.25, 1.0])
    o: int8[3] = constant([0, 0, 0])
    q: int8[3, 2] = QuantizeLinear(w, t, o, axis=0)
    r: float32[3, 2] = DequantizeLinear(q, t, o, axis=0)
    u: float32[2, 3] = Transpose(r, perm=(1, 0))
    y: float32[2, 3] = MatMul(a, u)
    return y
""",
        """\
def f(x: int8[2, 2]):
    s: float32 = constant(0.5)
    z: int8 = constant(0)
    a: float32[2, 2] = DequantizeLinear(x, s, z, axis=0)
    u_integers: int8[2, 3] = constant([[2, 12, 5], [-4, 16, 6]])
    t: float32[3] = constant([0.5, 0.25, 1.0])
    o: int8[3] = constant([0, 0, 0])
    u: float32[2, 3] = DequantizeLinear(u_integers, t, o, axis=1)
    y: float32[2, 3] = MatMul(a, u)
    return y
""",
    ),
    "weights are reshaped as integers, with the axis of their scales": (
        """\
def f(x: int8[1, 2]):
    s: float32 = constant(0.5)
    z: int8 = constant(0)
    a: float32[1, 2] = DequantizeLinear(x, s, z, axis=0)
    w: int8[2, 2, 1] = constant([[[1], [2]], [[3], [4]]])
    t: float32[2] = constant([0.5, 0.25])
    o: int8[2] = constant([0, 0])
    r: float32[2, 2, 1] = DequantizeLinear(w, t, o, axis=1)
    u: float32[2, 2] = Squeeze(r, axes=(2,))
    y: float32[1, 2] = MatMul(a, u)
    return y
""",
        """\
def f(x: int8[1, 2]):
    s: float32 = constant(0.5)
    z: int8 = constant(0)
    a: float32[1, 2] = DequantizeLinear(x, s, z, axis=0)
    u_integers: int8[2, 2] = constant([[1, 2], [3, 4]])
    t: float32[2] = constant([0.5, 0.25])
    o: int8[2] = constant([0, 0])
    u: float32[2, 2] = DequantizeLinear(u_integers, t, o, axis=1)
    y: float32[1, 2] = MatMul(a, u)
    return y
""",
    ),
    "scales that do not go along an axis of what is reshaped": (
        """\
def f(x: int8[1, 2]):
    s: float32 = constant(0.5)
    z: int8 = constant(0)
    a: float32[1, 2] = DequantizeLinear(x, s, z, axis=0)
    w: int8[4] = constant([1, 2, 3, 4])
    t: float32[4] = constant([0.5, 0.25, 1.0, 2.0])
    o: int8[4] = constant([0, 0, 0, 0])
    r: float32[4] = DequantizeLinear(w, t, o, axis=0)
    u: float32[2, 2] = Reshape(r, shape=(2, 2))
    y: float32[1, 2] = MatMul(a, u)
    return y
""",
        """\
def f(x: int8[1, 2]):
    s: float32 = constant(0.5)
    z: int8 = constant(0)
    a: float32[1, 2] = DequantizeLinear(x, s, z, axis=0)
    r: float32[4] = constant([0.5, 0.5, 3.0, 8.0])
    u: float32[2, 2] = Reshape(r, shape=(2, 2))
    y: float32[1, 2] = MatMul(a, u)
    return y
""",
    ),
    "weights of products of real numbers are real": (
        """\
def f(x: float32[2, 2]):
    w: int8[2, 1] = constant([[3], [-4]])
    t: float32 = constant(0.5)
    o: int8 = constant(1)
    r: float32[2, 1] = DequantizeLinear(w, t, o, axis=0)
    y: float32[2, 1] = MatMul(x, r)
    return y
""",
        """\
def f(x: float32[2, 2]):
    r: float32[2, 1] = constant([[1.0], [-2.5]])
    y: float32[2, 1] = MatMul(x, r)
    return y
""",
    ),
    "weights of one scale are transposed as integers": (
        """\
def f(x: int8[2, 2]):
    s: float32 = constant(0.5)
    z: int8 = constant(0)
    a: float32[2, 2] = DequantizeLinear(x, s, z, axis=0)
    w: int8[3, 2] = constant([[1, -2], [3, 4], [5, 6]])
    r: float32[3, 2] = DequantizeLinear(w, s, z, axis=1)
    u: float32[2, 3] = Transpose(r, perm=(1, 0))
    y: float32[2, 3] = MatMul(a, u)
    return y
""",
        """\
def f(x: int8[2, 2]):
    s: float32 = constant(0.5)
    z: int8 = constant(0)
    a: float32[2, 2] = DequantizeLinear(x, s, z, axis=0)
    u_integers: int8[2, 3] = constant([[1, 3, 5], [-2, 4, 6]])
    u: float32[2, 3] = DequantizeLinear(u_integers, s, z, axis=0)
    y: float32[2, 3] = MatMul(a, u)
    return y
""",
    ),
    "a constant that is the left operand is real": (
        """\
def f(x: int8[2, 2]):
    s: float32 = constant(0.5)
    z: int8 = constant(0)
    a: float32[2, 2] = DequantizeLinear(x, s, z, axis=0)
    w: int8[1, 2] = constant([[1, -2]])
    r: float32[1, 2] = DequantizeLinear(w, s, z, axis=0)
    y: float32[1, 2] = MatMul(r, a)
    return y
""",
        """\
def f(x: int8[2, 2]):
    s: float32 = constant(0.5)
    z: int8 = constant(0)
    a: float32[2, 2] = DequantizeLinear(x, s, z, axis=0)
    r: float32[1, 2] = constant([[0.5, -1.0]])
    y: float32[1, 2] = MatMul(r, a)
    return y
""",
    ),
    "an operand that is constant is real; it goes out": (
        """\
def f(x: int8[2]):
    s: float32 = constant(0.5)
    z: int8 = constant(0)
    a: float32[2] = DequantizeLinear(x, s, z, axis=0)
    c: int8[2] = constant([3, 4])
    b: float32[2] = DequantizeLinear(c, s, z, axis=0)
    y: float32[2] = Add(a, b)
    return y, b
""",
        """\
def f(x: int8[2]):
    s: float32 = constant(0.5)
    z: int8 = constant(0)
    a: float32[2] = DequantizeLinear(x, s, z, axis=0)
    b: float32[2] = constant([1.5, 2.0])
    y: float32[2] = Add(a, b)
    return y, b
""",
    ),
}


@pytest.mark.parametrize("title", TEXTS)
def test_the_text_before_and_after(title):
    check_text(FOLD_CONVERSIONS, *TEXTS[title])


LEFT_ALONE = {
    "a scale that is computed": """\
def f(x: float32[2], s: float32):
    w: int8[2] = constant([1, 2])
    o: int8 = constant(0)
    r: float32[2] = DequantizeLinear(w, s, o, axis=0)
    y: float32[2] = Add(x, r)
    return y
""",
    "a scale of 0, which is refused later": """\
def f(x: float32[2]):
    w: float32[2] = constant([1.0, 2.0])
    s: float32 = constant(0.0)
    o: int8 = constant(0)
    q: int8[2] = QuantizeLinear(w, s, o, axis=0)
    t: float32 = constant(1.0)
    r: float32[2] = DequantizeLinear(q, t, o, axis=0)
    y: float32[2] = Add(x, r)
    return y
""",
}


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_is_left_alone(title):
    check_text(FOLD_CONVERSIONS, LEFT_ALONE[title])
