"""Scales and shifts of columns go into matrix products."""

import pytest

from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.rewrites.channel_scales import FOLD_CHANNEL_SCALES

WEIGHTS = "w: float32[2, 2] = constant([[1.0, 2.0], [3.0, 4.0]])"
TEXTS = {
    "a scale behind a bias": (
        f"""\
def f(x: float32[3, 2]):
    {WEIGHTS}
    m: float32[3, 2] = MatMul(x, w)
    b: float32[2] = constant([1.0, 2.0])
    a: float32[3, 2] = Add(m, b)
    g: float32[2] = constant([2.0, 0.5])
    y: float32[3, 2] = Mul(a, g)
    return y
""",
        """\
def f(x: float32[3, 2]):
    y_weights: float32[2, 2] = constant([[2.0, 1.0], [6.0, 2.0]])
    y_product: float32[3, 2] = MatMul(x, y_weights)
    y_bias: float32[2] = constant([2.0, 1.0])
    y: float32[3, 2] = Add(y_product, y_bias)
    return y
""",
    ),
    "a scale alone": (
        f"""\
def f(x: float32[3, 2]):
    {WEIGHTS}
    m: float32[3, 2] = MatMul(x, w)
    d: float32 = constant(2.0)
    y: float32[3, 2] = Div(m, d)
    return y
""",
        """\
def f(x: float32[3, 2]):
    y_weights: float32[2, 2] = constant([[0.5, 1.0], [1.5, 2.0]])
    y: float32[3, 2] = MatMul(x, y_weights)
    return y
""",
    ),
    "behind a Gemm with transposed weights": (
        f"""\
def f(x: float32[3, 2]):
    {WEIGHTS}
    b: float32[2] = constant([1.0, 2.0])
    m: float32[3, 2] = Gemm(x, w, b, alpha=2.0, beta=1.0, transA=0, transB=1)
    g: float32[2] = constant([2.0, 0.5])
    y: float32[3, 2] = Mul(m, g)
    return y
""",
        """\
def f(x: float32[3, 2]):
    y_weights: float32[2, 2] = constant([[4.0, 8.0], [3.0, 4.0]])
    y_bias: float32[2] = constant([2.0, 1.0])
    y: float32[3, 2] = Gemm(x, y_weights, y_bias, alpha=1.0, beta=1.0, transA=0, transB=1)
    return y
""",
    ),
}
LEFT_ALONE = {
    "a bias": f"""\
def f(x: float32[3, 2]):
    {WEIGHTS}
    m: float32[3, 2] = MatMul(x, w)
    b: float32[2] = constant([1.0, 2.0])
    y: float32[3, 2] = Add(m, b)
    return y
""",
    "a product that something else reads": f"""\
def f(x: float32[3, 2]):
    {WEIGHTS}
    m: float32[3, 2] = MatMul(x, w)
    g: float32[2] = constant([2.0, 0.5])
    y: float32[3, 2] = Mul(m, g)
    return y, m
""",
    "factors of rows": f"""\
def f(x: float32[3, 2]):
    {WEIGHTS}
    m: float32[3, 2] = MatMul(x, w)
    g: float32[3, 1] = constant([[2.0], [0.5], [1.0]])
    y: float32[3, 2] = Mul(m, g)
    return y
""",
    "weights that come in": """\
def f(x: float32[3, 2], w: float32[2, 2]):
    m: float32[3, 2] = MatMul(x, w)
    g: float32[2] = constant([2.0, 0.5])
    y: float32[3, 2] = Mul(m, g)
    return y
""",
}


@pytest.mark.parametrize("title", TEXTS)
def test_the_text_before_and_after(title):
    check_text(FOLD_CHANNEL_SCALES, *TEXTS[title])


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_is_no_change_of_the_columns_of_a_product_stays(title):
    check_text(FOLD_CHANNEL_SCALES, LEFT_ALONE[title])
