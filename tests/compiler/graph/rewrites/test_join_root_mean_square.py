"""A normalisation by the root mean square that is written out in pieces becomes one operator."""

import numpy as np
import pytest

from tests.compiler.graph.onnx.networks import node
from tests.compiler.graph.passes.golden import assert_same_meaning
from tests.compiler.graph.rewrites.test_join_normalisation import (
    ADDED,
    CENTRED,
    DROPPED,
    FULL,
    INVERSE,
    KEPT,
    MEAN,
    ROOT,
    SCALED_INVERSE,
    agreed,
    graph_of,
)
from vdla.compiler.graph.rewrites.normalisation import JOIN_PIECES

SQUARES = f"s: {FULL} = Pow(x, two)"
MEAN_SQUARE = f"v: {KEPT} = ReduceMean(s, axes=(2,), keepdims=1)"
TO_ROOT = (SQUARES, MEAN_SQUARE, ADDED, ROOT)
NORMAL = f"y: {FULL} = Div(x, r)"
PRODUCT = f"y: {FULL} = Mul(x, i)"
SCALE_BEFORE = f"w: {FULL} = Mul(x, g)"

JOINED = {
    "as exporters write it": graph_of(*TO_ROOT, NORMAL),
    "with a scale": graph_of(*TO_ROOT, NORMAL, f"z: {FULL} = Mul(g, y)", gives="z"),
    "with a scale before": graph_of(*TO_ROOT, SCALE_BEFORE, f"y: {FULL} = Div(w, r)"),
    "with a scale before a product": graph_of(*TO_ROOT, INVERSE, SCALE_BEFORE, f"y: {FULL} = Mul(i, w)"),
    "with a scale in the reciprocal": graph_of(*TO_ROOT, INVERSE, SCALED_INVERSE, f"y: {FULL} = Mul(x, j)"),
    "with scales before and after": graph_of(
        *TO_ROOT, SCALE_BEFORE, f"y: {FULL} = Div(w, r)", f"z: {FULL} = Mul(y, two)", gives="z"
    ),
    "a square as a product": graph_of(f"s: {FULL} = Mul(x, x)", *TO_ROOT[1:], NORMAL),
    "a root as a power": graph_of(*TO_ROOT[:-1], f"r: {KEPT} = Pow(a, half)", NORMAL),
    "a power of minus a half": graph_of(*TO_ROOT[:-1], f"i: {KEPT} = Pow(a, less)", PRODUCT),
    "a product with the reciprocal": graph_of(*TO_ROOT, INVERSE, f"y: {FULL} = Mul(i, x)"),
    "a product with a quotient": graph_of(*TO_ROOT, f"i: {KEPT} = Div(one, r)", PRODUCT),
    "a sum times a constant": graph_of(
        SQUARES,
        f"l: {DROPPED} = ReduceSum(s, axes=(2,), keepdims=0)",
        f"o: {DROPPED} = Mul(l, quarter)",
        f"v: {KEPT} = Unsqueeze(o, axes=(2,))",
        ADDED,
        ROOT,
        NORMAL,
    ),
    "a bias after it, which stays": graph_of(*TO_ROOT, NORMAL, f"z: {FULL} = Add(y, c)", gives="z"),
}
BEHIND = {"a bias after it, which stays": ["Add"], "with scales before and after": ["Mul"]}


@pytest.mark.parametrize("title", JOINED)
def test_pieces_become_one_operator(title):
    graph = JOINED[title]
    changed = JOIN_PIECES.run(graph)
    first, *behind = changed.nodes
    attributes = {"axis": 2, "epsilon": float(np.float32(0.001))}
    assert (first.op, first.inputs[0], first.attributes) == ("RMSNormalization", "x", attributes)
    assert [each.op for each in behind] == BEHIND.get(title, [])
    assert JOIN_PIECES.run(changed) == changed
    assert_same_meaning(graph, changed)


@pytest.mark.parametrize(
    ("axes", "kept", "ops"),
    [
        ((1, 2), "float32[2, 1, 1]", ["Reshape", "RMSNormalization", "Reshape"]),
        ((1,), "float32[2, 1, 4]", ["Transpose", "RMSNormalization", "Transpose"]),
        ((0, 2), "float32[1, 3, 1]", ["Transpose", "Reshape", "RMSNormalization", "Reshape", "Transpose"]),
    ],
)
def test_other_dimensions_are_brought_to_the_end(axes, kept, ops):
    graph = graph_of(
        SQUARES,
        f"v: {kept} = ReduceMean(s, axes={axes}, keepdims=1)",
        f"a: {kept} = Add(v, e)",
        f"r: {kept} = Sqrt(a)",
        NORMAL,
    )
    changed = JOIN_PIECES.run(graph)
    assert [each.op for each in changed.nodes] == ops
    assert_same_meaning(graph, changed)


LEFT_ALONE = {
    "a root of squares of another tensor": graph_of(
        f"o: {FULL} = Neg(x)", f"s: {FULL} = Pow(o, two)", *TO_ROOT[1:], NORMAL
    ),
    "a scale along another dimension": graph_of(
        *TO_ROOT,
        "w: float32[3, 1] = constant([[1.0], [2.0], [3.0]])",
        f"z: {FULL} = Mul(x, w)",
        f"y: {FULL} = Div(z, r)",
    ),
    "squares that are read otherwise": graph_of(*TO_ROOT, NORMAL, gives="y, s"),
    "epsilon behind the root": graph_of(
        *TO_ROOT[:2], f"r: {KEPT} = Sqrt(v)", f"a: {KEPT} = Add(r, e)", f"y: {FULL} = Div(x, a)"
    ),
    "a difference of products with the reciprocal": graph_of(
        MEAN,
        *TO_ROOT,
        INVERSE,
        f"p: {FULL} = Mul(x, i)",
        f"t: {KEPT} = Mul(m, i)",
        f"u: {FULL} = Sub(c, t)",
        f"y: {FULL} = Add(p, u)",
    ),
    "differences that are divided": graph_of(MEAN, CENTRED, *TO_ROOT, f"y: {FULL} = Div(d, r)"),
}


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_is_left_alone(title):
    graph = LEFT_ALONE[title]
    assert JOIN_PIECES.run(graph) == graph


@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize("axis", [-1, 1])
def test_onnxruntime_agrees(axis, power):
    nodes = [
        node("Pow", "x two", "s") if power else node("Mul", "x x", "s"),
        node("ReduceMean", "s", "v", axes=[axis]),
        node("Add", "v e", "a"),
        node("Sqrt", "a", "r"),
        node("Div", "one r", "i"),
        node("Mul", "x i", "n"),
        node("Mul", "g n", "y"),
    ]
    scale = np.random.default_rng(1).normal(size=(5,) if axis == -1 else (3, 1, 1)).astype(np.float32)
    constants = {"two": np.float32(2), "one": np.float32(1), "e": np.float32(1e-5), "g": scale}
    graph = agreed(nodes, (2, 3, 4, 5), constants)
    whole = ["RMSNormalization"] if axis == -1 else ["Transpose", "RMSNormalization", "Transpose"]
    assert [each.op for each in graph.nodes] == whole
