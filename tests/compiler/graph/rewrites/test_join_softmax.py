"""A softmax that is written out in pieces becomes one operator."""

import pytest

from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.rewrites.normalisation import JOIN_PIECES

FULL, KEPT, DROPPED = "float32[2, 3, 4]", "float32[2, 3, 1]", "float32[2, 3]"
GREATEST = f"m: {KEPT} = ReduceMax(x, axes=(2,), keepdims=1)"
BELOW = f"d: {FULL} = Sub(x, m)"
POWERS = f"e: {FULL} = Exp(d)"
SUMS = f"s: {KEPT} = ReduceSum(e, axes=(2,), keepdims=1)"
QUOTIENT = f'y: {FULL} = Div(e, s, name="softmax")'
PIECES = (GREATEST, BELOW, POWERS, SUMS, QUOTIENT)


def function(*lines: str, gives: str = "y") -> str:
    """Return a function of x."""
    return f"def f(x: {FULL}):\n" + "".join(f"    {line}\n" for line in (*lines, f"return {gives}"))


WHOLE = function(f'y: {FULL} = Softmax(x, axis=2, name="softmax")')
JOINED = {
    "as exporters write it": function(*PIECES),
    "a product with the reciprocal": function(
        *PIECES[:-1], f"r: {KEPT} = Reciprocal(s)", f'y: {FULL} = Mul(r, e, name="softmax")'
    ),
    "dimensions that are brought back, and a lower bound": function(
        "low: float32 = constant(float('-inf'))",
        f"a: {DROPPED} = ReduceMax(x, axes=(2,), keepdims=0)",
        f"b: {DROPPED} = Max(low, a)",
        f"c: {KEPT} = Reshape(b, shape=(2, 3, 1))",
        f"m: {FULL} = Expand(c, shape=(2, 3, 4))",
        BELOW,
        POWERS,
        f"t: {DROPPED} = ReduceSum(e, axes=(2,), keepdims=0)",
        f"s: {KEPT} = Unsqueeze(t, axes=(2,))",
        QUOTIENT,
    ),
}


@pytest.mark.parametrize("title", JOINED)
def test_pieces_become_one_operator(title):
    check_text(JOIN_PIECES, JOINED[title], WHOLE)


def test_without_maxima():
    half = "h: float32 = constant(0.125)"
    product = f"d: {FULL} = Mul(x, h)"
    check_text(
        JOIN_PIECES,
        function(half, product, POWERS, SUMS, QUOTIENT),
        function(half, product, f'y: {FULL} = Softmax(d, axis=2, name="softmax")'),
    )


def test_other_maxima_stay():
    maxima = "m: float32[2, 1, 4] = ReduceMax(x, axes=(1,), keepdims=1)"
    check_text(
        JOIN_PIECES,
        function(maxima, BELOW, POWERS, SUMS, QUOTIENT),
        function(maxima, BELOW, f'y: {FULL} = Softmax(d, axis=2, name="softmax")'),
    )


LEFT_ALONE = {
    "powers that go out": function(*PIECES, gives="y, e"),
    "sums that are read otherwise": function(*PIECES, f"z: {KEPT} = Log(s)", gives="y, z"),
    "sums of other powers": function(
        *PIECES[:3], f"o: {FULL} = Neg(e)", f"s: {KEPT} = ReduceSum(o, axes=(2,), keepdims=1)", QUOTIENT
    ),
    "means": function(*PIECES[:3], SUMS.replace("ReduceSum", "ReduceMean"), QUOTIENT),
    "sums over two dimensions": function(
        *PIECES[:3],
        "s: float32[2, 1, 1] = ReduceSum(e, axes=(1, 2), keepdims=1)",
        QUOTIENT,
    ),
    "no powers": function(SUMS.replace("(e,", "(x,"), f"y: {FULL} = Div(x, s)"),
    "a quotient the other way round": function(*PIECES[:-1], f"y: {FULL} = Div(s, e)"),
}


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_is_left_alone(title):
    graph = parse_graph(LEFT_ALONE[title])
    assert JOIN_PIECES.run(graph) == graph
