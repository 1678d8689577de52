"""uint8 between conversions becomes int8; what the outside sees does not."""

import pytest

from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.passes.signed_activations import SignedActivations

TEXTS = {
    "activations and weights; inputs and outputs change their sign": (
        """\
def f(x: float32[2], k: uint8[2]):
    s: float32 = constant(0.5)
    p: uint8 = constant(3)
    a: uint8[2] = QuantizeLinear(x, s, p, axis=0)
    b: float32[2] = DequantizeLinear(a, s, p, axis=0)
    w: uint8[2] = constant([128, 0])
    t: float32[2] = constant([0.25, 0.5])
    o: uint8[2] = constant([128, 129])
    c: float32[2] = DequantizeLinear(w, t, o, axis=0)
    d: float32[2] = Add(b, c)
    h: float32[2] = DequantizeLinear(k, s, p, axis=0)
    e: float32[2] = Add(d, h)
    y: uint8[2] = QuantizeLinear(e, s, p, axis=0)
    return y
""",
        """\
def f(x: float32[2], k: uint8[2]):
    k_signed: int8[2] = FlipSign(k, reason="bytes without a sign go into or out of operators on the host, or of the network")
    s: float32 = constant(0.5)
    p_signed: int8 = constant(-125)
    a: int8[2] = QuantizeLinear(x, s, p_signed, axis=0)
    b: float32[2] = DequantizeLinear(a, s, p_signed, axis=0)
    w: int8[2] = constant([0, -128])
    t: float32[2] = constant([0.25, 0.5])
    o_signed: int8[2] = constant([0, 1])
    c: float32[2] = DequantizeLinear(w, t, o_signed, axis=0)
    d: float32[2] = Add(b, c)
    h: float32[2] = DequantizeLinear(k_signed, s, p_signed, axis=0)
    e: float32[2] = Add(d, h)
    y_signed: int8[2] = QuantizeLinear(e, s, p_signed, axis=0)
    y: uint8[2] = FlipSign(y_signed, reason="bytes without a sign go into or out of operators on the host, or of the network")
    return y
""",
    ),
    "something else reads the integers": (
        """\
def f(x: float32[2]):
    s: float32 = constant(0.5)
    p: uint8 = constant(3)
    a: uint8[2] = QuantizeLinear(x, s, p, axis=0)
    b: float32[2] = DequantizeLinear(a, s, p, axis=0)
    c: int32[2] = Cast(a, to="int32")
    return b, c
""",
        """\
def f(x: float32[2]):
    s: float32 = constant(0.5)
    p_signed: int8 = constant(-125)
    a_signed: int8[2] = QuantizeLinear(x, s, p_signed, axis=0)
    a: uint8[2] = FlipSign(a_signed, reason="bytes without a sign go into or out of operators on the host, or of the network")
    b: float32[2] = DequantizeLinear(a_signed, s, p_signed, axis=0)
    c: int32[2] = Cast(a, to="int32")
    return b, c
""",
    ),
    "bytes that an operator on the host makes and reads": (
        """\
def f(x: float32[2]):
    s: float32 = constant(0.5)
    p: uint8 = constant(3)
    a: uint8[2] = Cast(x, to="uint8")
    b: float32[2] = DequantizeLinear(a, s, p, axis=0)
    c: uint8[2] = QuantizeLinear(b, s, p, axis=0)
    d: float32[2] = Cast(c, to="float32")
    return d
""",
        """\
def f(x: float32[2]):
    a: uint8[2] = Cast(x, to="uint8")
    a_signed: int8[2] = FlipSign(a, reason="bytes without a sign go into or out of operators on the host, or of the network")
    s: float32 = constant(0.5)
    p_signed: int8 = constant(-125)
    b: float32[2] = DequantizeLinear(a_signed, s, p_signed, axis=0)
    c_signed: int8[2] = QuantizeLinear(b, s, p_signed, axis=0)
    c: uint8[2] = FlipSign(c_signed, reason="bytes without a sign go into or out of operators on the host, or of the network")
    d: float32[2] = Cast(c, to="float32")
    return d
""",
    ),
    "integers that go out": (
        """\
def f(x: float32[2]):
    s: float32 = constant(0.5)
    p: uint8 = constant(3)
    a: uint8[2] = QuantizeLinear(x, s, p, axis=0)
    y: float32[2] = DequantizeLinear(a, s, p, axis=0)
    return y, a
""",
        """\
def f(x: float32[2]):
    s: float32 = constant(0.5)
    p_signed: int8 = constant(-125)
    a_signed: int8[2] = QuantizeLinear(x, s, p_signed, axis=0)
    a: uint8[2] = FlipSign(a_signed, reason="bytes without a sign go into or out of operators on the host, or of the network")
    y: float32[2] = DequantizeLinear(a_signed, s, p_signed, axis=0)
    return y, a
""",
    ),
}


@pytest.mark.parametrize("title", TEXTS)
def test_the_text_before_and_after(title):
    check_text(SignedActivations(), *TEXTS[title])


LEFT_ALONE = {
    "bytes that no conversion makes or reads": """\
def f(x: uint8[2]):
    y: uint8[2] = Identity(x)
    z: float32[2] = Cast(y, to="float32")
    return y, z
""",
    "another type of zero point": """\
def f(x: uint8[2], p: uint8):
    s: float32 = constant(0.5)
    y: float32[2] = DequantizeLinear(x, s, p, axis=0)
    return y
""",
    "a zero point that is no constant": """\
def f(x: float32[2], p: uint8):
    s: float32 = constant(0.5)
    a: uint8[2] = QuantizeLinear(x, s, p, axis=0)
    y: float32[2] = DequantizeLinear(a, s, p, axis=0)
    return y
""",
    "int8 already": """\
def f(x: float32[2]):
    s: float32 = constant(0.5)
    p: int8 = constant(3)
    a: int8[2] = QuantizeLinear(x, s, p, axis=0)
    y: float32[2] = DequantizeLinear(a, s, p, axis=0)
    return y
""",
}


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_is_left_alone(title):
    check_text(SignedActivations(), LEFT_ALONE[title])
