"""Affine functions of channels: factors and shifts."""

import numpy as np
import pytest

from vdla.compiler.graph.affine import affine_of, factor_of
from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.parse import parse_graph

CHANGES = {
    "a sum": "Add(x, c)",
    "a sum, the other way round": "Add(c, x)",
    "a difference": "Sub(x, c)",
    "a difference, the other way round": "Sub(c, x)",
    "a product": "Mul(c, x)",
    "a quotient": "Div(x, c)",
}


def graph_of(call: str, shape: str = "2, 3", constant: str = "float32[3] = constant([2.0, -4.0, 0.5])"):
    return parse_graph(
        f"def f(x: float32[{shape}]):\n    c: {constant}\n    y: float32[{shape}] = {call}\n    return y\n"
    )


@pytest.mark.parametrize("title", CHANGES)
@pytest.mark.parametrize(
    "constant",
    ["float32[3] = constant([2.0, -4.0, 0.5])", "float32 = constant(3.0)", "float32[1] = constant([3.0])"],
)
def test_factors_and_shifts_compute_the_same_as_the_operator(title, constant):
    graph = graph_of(CHANGES[title], constant=constant)
    change = affine_of(graph, DefUse(graph).makers["y"], -1)
    assert change.x == "x"
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    expected = interpret(graph, {"x": x})["y"]
    np.testing.assert_allclose(x * change.factors + change.shifts, expected, rtol=1e-6)


OTHERS = {
    "a quotient of a constant": graph_of("Div(c, x)"),
    "a quotient by zero": graph_of("Div(x, c)", constant="float32[3] = constant([1.0, 0.0, 2.0])"),
    "numbers along another axis": graph_of("Add(x, c)", constant="float32[2, 1] = constant([[1.0], [2.0]])"),
    "a number for each element": graph_of(
        "Mul(x, c)", constant="float32[2, 3] = constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])"
    ),
    "an operand that is broadcast": parse_graph(
        "def f(x: float32[1]):\n    c: float32[3] = constant([1.0, 2.0, 3.0])\n"
        "    y: float32[3] = Add(x, c)\n    return y\n"
    ),
    "two operands": parse_graph(
        "def f(x: float32[3], c: float32[3]):\n    y: float32[3] = Add(x, c)\n    return y\n"
    ),
    "whole numbers": parse_graph(
        "def f(x: int64[3]):\n    c: int64 = constant(3)\n    y: int64[3] = Add(x, c)\n    return y\n"
    ),
    "another operator": parse_graph("def f(x: float32[3]):\n    y: float32[3] = Relu(x)\n    return y\n"),
}


@pytest.mark.parametrize("title", OTHERS)
def test_other_operators_are_not_affine(title):
    graph = OTHERS[title]
    assert affine_of(graph, DefUse(graph).makers["y"], -1) is None


def test_an_axis_beyond_the_rank_is_not_affine():
    graph = graph_of("Add(x, c)")
    assert affine_of(graph, DefUse(graph).makers["y"], 2) is None


def test_two_affine_functions_compose():
    first = affine_of(graph := graph_of("Mul(x, c)"), DefUse(graph).makers["y"], -1)
    last = affine_of(graph := graph_of("Sub(c, x)"), DefUse(graph).makers["y"], -1)
    both = last.after(first)
    np.testing.assert_array_equal(both.factors, [-2, 4, -0.5])
    np.testing.assert_array_equal(both.shifts, [2, -4, 0.5])
    assert both.x == "x"


@pytest.mark.parametrize(
    ("call", "constant", "factor"),
    [
        ("Mul(c, x)", "float32 = constant(0.5)", 0.5),
        ("Div(x, c)", "float32[1] = constant([4.0])", 0.25),
        ("Mul(x, c)", "float32[3] = constant([2.0, 2.0, 2.0])", 2.0),
        ("Mul(x, c)", "float32[3] = constant([2.0, 2.0, 1.0])", None),
        ("Mul(x, c)", "float32 = constant(-1.0)", None),
        ("Div(c, x)", "float32 = constant(4.0)", None),
        ("Div(x, c)", "float32 = constant(0.0)", None),
        ("Add(x, c)", "float32 = constant(1.0)", None),
    ],
)
def test_a_positive_scalar_multiplication_has_a_factor(call, constant, factor):
    graph = graph_of(call, constant=constant)
    assert factor_of(graph, DefUse(graph).makers["y"]) == (None if factor is None else ("x", factor))


NORMALISED = """\
def f(x: float32[1, 3, 2, 2]):
    s: float32[3] = constant([2.0, -1.0, 0.5])
    b: float32[3] = constant([1.0, 0.0, -4.0])
    m: float32[3] = constant([0.5, 3.0, -2.0])
    v: float32[3] = constant([0.75, 3.75, 0.0])
    y: float32[1, 3, 2, 2] = BatchNormalization(x, s, b, m, v, epsilon=0.25)
    return y
"""
STEPS = {"dilations": "(1, 1)", "group": 3, "pads": "(0, 0, 0, 0)", "strides": "(1, 1)"}


def depthwise(
    bias: str = ", b", weights: str = "float32[3, 1, 1, 1]", out: str = "1, 3, 2, 2", **more
) -> str:
    """Return a convolution with a weight for each channel, but for what is given."""
    numbers = np.float32([2.0, -1.0, 0.5] * 6)
    shape = tuple(map(int, weights[8:-1].split(",")))
    steps = ", ".join(f"{name}={value}" for name, value in {**STEPS, **more}.items())
    return f"""\
def f(x: float32[1, 3, 2, 2]):
    w: {weights} = constant({numbers[: np.prod(shape)].reshape(shape).tolist()})
    b: float32[3] = constant([1.0, 0.0, -4.0])
    y: float32[{out}] = Conv(x, w{bias}, {steps})
    return y
"""


@pytest.mark.parametrize("text", [NORMALISED, depthwise(), depthwise("")], ids=["norm", "bias", "none"])
def test_normalisations_and_1x1_depthwise_convolutions_are_affine(text):
    graph = parse_graph(text)
    node = DefUse(graph).makers["y"]
    change = affine_of(graph, node, 1)
    x = np.random.default_rng(0).normal(size=(1, 3, 2, 2)).astype(np.float32)
    wide = [numbers[:, None, None] for numbers in (change.factors, change.shifts)]
    np.testing.assert_allclose(x * wide[0] + wide[1], interpret(graph, {"x": x})["y"], rtol=1e-5)
    assert change.x == "x"
    assert affine_of(graph, node, -1) is None
    assert affine_of(graph, node, 2) is None
    assert affine_of(graph, node, -3).factors.tolist() == change.factors.tolist()


COMPUTED = {
    "a wider kernel": depthwise(weights="float32[3, 1, 1, 2]", out="1, 3, 2, 1"),
    "a higher kernel": depthwise(weights="float32[3, 1, 2, 1]", out="1, 3, 1, 2"),
    "all channels": depthwise(weights="float32[3, 3, 1, 1]", group=1),
    "a border before": depthwise(pads="(1, 0, 0, 0)", out="1, 3, 3, 2"),
    "a border behind": depthwise(pads="(0, 0, 0, 1)", out="1, 3, 2, 3"),
    "a stride": depthwise(strides="(1, 2)", out="1, 3, 2, 1"),
    "a bias that is computed": depthwise()
    .replace("[1, 3, 2, 2]):", "[1, 3, 2, 2], b: float32[3]):")
    .replace("    b: float32[3] = constant([1.0, 0.0, -4.0])\n", ""),
    "statistics that are computed": NORMALISED.replace(
        "[1, 3, 2, 2]):", "[1, 3, 2, 2], v: float32[3]):"
    ).replace("    v: float32[3] = constant([0.75, 3.75, 0.0])\n", ""),
}


@pytest.mark.parametrize("title", COMPUTED)
def test_other_convolutions_are_not_affine(title):
    graph = parse_graph(COMPUTED[title])
    assert affine_of(graph, DefUse(graph).makers["y"], 1) is None
