"""Bias correction."""

import numpy as np
import pytest

from tests.compiler.graph.quantisation.graphs import residual, samples
from vdla.compiler.graph.interpret import all_values, interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.quantisation.bias import with_corrected_biases
from vdla.compiler.graph.quantisation.grids import Grid
from vdla.compiler.graph.quantisation.insert import with_grids
from vdla.compiler.graph.quantisation.roles import Roles


def test_a_mean_error_is_subtracted_from_the_bias():
    roles, data = Roles(residual()), samples(16)
    grids = {name: Grid(np.float32(0.5)) for name in roles.leaders.values()}
    grids["n"] = Grid(np.float32(0.5), 120)  # clips what is above 3.5: a mean error

    def mean_error(graph) -> float:
        quantised = with_grids(Roles(graph), grids)
        pairs = [(all_values(quantised, x)["a"], all_values(residual(), x)["a"]) for x in data]
        return float(np.abs(np.mean([found - wanted for found, wanted in pairs], 0)).max())

    changed = with_corrected_biases(roles, with_grids(roles, grids), data)
    assert mean_error(changed) < 0.5 * mean_error(roles.graph)


def test_one_sample_corrects_nothing():
    roles = Roles(residual())
    grids = {name: Grid(np.float32(1)) for name in roles.leaders.values()}
    assert with_corrected_biases(roles, with_grids(roles, grids), samples(1)) is roles.graph


GEMM = "y: float32[2, 2] = Gemm(x, w, b, alpha=1.0, beta={beta}, transA=0, transB={transposed})"
WEIGHTS = "w: float32[3, 2] = constant([[1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])"
BIAS = "b: float32[2] = constant([3.0, 4.0])"
PRODUCTS = {
    "Gemm": ("float32[2, 3]", WEIGHTS, BIAS, GEMM.format(beta=1.0, transposed=0)),
    "Gemm by half a bias": ("float32[2, 3]", WEIGHTS, BIAS, GEMM.format(beta=0.5, transposed=0)),
    "MatMul": (
        "float32[2, 3]",
        WEIGHTS,
        BIAS,
        "m: float32[2, 2] = MatMul(x, w)",
        "y: float32[2, 2] = Add(b, m)",
    ),
    "Conv of two groups": (
        "float32[1, 2, 3, 3]",
        "w: float32[2, 1, 1, 1] = constant([[[[1.0]]], [[[-1.0]]]])",
        BIAS,
        "y: float32[1, 2, 3, 3] = Conv(x, w, b, dilations=(1, 1), group=2, pads=(0, 0, 0, 0), strides=(1, 1))",
    ),
    "Conv without a bias": (
        "float32[1, 2, 3, 3]",
        "w: float32[2, 2, 1, 1] = constant([[[[1.0]], [[1.0]]], [[[-1.0]], [[1.0]]]])",
        "y: float32[1, 2, 3, 3] = Conv(x, w, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))",
    ),
}


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("title", PRODUCTS)
def test_the_error_that_all_samples_have_in_common_leaves_the_results(title, count):
    kind, *lines = PRODUCTS[title]
    graph = parse_graph(f"def f(x: {kind}):\n" + "".join(f"    {line}\n" for line in (*lines, "return y")))
    roles, shape = Roles(graph), graph.inputs["x"].shape
    rng = np.random.default_rng(3)
    data = [{"x": rng.uniform(0.3, 0.9, shape).astype(np.float32)} for _ in range(count)]
    grids = {name: Grid(np.float32(1)) for name in roles.leaders.values()}
    changed = with_corrected_biases(roles, with_grids(roles, grids), data)

    def result(of: Graph, x: np.ndarray) -> np.ndarray:
        """Return the means of the channels of the result."""
        (y,) = interpret(of, {"x": x}).values()
        return y.mean((0, 2, 3) if y.ndim == 4 else 0, dtype=np.float64)

    errors = np.stack([result(graph, np.round(sample["x"])) - result(graph, sample["x"]) for sample in data])
    mean = errors.mean(0)
    noise = ((errors - mean) ** 2).sum(0) / (count - 1) / count
    common = mean * np.maximum(0, 1 - noise / mean**2)
    assert (common != 0).any()
    before, after = (result(of, data[0]["x"]) for of in (graph, changed))
    np.testing.assert_allclose(after, before - common, rtol=1e-4, atol=1e-6)
