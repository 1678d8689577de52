"""Tensors that are quantised by their own range as real numbers."""

import numpy as np
import pytest

from vdla.compiler.graph.integer_forms.prerequisites import DYNAMIC
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.rewrites.quantised import FIX_RANGES
from vdla.compiler.graph.text import print_graph
from vdla.compiler.graph.verify import verify

HEAD = """\
def f(x: float32[3, 2]):
    y: uint8[3, 2]
    s: float32
    z: uint8
    y, s, z = DynamicQuantizeLinear(x)
    t: float32 = constant(0.5)
    u: float32 = Mul(s, t)
    w: uint8[2, 2] = constant([[1, 2], [3, 4]])
    p: uint8 = constant(2)
    m: int32[3, 2] = MatMulInteger(y, w, z, p)
"""
TAIL = """\
    c: float32[3, 2] = Cast(m, to="float32")
    r: float32[3, 2] = Mul(c, u)
    return r
"""
IMAGE = """\
def f(x: float32[1, 1, 2, 2]):
    y: uint8[1, 1, 2, 2]
    s: float32
    z: uint8
    y, s, z = DynamicQuantizeLinear(x)
    t: float32[2, 1, 1] = constant([[[0.5]], [[1.0]]])
    u: float32[2, 1, 1] = Mul(t, s)
    w: int8[2, 1, 1, 1] = constant([[[[3]]], [[[-4]]]])
    m: int32[1, 2, 2, 2] = ConvInteger(y, w, z, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    c: float32[1, 2, 2, 2] = Cast(m, to="float32")
    r: float32[1, 2, 2, 2] = Mul(u, c)
    return r
"""
BIAS = """\
    b: float32[2] = constant([0.75, -1.0])
    d: float32[2] = Div(b, u)
    f: float32[2] = Floor(d)
    i: int32[2] = Cast(f, to="int32")
"""
BIASED = (
    HEAD
    + BIAS
    + """\
    a: int32[3, 2] = Add(m, i)
    c: float32[3, 2] = Cast(a, to="float32")
    r: float32[3, 2] = Mul(c, u)
    return r
"""
)
IMAGE_BIASED = (
    IMAGE.replace("t: float32[2, 1, 1] = constant([[[0.5]], [[1.0]]])", "t: float32 = constant(0.5)")
    .replace("u: float32[2, 1, 1] =", "u: float32 =")
    .replace(
        "    c: float32[1, 2, 2, 2] = Cast(m, ",
        BIAS
        + """\
    j: int32[1, 2, 1, 1] = Reshape(i, shape=(1, 2, 1, 1))
    a: int32[1, 2, 2, 2] = Add(j, m)
    c: float32[1, 2, 2, 2] = Cast(a, """,
    )
)
TEXTS = {
    "a bias among the integers": (
        BIASED,
        """\
def f(x: float32[3, 2]):
    w_real: float32[2, 2] = constant([[-0.5, 0.0], [0.5, 1.0]])
    r_product: float32[3, 2] = MatMul(x, w_real)
    r_bias: float32[2] = constant([0.75, -1.0])
    r: float32[3, 2] = Add(r_product, r_bias)
    return r
""",
    ),
    "a bias among the integers of an image": (
        IMAGE_BIASED,
        """\
def f(x: float32[1, 1, 2, 2]):
    w_real: float32[2, 1, 1, 1] = constant([[[[1.5]]], [[[-2.0]]]])
    r_product: float32[1, 2, 2, 2] = Conv(x, w_real, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    r_bias: float32[1, 2, 1, 1] = constant([[[[0.75]], [[-1.0]]]])
    r: float32[1, 2, 2, 2] = Add(r_product, r_bias)
    return r
""",
    ),
    "a bias that a product of its own of the same scales divides": (
        BIASED.replace(
            "    d: float32[2] = Div(b, u)", "    v: float32 = Mul(t, s)\n    d: float32[2] = Div(b, v)"
        ),
        """\
def f(x: float32[3, 2]):
    w_real: float32[2, 2] = constant([[-0.5, 0.0], [0.5, 1.0]])
    r_product: float32[3, 2] = MatMul(x, w_real)
    r_bias: float32[2] = constant([0.75, -1.0])
    r: float32[3, 2] = Add(r_product, r_bias)
    return r
""",
    ),
    "one bias, and a scale for each column": (
        BIASED.replace("t: float32 = constant(0.5)", "t: float32[2] = constant([0.5, 1.0])")
        .replace("u: float32 =", "u: float32[2] =")
        .replace("b: float32[2] = constant([0.75, -1.0])", "b: float32 = constant(0.75)")
        .replace("Cast(f, ", "Round(f)\n    h: int32[2] = Cast(g, ")
        .replace("i: int32[2] = Round", "g: float32[2] = Round")
        .replace("    a: int32", "    i: int32[1, 2] = Unsqueeze(h, axes=(0,))\n    a: int32"),
        """\
def f(x: float32[3, 2]):
    w_real: float32[2, 2] = constant([[-0.5, 0.0], [0.5, 2.0]])
    r_product: float32[3, 2] = MatMul(x, w_real)
    r_bias: float32[1, 2] = constant([[0.75, 0.75]])
    r: float32[3, 2] = Add(r_product, r_bias)
    return r
""",
    ),
    "a product of matrices": (
        HEAD + TAIL,
        """\
def f(x: float32[3, 2]):
    w_real: float32[2, 2] = constant([[-0.5, 0.0], [0.5, 1.0]])
    r: float32[3, 2] = MatMul(x, w_real)
    return r
""",
    ),
    "a scale and a zero point for each column": (
        (HEAD + TAIL)
        .replace("t: float32 = constant(0.5)", "t: float32[2] = constant([0.5, 1.0])")
        .replace("u: float32 =", "u: float32[2] =")
        .replace("p: uint8 = constant(2)", "p: uint8[2] = constant([2, 3])"),
        """\
def f(x: float32[3, 2]):
    w_real: float32[2, 2] = constant([[-0.5, -1.0], [0.5, 1.0]])
    r: float32[3, 2] = MatMul(x, w_real)
    return r
""",
    ),
    "a convolution with a scale for each channel, and no zero point of weights": (
        IMAGE,
        """\
def f(x: float32[1, 1, 2, 2]):
    w_real: float32[2, 1, 1, 1] = constant([[[[1.5]]], [[[-4.0]]]])
    r: float32[1, 2, 2, 2] = Conv(x, w_real, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    return r
""",
    ),
    "what is made real again at once": (
        """\
def f(x: float32[3, 2]):
    y: uint8[3, 2]
    s: float32
    z: uint8
    y, s, z = DynamicQuantizeLinear(x)
    r: float32[3, 2] = DequantizeLinear(y, s, z, axis=0)
    return r
""",
        """\
def f(x: float32[3, 2]):
    r: float32[3, 2] = Identity(x)
    return r
""",
    ),
}


@pytest.mark.parametrize("title", TEXTS)
def test_the_text_before_and_after(title):
    before, after = TEXTS[title]
    graph = parse_graph(before)
    changed = FIX_RANGES.run(graph)
    assert print_graph(changed) == after
    assert FIX_RANGES.run(changed) == changed
    verify(changed)
    x = np.random.default_rng(0).normal(size=graph.inputs["x"].shape).astype(np.float32)
    step = np.ptp(np.append(x, 0)) / 255
    np.testing.assert_allclose(
        interpret(changed, {"x": x})["r"], interpret(graph, {"x": x})["r"], atol=8 * step
    )


LEFT_ALONE = {
    "integers that leave the network": HEAD + TAIL.replace("return r", "return r, m"),
    "integers that another product reads": HEAD
    + TAIL.replace("return r", "n: int32[3, 2] = Add(m, m)\n    return r, n"),
    "another factor than the scale": (HEAD + TAIL).replace("Mul(s, t)", "Mul(t, t)"),
    "a factor for each row": (HEAD + TAIL)
    .replace("t: float32 = constant(0.5)", "t: float32[3, 1] = constant([[0.5], [1.0], [2.0]])")
    .replace("u: float32 =", "u: float32[3, 1] ="),
    "another zero point": (HEAD + TAIL).replace("(y, w, z, p)", "(y, w, p, p)"),
    "weights that are computed": (HEAD + TAIL)
    .replace("def f(x: float32[3, 2]", "def f(x: float32[3, 2], w: uint8[2, 2]")
    .replace("    w: uint8[2, 2] = constant([[1, 2], [3, 4]])\n", ""),
    "a bias by another scale": BIASED.replace("Div(b, u)", "Div(b, t)"),
    "a bias by a scale of its own": BIASED.replace(
        "    d: float32[2] = Div(b, u)",
        "    k: float32 = constant(2.0)\n    v: float32 = Mul(s, k)\n    d: float32[2] = Div(b, v)",
    ),
    "a bias by the scales of other columns": BIASED.replace(
        "t: float32 = constant(0.5)", "t: float32[2] = constant([0.5, 1.0])"
    )
    .replace("u: float32 =", "u: float32[2] =")
    .replace(
        "    a: int32[3, 2] = Add(m, i)",
        "    o: int32[2, 1] = Reshape(i, shape=(2, 1))\n    a: int32[3, 2] = Add(m, o)",
    )
    .replace("3, 2", "2, 2"),
    "a bias that is computed": BIASED.replace("x: float32[3, 2]", "x: float32[3, 2], b: float32[2]").replace(
        "    b: float32[2] = constant([0.75, -1.0])\n", ""
    ),
    "integers of a constant as a bias": BIASED.replace(BIAS, "    i: int32[2] = constant([3, 4])\n"),
    "a sum of integers that another node reads": BIASED.replace("return r", "return r, a"),
    "a sum of scales": (HEAD + TAIL).replace("Mul(s, t)", "Add(s, t)"),
    "a factor for each element": (HEAD + TAIL)
    .replace(
        "t: float32 = constant(0.5)", "t: float32[3, 2] = constant([[0.5, 1.0], [1.0, 2.0], [2.0, 4.0]])"
    )
    .replace("u: float32 =", "u: float32[3, 2] ="),
    "a factor for each of as many rows as columns": (HEAD + TAIL)
    .replace("t: float32 = constant(0.5)", "t: float32[2, 1] = constant([[0.5], [1.0]])")
    .replace("u: float32 =", "u: float32[2, 1] =")
    .replace("3, 2", "2, 2"),
    "a zero point for each of other channels": (HEAD + TAIL)
    .replace("p: uint8 = constant(2)", "p: uint8[3] = constant([2, 3, 4])")
    .replace(
        "w: uint8[2, 2] = constant([[1, 2], [3, 4]])", "w: uint8[3, 2] = constant([[1, 2], [3, 4], [5, 6]])"
    )
    .replace("x: float32[3, 2]", "x: float32[3, 3]")
    .replace("y: uint8[3, 2]", "y: uint8[3, 3]"),
    "integers that are converted by a scale": (HEAD + TAIL)
    .replace('Cast(m, to="float32")', "DequantizeLinear(m, v, i, axis=0)")
    .replace("    c: ", "    v: float32 = constant(2.0)\n    i: int32 = constant(0)\n    c: "),
    "two products of constants": (HEAD + TAIL).replace("Mul(s, t)", "Mul(t, t)"),
    "real numbers that leave the network": (HEAD + TAIL).replace("return r", "return r, c"),
    "a sum in place of the last product": HEAD + TAIL.replace("Mul(c, u)", "Add(c, u)"),
}


QUANTISED = """\
def f(x: float32[3, 2], t: float32, p: uint8):
    y: uint8[3, 2]
    s: float32
    z: uint8
    y, s, z = DynamicQuantizeLinear(x)
    r: float32[3, 2] = DequantizeLinear(y, s, z, axis=0)
    return r, s, z
"""


@pytest.mark.parametrize(
    "operands",
    ["y, t, z", "y, s, p", "w, s, z"],
    ids=["another scale", "another zero point", "another tensor"],
)
def test_integers_that_become_other_real_numbers_are_left_alone(operands):
    text = QUANTISED.replace("(y, s, z, axis", f"({operands}, axis").replace(
        "p: uint8)", "p: uint8, w: uint8[3, 2])"
    )
    assert [node.op for node in FIX_RANGES.run(parse_graph(text)).nodes] == [DYNAMIC, "DequantizeLinear"]


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_is_left_alone(title):
    graph = parse_graph(LEFT_ALONE[title])
    changed = FIX_RANGES.run(graph)
    assert [node.op for node in changed.nodes].count(DYNAMIC) == 1
    assert [node.op for node in changed.nodes].count("MatMulInteger") == 1
    assert "MatMul" not in {node.op for node in changed.nodes}
