"""Layer normalisation that is written out in pieces becomes one operator."""

import numpy as np
import onnxruntime
import pytest

from tests.compiler.graph.onnx.networks import model, node
from tests.compiler.graph.passes.golden import assert_same_meaning
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.pipeline import SIMPLIFY
from vdla.compiler.graph.rewrites.normalisation import JOIN_PIECES

FULL, KEPT, DROPPED = "float32[2, 3, 4]", "float32[2, 3, 1]", "float32[2, 3]"
CONSTANTS = """\
two: float32 = constant(2.0)
half: float32 = constant(0.5)
less: float32 = constant(-0.5)
zero: float32 = constant(0.0)
one: float32 = constant(1.0)
n: float32 = constant(4.0)
quarter: float32 = constant(0.25)
e: float32[1] = constant([0.001])
g: float32[4] = constant([1.0, 2.0, 3.0, -4.0])
c: float32[1, 1, 4] = constant([[[0.5, 0.0, 1.0, 2.0]]])
"""
MEAN = f"m: {KEPT} = ReduceMean(x, axes=(2,), keepdims=1)"
CENTRED = f"d: {FULL} = Sub(x, m)"
SQUARES = f"s: {FULL} = Pow(d, two)"
VARIANCE = f"v: {KEPT} = ReduceMean(s, axes=(2,), keepdims=1)"
ADDED = f"a: {KEPT} = Add(v, e)"
ROOT = f"r: {KEPT} = Sqrt(a)"
NORMAL = f'y: {FULL} = Div(d, r, name="normal")'
TO_ROOT = (MEAN, CENTRED, SQUARES, VARIANCE, ADDED, ROOT)
INVERSE = f"i: {KEPT} = Reciprocal(r)"
SCALED_INVERSE = f"j: {FULL} = Mul(i, g)"


def graph_of(*lines: str, gives: str = "y", x: str = FULL) -> Graph:
    """Return a function of x with the constants that it reads."""
    words = " ".join(lines).replace("(", " ").replace(",", " ").replace(")", " ").split()
    known = [line for line in CONSTANTS.splitlines() if line.split(":")[0] in words]
    body = "".join(f"    {line}\n" for line in (*known, *lines, f"return {gives}"))
    return parse_graph(f"def f(x: {x}):\n{body}")


JOINED = {
    "as exporters write it": graph_of(*TO_ROOT, NORMAL),
    "with scale and bias": graph_of(
        *TO_ROOT, NORMAL, f"z: {FULL} = Mul(g, y)", f"q: {FULL} = Add(z, c)", gives="q"
    ),
    "with a bias alone": graph_of(*TO_ROOT, NORMAL, f"q: {FULL} = Add(c, y)", gives="q"),
    "with one number as scale": graph_of(*TO_ROOT, NORMAL, f"q: {FULL} = Mul(y, two)", gives="q"),
    "with a result that goes out, and is read": graph_of(
        *TO_ROOT, NORMAL, f"z: {FULL} = Mul(y, g)", gives="y, z"
    ),
    "twice the difference": graph_of(*TO_ROOT, f"f: {FULL} = Sub(x, m)", f"y: {FULL} = Div(f, r)"),
    "a square as a product": graph_of(MEAN, CENTRED, f"s: {FULL} = Mul(d, d)", VARIANCE, ADDED, ROOT, NORMAL),
    "a root as a power": graph_of(*TO_ROOT[:-1], f"r: {KEPT} = Pow(a, half)", NORMAL),
    "a power of minus a half": graph_of(*TO_ROOT[:-1], f"i: {KEPT} = Pow(a, less)", f"y: {FULL} = Mul(d, i)"),
    "a product with the reciprocal": graph_of(*TO_ROOT, INVERSE, f"y: {FULL} = Mul(i, d)"),
    "a product with a quotient": graph_of(*TO_ROOT, f"i: {KEPT} = Div(one, r)", f"y: {FULL} = Mul(d, i)"),
    "a scale in the reciprocal": graph_of(
        *TO_ROOT,
        INVERSE,
        SCALED_INVERSE,
        f"z: {FULL} = Mul(d, j)",
        f"y: {FULL} = Add(z, c)",
    ),
    "a difference of products": graph_of(
        *TO_ROOT,
        INVERSE,
        SCALED_INVERSE,
        f"p: {FULL} = Mul(x, j)",
        f"t: {FULL} = Mul(m, j)",
        f"u: {FULL} = Sub(c, t)",
        f"y: {FULL} = Add(p, u)",
    ),
    "the mean of squares less the square of the mean": graph_of(
        f"k: {DROPPED} = ReduceSum(x, axes=(2,), keepdims=0)",
        f"h: {DROPPED} = Mul(k, quarter)",
        f"m: {KEPT} = Reshape(h, shape=(2, 3, 1))",
        CENTRED,
        f"s: {FULL} = Mul(x, x)",
        f"l: {DROPPED} = ReduceSum(s, axes=(2,), keepdims=0)",
        f"o: {DROPPED} = Div(l, n)",
        f"w: {DROPPED} = Mul(h, h)",
        f"t: {DROPPED} = Sub(o, w)",
        f"b: {DROPPED} = Max(zero, t)",
        f"v: {KEPT} = Unsqueeze(b, axes=(2,))",
        ADDED,
        ROOT,
        NORMAL,
    ),
    "a mean that is spread out": graph_of(
        f"h: {KEPT} = ReduceMean(x, axes=(2,), keepdims=1)",
        f"m: {FULL} = Expand(h, shape=(2, 3, 4))",
        *TO_ROOT[1:],
        NORMAL,
    ),
}


@pytest.mark.parametrize("title", JOINED)
def test_pieces_become_one_operator(title):
    graph = JOINED[title]
    changed = JOIN_PIECES.run(graph)
    first, *behind = changed.nodes
    assert (first.op, first.inputs[0], first.attributes) == (
        "LayerNormalization",
        "x",
        {"axis": 2, "epsilon": float(np.float32(0.001))},
    )
    assert [graph_node.op for graph_node in behind] == (["Mul"] if title.endswith("is read") else [])
    assert JOIN_PIECES.run(changed) == changed
    assert_same_meaning(graph, changed)


def test_another_dimension_is_brought_to_the_end():
    kept = "float32[2, 1, 4]"
    graph = graph_of(
        f"m: {kept} = ReduceMean(x, axes=(1,), keepdims=1)",
        CENTRED,
        SQUARES,
        f"v: {kept} = ReduceMean(s, axes=(1,), keepdims=1)",
        f"a: {kept} = Add(v, e)",
        f"r: {kept} = Sqrt(a)",
        NORMAL,
        "w: float32[3, 1] = constant([[1.0], [2.0], [3.0]])",
        f"z: {FULL} = Mul(y, w)",
        gives="z",
    )
    changed = JOIN_PIECES.run(graph)
    assert [graph_node.op for graph_node in changed.nodes] == ["Transpose", "LayerNormalization", "Transpose"]
    assert changed.constants[changed.nodes[1].inputs[1]].tolist() == [1, 2, 3]
    assert_same_meaning(graph, changed)


@pytest.mark.parametrize(
    ("axes", "kept", "ops"),
    [
        ((1, 2), "float32[2, 1, 1]", ["Reshape", "LayerNormalization", "Reshape"]),
        ((2, 1), "float32[2, 1, 1]", ["Reshape", "LayerNormalization", "Reshape"]),
        ((0, 1, 2), "float32[1, 1, 1]", ["Reshape", "LayerNormalization", "Reshape"]),
        ((0, 2), "float32[1, 3, 1]", ["Transpose", "Reshape", "LayerNormalization", "Reshape", "Transpose"]),
    ],
)
@pytest.mark.parametrize("scale", ["g", "w"])
def test_several_dimensions_become_a_single_dimension(scale, axes, kept, ops):
    """The scale `g` differs along the last dimension alone, `w` along the last two."""
    graph = graph_of(
        f"m: {kept} = ReduceMean(x, axes={axes}, keepdims=1)",
        CENTRED,
        SQUARES,
        f"v: {kept} = ReduceMean(s, axes={axes}, keepdims=1)",
        f"a: {kept} = Add(v, e)",
        f"r: {kept} = Sqrt(a)",
        NORMAL,
        "w: float32[3, 4] = constant([[1, 2, 3, 4], [5, 6, 7, 8], [9, 1, 2, 3]])",
        f"z: {FULL} = Mul(y, {scale})",
        gives="z",
    )
    changed = JOIN_PIECES.run(graph)
    kept_scale = scale == "w" and 1 not in axes
    assert [each.op for each in changed.nodes] == [*ops, *["Mul"] * kept_scale]
    assert_same_meaning(graph, changed)


def test_a_scale_along_another_dimension_stays():
    graph = graph_of(
        *TO_ROOT,
        NORMAL,
        "w: float32[3, 1] = constant([[1.0], [2.0], [3.0]])",
        f"z: {FULL} = Mul(y, w)",
        gives="z",
    )
    changed = JOIN_PIECES.run(graph)
    assert [graph_node.op for graph_node in changed.nodes] == ["LayerNormalization", "Mul"]
    assert_same_meaning(graph, changed)


LEFT_ALONE = {
    "a mean that goes out": graph_of(*TO_ROOT, NORMAL, gives="y, m"),
    "a deviation that is read otherwise": graph_of(*TO_ROOT, NORMAL, f"z: {KEPT} = Neg(r)", gives="y, z"),
    "another quotient of the root": graph_of(*TO_ROOT, f"i: {KEPT} = Div(two, r)", f"y: {FULL} = Mul(d, i)"),
    "another power": graph_of(*TO_ROOT[:-1], f"i: {KEPT} = Pow(a, half)", f"y: {FULL} = Mul(d, i)"),
    "a root of another power": graph_of(*TO_ROOT[:-1], f"r: {KEPT} = Pow(a, quarter)", NORMAL),
    "a negative epsilon": graph_of(
        *TO_ROOT[:4],
        "o: float32 = constant(-0.001)",
        f"a: {KEPT} = Add(v, o)",
        ROOT,
        NORMAL,
    ),
    "an epsilon for each row": graph_of(
        *TO_ROOT[:4],
        "o: float32[3, 1] = constant([[0.1], [0.2], [0.3]])",
        f"a: {KEPT} = Add(v, o)",
        ROOT,
        NORMAL,
    ),
    "a scale along another dimension in the reciprocal": graph_of(
        *TO_ROOT,
        INVERSE,
        "w: float32[3, 1] = constant([[1.0], [2.0], [3.0]])",
        f"j: {KEPT} = Mul(i, w)",
        f"y: {FULL} = Mul(d, j)",
    ),
    "cubes": graph_of(
        MEAN, CENTRED, "three: float32 = constant(3.0)", f"s: {FULL} = Pow(d, three)", *TO_ROOT[3:], NORMAL
    ),
    "squares that are not centred": graph_of(
        MEAN, CENTRED, f"s: {FULL} = Pow(x, two)", VARIANCE, ADDED, ROOT, NORMAL
    ),
    "elements that are not centred": graph_of(*TO_ROOT, f"y: {FULL} = Div(x, r)"),
    "no epsilon": graph_of(*TO_ROOT[:4], f"r: {KEPT} = Sqrt(v)", NORMAL),
    "epsilon behind the root": graph_of(
        *TO_ROOT[:4], f"r: {KEPT} = Sqrt(v)", f"a: {KEPT} = Add(r, e)", f"y: {FULL} = Div(d, a)"
    ),
}


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_is_left_alone(title):
    graph = LEFT_ALONE[title]
    assert JOIN_PIECES.run(graph) == graph


OF_DIFFERENCES = {
    "variances along another dimension": graph_of(
        MEAN,
        CENTRED,
        SQUARES,
        "v: float32[2, 1, 4] = ReduceMean(s, axes=(1,), keepdims=1)",
        "a: float32[2, 1, 4] = Add(v, e)",
        "r: float32[2, 1, 4] = Sqrt(a)",
        NORMAL,
    ),
    "variances of fewer dimensions": graph_of(
        "m: float32[2, 1, 1] = ReduceMean(x, axes=(1, 2), keepdims=1)", *TO_ROOT[1:], NORMAL
    ),
    "a mean taken off the other way round": graph_of(MEAN, f"d: {FULL} = Sub(m, x)", *TO_ROOT[2:], NORMAL),
    "a different number of sums": graph_of(
        f"k: {KEPT} = ReduceSum(x, axes=(2,), keepdims=1)", f"m: {KEPT} = Mul(k, half)", *TO_ROOT[1:], NORMAL
    ),
    "a mean of another tensor": graph_of(
        f"o: {FULL} = Neg(x)", f"m: {KEPT} = ReduceMean(o, axes=(2,), keepdims=1)", *TO_ROOT[1:], NORMAL
    ),
    "a mean that is not kept, of a cube": graph_of(
        "m: float32[3, 3] = ReduceMean(x, axes=(2,), keepdims=0)",
        "d: float32[3, 3, 3] = Sub(x, m)",
        "s: float32[3, 3, 3] = Pow(d, two)",
        "v: float32[3, 3, 1] = ReduceMean(s, axes=(2,), keepdims=1)",
        "a: float32[3, 3, 1] = Add(v, e)",
        "r: float32[3, 3, 1] = Sqrt(a)",
        "y: float32[3, 3, 3] = Div(d, r)",
        x="float32[3, 3, 3]",
    ),
}


@pytest.mark.parametrize("title", OF_DIFFERENCES)
def test_differences_from_another_mean_are_divided_by_their_root_mean_square(title):
    graph = OF_DIFFERENCES[title]
    changed = JOIN_PIECES.run(graph)
    ops = [each.op for each in changed.nodes]
    assert "RMSNormalization" in ops
    assert not {"LayerNormalization", "Sqrt", "Div"} & {*ops}
    assert_same_meaning(graph, changed)


def agreed(nodes, shape, constants) -> Graph:
    """Return the simplified network from x to y, after its results were compared with onnxruntime's."""
    for number, each in enumerate(nodes):
        each.name = f"node_{number}"
    source = model(nodes, {"x": shape}, ["y"], constants).SerializeToString()
    graph = SIMPLIFY.run(load(source))
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(interpret(graph, {"x": x})["y"], session.run(None, {"x": x})[0], atol=1e-5)
    return graph


@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize("axis", [-1, 1])
def test_onnxruntime_agrees(axis, power):
    nodes = [
        node("ReduceMean", "x", "m", axes=[axis]),
        node("Sub", "x m", "d"),
        node("Sub", "x m", "f"),
        node("Cast", "f", "h", to=1),
        node("Pow", "h two", "s") if power else node("Mul", "h h", "s"),
        node("ReduceMean", "s", "v", axes=[axis]),
        node("Add", "v e", "a"),
        node("Sqrt", "a", "r"),
        node("Div", "d r", "n"),
        node("Mul", "n g", "z"),
        node("Add", "z g", "y"),
    ]
    scale = np.random.default_rng(1).normal(size=(5,) if axis == -1 else (3, 1, 1)).astype(np.float32)
    constants = {"two": np.float32(2), "e": np.float32(1e-5), "g": scale}
    graph = agreed(nodes, (2, 3, 4, 5), constants)
    whole = ["LayerNormalization"] if axis == -1 else ["Transpose", "LayerNormalization", "Transpose"]
    assert [each.op for each in graph.nodes] == whole


def test_a_group_normalisation_in_pieces_equals_onnxruntime():
    """The statistics are of three dimensions; scale and bias are of each channel, after a Reshape."""
    nodes = [
        node("Reshape", "x grouped", "g"),
        node("ReduceMean", "g", "m", axes=[2, 3, 4]),
        node("Sub", "g m", "d"),
        node("Mul", "d d", "s"),
        node("ReduceMean", "s", "v", axes=[2, 3, 4]),
        node("Add", "v e", "a"),
        node("Sqrt", "a", "r"),
        node("Div", "d r", "n"),
        node("Reshape", "n whole", "o"),
        node("Mul", "o scale", "z"),
        node("Add", "z bias", "y"),
    ]
    rng = np.random.default_rng(1)
    constants = {
        "grouped": np.array([2, 2, 3, 4, 5]),
        "whole": np.array([2, 6, 4, 5]),
        "e": np.float32(1e-5),
        "scale": rng.normal(size=(6, 1, 1)).astype(np.float32),
        "bias": rng.normal(size=(6, 1, 1)).astype(np.float32),
    }
    graph = agreed(nodes, (2, 6, 4, 5), constants)
    assert [each.op for each in graph.nodes].count("LayerNormalization") == 1
    assert not {"ReduceMean", "Sqrt", "Div"} & {each.op for each in graph.nodes}
