"""PRelu with a slope for each channel, as a sum."""

import numpy as np
import pytest

from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.pipeline import INTEGERS
from vdla.compiler.graph.rewrites.conversions import LEAST, SPLIT_PRELU

HEAD = """\
def f(x: int8[1, 2, 3, 3]):
    s: float32 = constant(0.1)
    z: int8 = constant(-7)
    a: float32[1, 2, 3, 3] = DequantizeLinear(x, s, z, axis=0)
"""
SLOPES = "    k: float32[2, 1, 1] = constant([[[0.25]], [[0.5]]])\n"
GRID = "    t: float32 = constant(0.05)\n    p: int8 = constant(3)\n"
TAIL = "    y: int8[1, 2, 3, 3] = QuantizeLinear(b, t, p, axis=0)\n    return y\n"
BEFORE = HEAD + SLOPES + "    b: float32[1, 2, 3, 3] = PRelu(a, k)\n" + GRID + TAIL
AFTER = (
    HEAD
    + "    b_above: float32[1, 2, 3, 3] = Relu(a)\n"
    + SLOPES
    + "    b_product: float32[1, 2, 3, 3] = Mul(a, k)\n"
    + f"    b_below: float32[1, 2, 3, 3] = Clip(b_product, max=0.0, min={LEAST!r})\n"
    + GRID
    + """\
    b_above_integers: int8[1, 2, 3, 3] = QuantizeLinear(b_above, t, p, axis=0)
    b_above_again: float32[1, 2, 3, 3] = DequantizeLinear(b_above_integers, t, p, axis=0)
    b_below_integers: int8[1, 2, 3, 3] = QuantizeLinear(b_below, t, p, axis=0)
    b_below_again: float32[1, 2, 3, 3] = DequantizeLinear(b_below_integers, t, p, axis=0)
    b: float32[1, 2, 3, 3] = Add(b_above_again, b_below_again)
"""
    + TAIL
)


def test_the_text_before_and_after():
    check_text(SPLIT_PRELU, BEFORE, AFTER)


def with_slopes(first: float, second: float, point: int) -> Graph:
    text = BEFORE.replace("[[0.25]], [[0.5]]", f"[[{first}]], [[{second}]]")
    return parse_graph(text.replace("constant(3)", f"constant({point})"))


@pytest.mark.parametrize("point", [-128, 3, 127])
@pytest.mark.parametrize("slopes", [(0.25, 0.5), (0.25, -0.5), (0.0, 1.5), (-1.0, -0.125)])
def test_all_is_done_with_integers_and_at_most_one_off(slopes, point):
    before = with_slopes(*slopes, point)
    after = INTEGERS.run(before)
    assert all(after.types[name].dtype != "float32" for node in after.nodes for name in node.outputs)
    assert "PRelu" not in {node.op for node in after.nodes}
    x = np.arange(-128, 128, dtype=np.int8)
    for part in np.array_split(np.concatenate([x, x[:14]]), 15):
        given = {"x": np.stack([part[:9], part[-9:]]).reshape(1, 2, 3, 3)}
        result, wanted = (interpret(graph, given)["y"].astype(int) for graph in (after, before))
        assert np.abs(result - wanted).max() <= 1


LEFT_ALONE = {
    "one slope": BEFORE.replace(
        "float32[2, 1, 1] = constant([[[0.25]], [[0.5]]])", "float32 = constant(0.25)"
    ),
    "scales of channels behind it": BEFORE.replace(
        "t: float32 = constant(0.05)", "t: float32[2] = constant([0.05, 0.1])"
    )
    .replace("p: int8 = constant(3)", "p: int8[2] = constant([3, 4])")
    .replace("(b, t, p, axis=0)", "(b, t, p, axis=1)"),
    "a scale that is computed": BEFORE.replace(
        "(x: int8[1, 2, 3, 3])", "(x: int8[1, 2, 3, 3], t: float32)"
    ).replace("    t: float32 = constant(0.05)\n", ""),
    "slopes that are computed": BEFORE.replace(
        "(x: int8[1, 2, 3, 3])", "(x: int8[1, 2, 3, 3], k: float32[2, 1, 1])"
    ).replace(SLOPES, ""),
    "another operator": BEFORE.replace("PRelu(a, k)", "Mul(a, k)"),
    "another reader": BEFORE.replace("    return y", "    d: float32[1, 2, 3, 3] = Neg(b)\n    return y, d"),
    "real numbers that leave the network": BEFORE.replace("return y", "return y, b"),
    "real numbers before it": BEFORE.replace("PRelu(a, k)", "PRelu(c, k)").replace(
        "    k: ", "    c: float32[1, 2, 3, 3] = Tanh(a)\n    k: "
    ),
}


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_is_left_alone(title):
    graph = parse_graph(LEFT_ALONE[title])
    assert SPLIT_PRELU.run(graph).nodes == graph.nodes
