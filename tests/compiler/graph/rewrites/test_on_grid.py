"""Conversions behind operators that stay on the grid of integers."""

import pytest

from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.pipeline import INTEGERS
from vdla.compiler.graph.rewrites.conversions import CONVERT_AFTER_CHOICES

POOL = "ceil_mode=0, dilations=(1, 1), kernel_shape=(2, 2), pads=(0, 0, 0, 0), strides=(1, 1)"
HEAD = """\
def f(x: int8[1, 2, 3, 3]):
    s: float32 = constant(0.1)
    z: int8 = constant(-7)
    a: float32[1, 2, 3, 3] = DequantizeLinear(x, s, z, axis=0)
"""
RELU = "    b: float32[1, 2, 3, 3] = Relu(a)\n"
MEAN = """\
    y: float32[1, 2, 1, 1] = GlobalAveragePool(b)
    return y
"""
EXACT = """\
    b_exact: float32[1, 2, 3, 3] = Relu(a)
    b_integers: int8[1, 2, 3, 3] = QuantizeLinear(b_exact, s, z, axis=0)
    b: float32[1, 2, 3, 3] = DequantizeLinear(b_integers, s, z, axis=0)
"""
TEXTS = {
    "a mean of what Relu leaves": (HEAD + RELU + MEAN, HEAD + EXACT + MEAN),
    "bounds on the grid": (
        HEAD + RELU.replace("Relu(a)", "Clip(a, max=6.0, min=0.0)") + MEAN,
        HEAD + EXACT.replace("Relu(a)", "Clip(a, max=6.0, min=0.0)") + MEAN,
    ),
    "a maximum behind a Relu": (
        HEAD + RELU + f"    c: float32[1, 2, 2, 2] = MaxPool(b, {POOL})\n" + MEAN.replace("(b)", "(c)"),
        HEAD
        + EXACT
        + f"    c_exact: float32[1, 2, 2, 2] = MaxPool(b, {POOL})\n"
        + "    c_integers: int8[1, 2, 2, 2] = QuantizeLinear(c_exact, s, z, axis=0)\n"
        + "    c: float32[1, 2, 2, 2] = DequantizeLinear(c_integers, s, z, axis=0)\n"
        + MEAN.replace("(b)", "(c)"),
    ),
}


@pytest.mark.parametrize("title", TEXTS)
def test_the_text_before_and_after(title):
    before, after = TEXTS[title]
    check_text(CONVERT_AFTER_CHOICES, before, after)


LEFT_ALONE = {
    "bounds between the numbers of the grid": HEAD
    + RELU.replace("Relu(a)", "Clip(a, max=6.04, min=0.0)")
    + MEAN,
    "an upper bound below the largest number alone": HEAD
    + RELU.replace("Relu(a)", "Clip(a, max=13.35, min=0.0)")
    + MEAN,
    "a lower bound above the least number alone": HEAD
    + RELU.replace("Relu(a)", "Clip(a, max=6.0, min=-12.05)")
    + MEAN,
    "another function": HEAD + RELU.replace("Relu", "Sigmoid") + MEAN,
    "what goes on element by element": HEAD
    + RELU
    + "    t: float32 = constant(2.0)\n    y: float32[1, 2, 3, 3] = Mul(b, t)\n    return y\n",
    "what is quantised at once": HEAD
    + RELU
    + "    y: int8[1, 2, 3, 3] = QuantizeLinear(b, s, z, axis=0)\n    return y\n",
    "scales of channels": (HEAD + RELU + MEAN)
    .replace("s: float32 = constant(0.1)", "s: float32[2] = constant([0.1, 0.2])")
    .replace("z: int8 = constant(-7)", "z: int8[2] = constant([-7, 3])")
    .replace("axis=0", "axis=1"),
    "a scale that is computed": (HEAD + RELU + MEAN)
    .replace("3, 3]):", "3, 3], s: float32):", 1)
    .replace("    s: float32 = constant(0.1)\n", ""),
}


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_is_left_alone(title):
    check_text(CONVERT_AFTER_CHOICES, LEFT_ALONE[title])


def test_the_mean_is_then_one_of_integers():
    quantised = MEAN.replace("y: float32", "m: float32").replace(
        "    return y", "    y: int8[1, 2, 1, 1] = QuantizeLinear(m, s, z, axis=0)\n    return y"
    )
    ops = {node.op for node in INTEGERS.run(parse_graph(HEAD + RELU + quantised)).nodes}
    assert all(op.startswith("Int8") for op in ops)
