"""Softmax and layer normalisation that take and make integers."""

import numpy as np
import pytest

from tests.compiler.graph.passes.golden import assert_same_meaning
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.rewrites.conversions import FUSE_CONVERSIONS
from vdla.runtime.host.normalisation import softmax_powers

S, P = "s: float32 = constant(0.05)", "p: int8 = constant(-3)"
T = "t: float32 = constant(0.05)"
POWERS = f"w: float32[256] = constant({softmax_powers(np.float32(0.05)).tolist()})"
W = "w: float32[4] = constant([1.0, 2.0, 3.0, 4.0])"
REAL = "a: float32[2, 4] = DequantizeLinear(x, s, p, axis=0)"
NORMAL = 'n: float32[2, 4] = LayerNormalization(a, w, w, axis=1, epsilon=1e-05, name="normal")'
ROOT_MEAN_SQUARE = 'n: float32[2, 4] = RMSNormalization(a, w, axis=1, epsilon=1e-05, name="normal")'
ZERO = "o: int8 = constant(0)"
SOFTMAX = 'n: float32[2, 4] = DequantizedSoftmax(x, w, axis=1, name="softmax")'
NARROW = "y: int8[2, 4] = QuantizeLinear(n, t, p, axis=0)"


def graph_of(*lines: str, gives: str = "y", x: str = "int8", more: str = "") -> Graph:
    """Return a function of x and `more` inputs."""
    body = "".join(f"    {line}\n" for line in lines)
    return parse_graph(f"def f(x: {x}[2, 4]{more}):\n{body}    return {gives}\n")


FUSED = {
    "a softmax": (
        graph_of(P, T, POWERS, SOFTMAX, NARROW),
        ["Int8Softmax"],
        ("x", "y_powers", "y_factor", "y_addend"),
    ),
    "a normalisation": (
        graph_of(S, P, T, W, REAL, NORMAL, NARROW),
        ["Int8LayerNormalization"],
        ("x", "y_factors", "y_addends"),
    ),
    "a normalisation by the root mean square": (
        graph_of(S, ZERO, P, T, W, REAL.replace("p,", "o,"), ROOT_MEAN_SQUARE, NARROW),
        ["Int8LayerNormalization"],
        ("x", "y_factors", "y_addends"),
    ),
    "a normalisation without a bias of a tensor that is read otherwise": (
        graph_of(S, P, T, W, REAL, NORMAL.replace("w, w", "w"), NARROW, gives="y, a"),
        ["DequantizeLinear", "Int8LayerNormalization"],
        ("x", "y_factors", "y_addends"),
    ),
}


@pytest.mark.parametrize("title", FUSED)
def test_operators_between_conversions_become_one(title):
    graph, operators, inputs = FUSED[title]
    changed = FUSE_CONVERSIONS.run(graph)
    assert [node.op for node in changed.nodes] == operators
    assert (changed.nodes[-1].inputs, changed.nodes[-1].name) == (
        inputs,
        title.split()[1].replace("isation", ""),
    )
    assert FUSE_CONVERSIONS.run(changed) == changed
    assert_same_meaning(graph, changed)


def test_rows_that_are_divided_by_their_root_mean_square_keep_their_mean():
    for title, centred in (("a normalisation", 1), ("a normalisation by the root mean square", 0)):
        changed = FUSE_CONVERSIONS.run(FUSED[title][0])
        assert changed.nodes[-1].attributes["centred"] == centred


V = "w: float32[2, 4] = constant([[1.0, 1.0, 2.0, 1.0], [1.0, 1.0, 1.0, 1.0]])"
SEVERAL = ("u: float32[4] = constant([0.5, 1.0, 1.0, 1.0])", "q: int8[4] = constant([0, 0, 0, 0])")
LEFT_ALONE = {
    "real numbers that go out": graph_of(S, P, T, W, REAL, NORMAL, NARROW, gives="y, n"),
    "real numbers that are read otherwise": graph_of(
        S, P, T, W, REAL, NORMAL, NARROW, "z: float32[2, 4] = Neg(n)", gives="y, z"
    ),
    "several scales": graph_of(
        S, P, W, *SEVERAL, REAL, NORMAL, "y: int8[2, 4] = QuantizeLinear(n, u, q, axis=1)"
    ),
    "several scales of what comes in": graph_of(
        P, T, W, *SEVERAL, "a: float32[2, 4] = DequantizeLinear(x, u, q, axis=1)", NORMAL, NARROW
    ),
    "a scale of 0": graph_of(T.replace("0.05", "0.0"), P, POWERS, SOFTMAX, NARROW),
    "a scale of the result that comes in": graph_of(P, POWERS, SOFTMAX, NARROW, more=", t: float32"),
    "a zero point of the result that comes in": graph_of(
        T, POWERS, SOFTMAX, NARROW.replace("t, p", "t, o"), more=", o: int8"
    ),
    "a scale that comes in": graph_of(P, T, W, REAL, NORMAL, NARROW, more=", s: float32"),
    "powers that come in": graph_of(T, P, SOFTMAX, NARROW, more=", w: float32[256]"),
    "a root mean square of another zero point": graph_of(S, P, T, W, REAL, ROOT_MEAN_SQUARE, NARROW),
    "weights that come in": graph_of(S, P, T, REAL, NORMAL, NARROW, more=", w: float32[4]"),
    "a scale that factors of 16 bits do not hold": graph_of(
        S, P, T.replace("0.05", "0.02"), W, REAL, NORMAL, NARROW
    ),
    "a scale that the factor of a softmax does not hold": graph_of(
        T.replace("0.05", "0.0001"), P, POWERS, SOFTMAX, NARROW
    ),
    "a softmax that goes out": graph_of(P, T, POWERS, SOFTMAX, NARROW, gives="y, n"),
    "rows of several dimensions": graph_of(S, P, T, V, REAL, NORMAL.replace("axis=1", "axis=0"), NARROW),
    "real numbers that come in": graph_of(P, T, W, NORMAL.replace("a, w", "x, w"), NARROW, x="float32"),
    "another operator": graph_of(S, P, T, REAL, "n: float32[2, 4] = Neg(a)", NARROW),
    "uint8": graph_of(
        T, POWERS, "o: uint8 = constant(3)", SOFTMAX, "y: uint8[2, 4] = QuantizeLinear(n, t, o, axis=0)"
    ),
}


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_is_left_alone(title):
    graph = LEFT_ALONE[title]
    assert FUSE_CONVERSIONS.run(graph) == graph
