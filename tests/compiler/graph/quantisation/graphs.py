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
