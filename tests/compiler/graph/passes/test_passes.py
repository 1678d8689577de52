"""Each pass as text before and after, and meaning kept."""

import numpy as np
import pytest

from vdla.compiler.graph import pipeline
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph, GraphError
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.passes.cleanup import CommonSubexpressions, ConstantFolding, DeadCode, RemoveIdentity
from vdla.compiler.graph.pipeline import SIMPLIFY, Pipeline
from vdla.compiler.graph.rewrites.channel_scales import FOLD_CHANNEL_SCALES
from vdla.compiler.graph.text import print_graph
from vdla.compiler.graph.verify import verify

PASSES = {
    "nodes and outputs that nothing needs go": (
        DeadCode(),
        """\
def f(x: float32[4]):
    unused: float32 = constant(1.0)
    a: float32[4] = Neg(x)
    b: float32[4] = Add(a, unused)
    p: float32[2]
    q: float32[2]
    p, q = Split(x, axis=0, split=(2, 2))
    y: float32[2] = Relu(p)
    return y
""",
        """\
def f(x: float32[4]):
    p: float32[2] = Split(x, axis=0, split=(2, 2))
    y: float32[2] = Relu(p)
    return y
""",
    ),
    "what is known is computed, but weights stay quantised": (
        ConstantFolding(),
        """\
def f(x: float32[2]):
    a: float32[2] = constant([1.0, 2.0])
    b: float32[2] = Neg(a)
    c: float32[2] = Mul(b, a)
    y: float32[2] = Add(x, c)
    q: int8[2] = constant([1, -2])
    s: float32 = constant(0.5)
    p: int8 = constant(0)
    w: float32[2] = DequantizeLinear(q, s, p, axis=0)
    z: float32[2] = Mul(y, w)
    return z
""",
        """\
def f(x: float32[2]):
    c: float32[2] = constant([-1.0, -4.0])
    y: float32[2] = Add(x, c)
    q: int8[2] = constant([1, -2])
    s: float32 = constant(0.5)
    p: int8 = constant(0)
    w: float32[2] = DequantizeLinear(q, s, p, axis=0)
    z: float32[2] = Mul(y, w)
    return z
""",
    ),
    "large results are left to the run": (
        ConstantFolding(limit_elements=8),
        """\
def f():
    a: float32[3, 3] = ConstantOfShape(dtype="float32", shape=(3, 3), value=1.0)
    b: float32[2] = ConstantOfShape(dtype="float32", shape=(2,), value=1.0)
    return a, b
""",
        """\
def f():
    b: float32[2] = constant([1.0, 1.0])
    a: float32[3, 3] = ConstantOfShape(dtype="float32", shape=(3, 3), value=1.0)
    return a, b
""",
    ),
    "the same work is done once, but outputs keep their names": (
        CommonSubexpressions(),
        """\
def f(x: float32[2]):
    s: float32 = constant(2.0)
    a: float32[2] = Mul(x, s)
    t: float32 = constant(2.0)
    b: float32[2] = Mul(x, t)
    c: float32[2] = Neg(b)
    d: float32[2] = Neg(a)
    e: float32[2] = LeakyRelu(d, alpha=0.5)
    g: float32[2] = LeakyRelu(d, alpha=0.25)
    h: float32[2] = Add(c, e)
    y: float32[2] = Add(h, g)
    z: float32[2] = Neg(a)
    return y, z
""",
        """\
def f(x: float32[2]):
    s: float32 = constant(2.0)
    a: float32[2] = Mul(x, s)
    c: float32[2] = Neg(a)
    e: float32[2] = LeakyRelu(c, alpha=0.5)
    g: float32[2] = LeakyRelu(c, alpha=0.25)
    h: float32[2] = Add(c, e)
    y: float32[2] = Add(h, g)
    z: float32[2] = Neg(a)
    return y, z
""",
    ),
    "work that an output has done is not done again": (
        CommonSubexpressions(),
        """\
def f(x: float32[2]):
    y: float32[2] = Neg(x)
    a: float32[2] = Neg(x)
    z: float32[2] = Relu(a)
    return y, z
""",
        """\
def f(x: float32[2]):
    y: float32[2] = Neg(x)
    z: float32[2] = Relu(y)
    return y, z
""",
    ),
    "identities go, and whatever made an output keeps its name": (
        RemoveIdentity(),
        """\
def f(x: float32[2, 1]):
    i: float32[2, 1] = Identity(x)
    d: float32[2, 1] = Dropout(i)
    r: float32[2, 1] = Reshape(d, shape=(2, 1))
    t: float32[2, 1] = Transpose(r, perm=(0, 1))
    n: float32[2, 1] = Neg(t)
    m: float32[2, 1] = Identity(n)
    y: float32[2, 1] = Dropout(m)
    z: float32[2, 1] = Relu(m)
    w: float32[2, 1] = Identity(x)
    v: float32[1, 2] = Transpose(z, perm=(1, 0))
    return y, z, w, v
""",
        """\
def f(x: float32[2, 1]):
    y: float32[2, 1] = Neg(x)
    z: float32[2, 1] = Relu(y)
    w: float32[2, 1] = Identity(x)
    v: float32[1, 2] = Transpose(z, perm=(1, 0))
    return y, z, w, v
""",
    ),
    "moves and joins of nothing go": (
        RemoveIdentity(),
        """\
def f(x: float32[2, 3]):
    a: float32[2, 3] = Slice(x, axes=(0, 1), ends=(2, 3), starts=(0, 0), steps=(1, 1))
    b: float32[2, 3] = Pad(a, mode="constant", pads=(0, 0, 0, 0), value=0.5)
    c: float32[2, 3] = Concat(b, axis=0)
    d: float32[2, 3] = Split(c, axis=0, split=(2,))
    e: float32[2, 3] = Sum(d)
    g: float32[2, 3] = Max(e)
    h: float32[2, 3] = Expand(g, shape=(2, 3))
    i: float32[2, 3] = Cast(h, to="float32")
    y: float32[2, 3] = Neg(i)
    return y
""",
        """\
def f(x: float32[2, 3]):
    y: float32[2, 3] = Neg(x)
    return y
""",
    ),
    "what changes elements or their places stays": (
        RemoveIdentity(),
        """\
def f(x: float32[2, 2]):
    a: float32[2, 2] = Pad(x, mode="constant", pads=(1, 0, -1, 0), value=0.5)
    b: float32[2, 2] = Sum(a, x)
    c: float32[2, 2] = Transpose(b, perm=(1, 0))
    d: int64[2, 2] = Cast(c, to="int64")
    e: float32[2, 2] = Cast(d, to="float32")
    g: float32[1, 2] = ReduceSum(e, axes=(0,), keepdims=1)
    h: float32[2, 2] = Expand(g, shape=(2, 2))
    y: float32[2, 2] = Neg(h)
    return y
""",
        None,
    ),
    "of an identity's two names, the later one goes out": (
        RemoveIdentity(),
        """\
def f(x: float32[2]):
    a: float32[2] = Neg(x)
    y: float32[2] = Identity(a)
    z: float32[2] = Identity(a)
    w: float32[2] = Identity(y)
    return y, z, w
""",
        """\
def f(x: float32[2]):
    y: float32[2] = Neg(x)
    z: float32[2] = Identity(y)
    w: float32[2] = Identity(y)
    return y, z, w
""",
    ),
    "a reversal is no identity": (
        RemoveIdentity(),
        """\
def f(x: float32[2]):
    y: float32[2] = Slice(x, axes=(0,), ends=(-3,), starts=(1,), steps=(-1,))
    z: float32[2] = Neg(y)
    return z
""",
        None,
    ),
    "normalisation goes into a product's weights": (
        FOLD_CHANNEL_SCALES,
        """\
def f(x: float32[1, 2]):
    w: float32[2, 2] = constant([[1.0, 2.0], [3.0, 4.0]])
    c: float32[2] = constant([1.0, 1.0])
    g: float32[1, 2] = Gemm(x, w, c, alpha=1.0, beta=2.0, transA=0, transB=1)
    scale: float32[2] = constant([1.0, 3.0])
    shift: float32[2] = constant([0.0, 5.0])
    mean: float32[2] = constant([1.0, 0.0])
    var: float32[2] = constant([3.0, 8.0])
    y: float32[1, 2] = BatchNormalization(g, scale, shift, mean, var, epsilon=1.0)
    return y
""",
        """\
def f(x: float32[1, 2]):
    y_weights: float32[2, 2] = constant([[0.5, 1.0], [3.0, 4.0]])
    y_bias: float32[2] = constant([0.5, 7.0])
    y: float32[1, 2] = Gemm(x, y_weights, y_bias, alpha=1.0, beta=1.0, transA=0, transB=1)
    return y
""",
    ),
    "sums that something else reads stay": (
        FOLD_CHANNEL_SCALES,
        """\
def f(x: float32[1, 1]):
    w: float32[1, 1] = constant([[1.0]])
    g: float32[1, 1] = Gemm(x, w, alpha=1.0, beta=1.0, transA=0, transB=0)
    one: float32[1] = constant([1.0])
    n: float32[1, 1] = BatchNormalization(g, one, one, one, one, epsilon=1.0)
    y: float32[1, 1] = Add(g, n)
    return y
""",
        None,
    ),
    "sums that are an output stay": (
        FOLD_CHANNEL_SCALES,
        """\
def f(x: float32[1, 1]):
    w: float32[1, 1] = constant([[1.0]])
    g: float32[1, 1] = Gemm(x, w, alpha=1.0, beta=1.0, transA=0, transB=0)
    one: float32[1] = constant([1.0])
    y: float32[1, 1] = BatchNormalization(g, one, one, one, one, epsilon=1.0)
    return g, y
""",
        None,
    ),
}

RNG = np.random.default_rng(0)


def inputs_for(graph: Graph) -> dict[str, np.ndarray]:
    """Return random inputs."""
    return {name: RNG.normal(size=type_.shape).astype(type_.dtype) for name, type_ in graph.inputs.items()}


def assert_same_meaning(before: Graph, after: Graph) -> None:
    """Run both graphs on the same inputs."""
    verify(after)
    inputs = inputs_for(before)
    expected, results = interpret(before, inputs), interpret(after, inputs)
    assert list(expected) == list(results)
    for name, array in expected.items():
        np.testing.assert_allclose(results[name], array, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("title", PASSES)
def test_the_text_before_and_after(title):
    change, before, after = PASSES[title]
    graph = parse_graph(before)
    changed = change.run(graph)
    assert print_graph(changed) == (after or before)
    assert change.run(changed) == changed
    assert_same_meaning(graph, changed)


PRODUCTS = [
    (
        "Conv",
        (8, 2, 3, 3),
        {"dilations": (1, 1), "group": 2, "pads": (1, 1, 1, 1), "strides": (1, 1)},
        (1, 4, 5, 5),
    ),
    (
        "ConvTranspose",
        (4, 4, 3, 3),
        {"dilations": (1, 1), "group": 2, "output_padding": (0, 0), "pads": (1, 1, 1, 1), "strides": (1, 1)},
        (1, 4, 5, 5),
    ),
    ("Gemm", (4, 8), {"alpha": 0.5, "beta": 2.0, "transA": 0, "transB": 0}, (3, 4)),
    ("Gemm", (8, 4), {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}, (3, 4)),
]


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(("op", "weights", "attributes", "shape"), PRODUCTS)
def test_folded_normalisation_means_the_same(op, weights, attributes, shape, has_bias):
    out = f"float32[{shape[0]}, {', '.join(map(str, (8, *shape[2:])))}]"
    constants = {"w": RNG.normal(size=weights).astype(np.float32)}
    constants |= {
        name: np.abs(RNG.normal(size=8)).astype(np.float32) for name in ("c", "scale", "shift", "mean", "var")
    }
    lines = [
        f"{name}: float32{list(array.shape)} = constant({array.tolist()})"
        for name, array in constants.items()
    ]
    how = ", ".join(f"{name}={value!r}" for name, value in attributes.items())
    lines += [
        f"g: {out} = {op}(x, w, {'c' if has_bias else 'None'}, {how})",
        f"y: {out} = BatchNormalization(g, scale, shift, mean, var, epsilon=1e-05)",
        "return y",
    ]
    before = DeadCode().run(parse_graph(f"def f(x: float32{list(shape)}):\n    " + "\n    ".join(lines)))
    after = FOLD_CHANNEL_SCALES.run(before)
    assert [node.op for node in after.nodes] == [op]
    assert_same_meaning(before, after)


def test_a_pipeline_prints_as_it_is_written():
    text = repr(SIMPLIFY)
    assert text.startswith("Pipeline(passes=(RemoveIdentity(), ConstantFolding(limit_elements=")
    assert eval(text, vars(pipeline)) == SIMPLIFY


def test_a_pipeline_checks_what_every_pass_returns():
    class Breaks:
        def run(self, graph):
            return Graph(graph.name, graph.inputs, ("nothing",), graph.nodes, graph.constants, graph.types)

    graph = parse_graph(PASSES["a reversal is no identity"][1])
    with pytest.raises(GraphError, match=r"^graph f: output 'nothing' is not a value of the graph$"):
        Pipeline((DeadCode(), Breaks())).run(graph)


def test_a_pipeline_checks_what_it_is_given():
    """Also where a pass would mend it."""

    class Mends:
        def run(self, graph):
            return parse_graph(PASSES["a reversal is no identity"][1])

    graph = parse_graph(PASSES["a reversal is no identity"][1])
    broken = Graph(graph.name, graph.inputs, ("nothing",), graph.nodes, graph.constants, graph.types)
    with pytest.raises(GraphError, match=r"^graph f: output 'nothing' is not a value of the graph$"):
        Pipeline((Mends(),)).run(broken)
