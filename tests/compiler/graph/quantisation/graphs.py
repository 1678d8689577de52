"""Small float graphs for the tests of quantisation."""

import numpy as np

from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.parse import parse_graph

RESIDUAL = """\
def f(x: float32[1, 4]):
    w: float32[4, 4] = constant([[1, 2, 0, 0], [0, 1, 3, 0], [0, 0, 1, 4], [5, 0, 0, 1]])
    b: float32[4] = constant([1, 2, 3, 4])
    scale: float32[4] = constant([1, 1, 1, 50])
    shift: float32[4] = constant([0, 0, 0, 0])
    n: float32[1, 4] = LayerNormalization(x, scale, shift, axis=-1, epsilon=1e-06)
    m: float32[1, 4] = MatMul(n, w)
    a: float32[1, 4] = Add(m, b)
    s: float32[1, 4] = Sigmoid(a)
    g: float32[1, 4] = Mul(a, s)
    d: float32[1, 4] = MatMul(g, w)
    y: float32[1, 4] = Add(x, d)
    return y
"""


def residual() -> Graph:
    """Return a block of a transformer: normalisation, a product with a bias, SiLU, a product, a sum."""
    return parse_graph(RESIDUAL)


def samples(count: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Return inputs of `residual`."""
    random = np.random.default_rng(seed)
    return [{"x": random.standard_normal((1, 4), np.float32)} for _ in range(count)]


ATTENTION = """\
def f(x: float32[4, 2]):
    w: float32[2, 6] = constant([[1, 0, 2, 1, 1, 2], [0, 1, 1, -1, 0, 1]])
    m: float32[4, 6] = MatMul(x, w)
    b: float32[6] = constant([0, 1, 0, 1, 0, 1])
    a: float32[4, 6] = Add(m, b)
    r: float32[4, 3, 2] = Reshape(a, shape=(4, 3, 2))
    t: float32[3, 4, 2] = Transpose(r, perm=(1, 0, 2))
    first: int64 = constant(0)
    q: float32[4, 2] = Gather(t, first, axis=0)
    k: float32[1, 4, 2]
    v: float32[2, 4, 2]
    k, v = Split(t, axis=0, split=(1, 2))
    o: float32[4, 2] = Reshape(k, shape=(4, 2))
    i: float32[2, 4] = Transpose(o, perm=(1, 0))
    s: float32[4, 4] = MatMul(q, i)
    d: float32 = constant(2.0)
    e: float32[4, 4] = Div(s, d)
    p: float32[4, 4] = Softmax(e, axis=-1)
    y: float32[2, 4, 2] = MatMul(p, v)
    return y
"""


def attention() -> Graph:
    """Return an attention: a product with a bias, parts of it, a product of two with a scale, a softmax, and
    products with it."""
    return parse_graph(ATTENTION)


def attention_samples(count: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Return inputs of `attention`."""
    random = np.random.default_rng(seed)
    return [{"x": random.standard_normal((4, 2), np.float32)} for _ in range(count)]


UNROLLED = """\
def f(x: float32[3, 2]):
    w: float32[2, 2] = constant([[1, 2], [3, 4]])
    x0: float32[1, 2] = Slice(x, axes=(0,), ends=(1,), starts=(0,), steps=(1,))
    x1: float32[1, 2] = Slice(x, axes=(0,), ends=(2,), starts=(1,), steps=(1,))
    h0: float32[1, 2] = MatMul(x0, w, name="h.0", step_of="n.forward.h")
    s0: float32[1, 2] = Add(h0, x1, name="s.0", step_of="n.forward.s")
    h1: float32[1, 2] = MatMul(s0, w, name="h.1", step_of="n.forward.h")
    s1: float32[1, 2] = Add(h1, x1, name="s.1", step_of="n.forward.s")
    y: float32[1, 2] = MatMul(s1, w, name="last")
    return y
"""


def unrolled() -> Graph:
    """Return two steps of a recurrence: a product and a sum each, and a product after them."""
    return parse_graph(UNROLLED)


def unrolled_samples(count: int) -> list[dict[str, np.ndarray]]:
    """Return inputs of `unrolled`."""
    random = np.random.default_rng(0)
    return [{"x": random.standard_normal((3, 2), np.float32)} for _ in range(count)]


ROWS = """\
def f(x: float32[3, 4], z: float32[3, 4]):
    w: float32[4, 4] = constant([[1, 2, 0, 0], [0, 1, 3, 0], [0, 0, 1, 4], [5, 0, 0, 1]])
    g: float32[4] = constant([1, 0.5, 2, 0])
    m: float32[3, 4] = MatMul(x, w)
    a: float32[3, 4] = Add(m, z)
    n: float32[3, 4] = RMSNormalization(a, g, axis=-1, epsilon=1e-05)
    p: float32[3, 4] = MatMul(n, w)
    b: float32[3, 4] = Add(a, p)
    o: float32[3, 4] = RMSNormalization(b, g, axis=1, epsilon=1e-05)
    y: float32[3, 4] = MatMul(o, w)
    return y
"""


def rows() -> Graph:
    """Return sums that normalisations by the root mean square read, between products."""
    return parse_graph(ROWS)


def samples_of_rows(count: int, far: float = 1.0) -> list[dict[str, np.ndarray]]:
    """Return inputs of `rows`. The last column of `z` is `far` times larger than the others."""
    random = np.random.default_rng(0)
    columns = np.array([1, 1, 1, far], np.float32)
    x, z = random.standard_normal((2, count, 3, 4), np.float32)
    return [{"x": x[place], "z": z[place] * columns} for place in range(count)]
