"""Conversions before maxima that are quantised."""

import numpy as np
import pytest

from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.pipeline import INTEGERS
from vdla.compiler.graph.rewrites.conversions import CONVERT_BEFORE_MAXIMA

POOL = "ceil_mode=0, dilations=(1, 1), kernel_shape=(2, 2), pads=(1, 0, 0, 0), strides=(1, 1)"
HEAD = """\
def f(x: int8[1, 2, 3, 3]):
    s: float32 = constant(0.1)
    z: int8 = constant(-7)
    a: float32[1, 2, 3, 3] = DequantizeLinear(x, s, z, axis=0)
    b: float32[1, 2, 3, 3] = Tanh(a)
"""
STEP = "    t: float32 = constant(0.02)\n"
TAIL = STEP + "    y: int8[1, 2, 3, 2] = QuantizeLinear(c, t, z, axis=0)\n    return y\n"
BEFORE = HEAD + f"    c: float32[1, 2, 3, 2] = MaxPool(b, {POOL})\n" + TAIL
AFTER = (
    HEAD
    + STEP
    + "    c_integers: int8[1, 2, 3, 3] = QuantizeLinear(b, t, z, axis=0)\n"
    + "    c_again: float32[1, 2, 3, 3] = DequantizeLinear(c_integers, t, z, axis=0)\n"
    + f"    c: float32[1, 2, 3, 2] = MaxPool(c_again, {POOL})\n"
    + TAIL.removeprefix(STEP)
)


def test_the_text_before_and_after():
    check_text(CONVERT_BEFORE_MAXIMA, BEFORE, AFTER)


def test_the_result_stays_and_all_is_done_with_integers():
    before, after = parse_graph(BEFORE), INTEGERS.run(parse_graph(BEFORE))
    assert [node.op for node in after.nodes] == ["Int8Lookup", "Int8MaxPool"]
    x = {"x": np.random.default_rng(0).integers(-128, 128, (1, 2, 3, 3), np.int8)}
    np.testing.assert_array_equal(interpret(before, x)["y"], interpret(after, x)["y"])


LEFT_ALONE = {
    "maxima of integers": BEFORE.replace("MaxPool(b,", "MaxPool(a,"),
    "a mean": BEFORE.replace("MaxPool(b, ", "AveragePool(b, count_include_pad=1, "),
    "scales along an axis": BEFORE.replace("(c, t, z, axis=0)", "(c, v, p, axis=1)").replace(
        "    a: float32",
        "    v: float32[2] = constant([0.5, 0.25])\n    p: int8[2] = constant([0, 1])\n    a: float32",
    ),
    "another reader": BEFORE.replace("    return y", "    d: float32[1, 2, 3, 2] = Neg(c)\n    return y, d"),
    "real numbers that leave the network": BEFORE.replace("return y", "return y, c"),
}


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_is_left_alone(title):
    graph = parse_graph(LEFT_ALONE[title])
    assert CONVERT_BEFORE_MAXIMA.run(graph).nodes == graph.nodes
