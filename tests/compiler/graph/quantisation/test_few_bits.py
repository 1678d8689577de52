"""Weights of fewer than eight bits: their range, and errors that other weights make up for."""

import numpy as np
import pytest

from vdla.compiler.graph.nodes import Graph, GraphError
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.quantisation.few_bits import few_bit_weights
from vdla.compiler.graph.quantisation.options import Options
from vdla.compiler.graph.quantisation.roles import Roles
from vdla.compiler.graph.quantise import quantise
from vdla.runtime.arrays import digest

RNG = np.random.default_rng(3)
ROWS, INPUTS, OUTPUTS = 64, 24, 12


def correlated(rows: int) -> np.ndarray:
    """Return rows whose channels follow from half as many numbers, and a little noise."""
    mixing = np.random.default_rng(4).standard_normal((INPUTS // 2, INPUTS))
    rows = RNG.standard_normal((rows, INPUTS // 2)) @ mixing + 0.1 * RNG.standard_normal((rows, INPUTS))
    return rows.astype(np.float32)


def graph_of(body: str, **constants: np.ndarray) -> Graph:
    declared = "".join(
        f'    {name}: float32[{", ".join(map(str, array.shape))}] = constant(sha256="{digest(array)}")\n'
        for name, array in constants.items()
    )
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return parse_graph(f"def f(x: float32[{ROWS}, {INPUTS}]):\n{declared}{lines}", constants)


WEIGHTS = RNG.standard_normal((INPUTS, OUTPUTS)).astype(np.float32)
PRODUCT = graph_of(f"y: float32[{ROWS}, {OUTPUTS}] = MatMul(x, w)\nreturn y", w=WEIGHTS)
SAMPLES = [{"x": correlated(ROWS)} for _ in range(4)]


def real(graph: Graph, bits: int) -> np.ndarray:
    """Return the weights of the only product, rounded to so many bits, as numbers."""
    (integers,) = few_bit_weights(Roles(graph), SAMPLES, bits).values()
    assert integers.values.dtype == np.int8
    assert np.abs(integers.values).max() == (1 << (bits - 1)) - 1
    along = [-1 if axis == integers.axis else 1 for axis in range(integers.values.ndim)]
    return integers.values * integers.scale.astype(np.float64).reshape(along)


def nearest(bits: int) -> np.ndarray:
    """Return the weights rounded to the nearest, with scales that reach the greatest."""
    largest = (1 << (bits - 1)) - 1
    scale = np.abs(WEIGHTS).max(0) / largest
    return np.rint(WEIGHTS / scale) * scale


def error(weights: np.ndarray) -> float:
    """Return the mean squared error of results on rows that were no samples."""
    return float(np.square(correlated(512) @ (weights - WEIGHTS)).mean())


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_results_are_nearer_than_with_weights_rounded_to_the_nearest(bits):
    assert error(real(PRODUCT, bits)) < 0.5 * error(nearest(bits))


def test_more_bits_are_nearer():
    errors = [error(real(PRODUCT, bits)) for bits in range(2, 8)]
    assert errors == sorted(errors, reverse=True)


def test_products_with_the_same_weights_get_the_same_integers():
    body = f"a: float32[{ROWS}, {OUTPUTS}] = MatMul(x, w)\nn: float32[{ROWS}, {INPUTS}] = Neg(x)\n"
    body += f"b: float32[{ROWS}, {OUTPUTS}] = MatMul(n, w)\nreturn a, b"
    first, second = few_bit_weights(Roles(graph_of(body, w=WEIGHTS)), SAMPLES, 4).values()
    assert first is second


TURNED = (
    f"y: float32[{ROWS}, {OUTPUTS}] = Gemm(x, w, None, alpha=0.5, beta=1.0, transA=0, transB=1)\nreturn y"
)


def test_factors_and_transposed_weights_count():
    graph = graph_of(TURNED, w=np.ascontiguousarray(2 * WEIGHTS.T))
    np.testing.assert_allclose(real(graph, 4), real(PRODUCT, 4).T, rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [((OUTPUTS, INPUTS, 1, 1), "pads=(0, 0, 0, 0)"), ((OUTPUTS, INPUTS, 3, 1), "pads=(1, 0, 1, 0)")],
)
def test_convolutions_have_weights_of_few_bits(shape, attributes):
    weights = RNG.standard_normal(shape).astype(np.float32)
    body = (
        f"i: float32[1, {INPUTS}, {ROWS}, 1] = Reshape(x, shape=(1, {INPUTS}, {ROWS}, 1))\n"
        f"y: float32[1, {OUTPUTS}, {ROWS}, 1] = Conv(i, w, {attributes}, dilations=(1, 1), group=1, "
        "strides=(1, 1))\nreturn y"
    )
    rounded = real(graph_of(body, w=weights), 4)
    assert rounded.shape == shape
    assert np.square(rounded - weights).mean() < 0.05 * np.square(weights).mean()


def test_channels_without_input_and_weights_of_zero_are_no_error():
    weights = WEIGHTS * (np.arange(OUTPUTS) > 0)
    graph = graph_of(f"y: float32[{ROWS}, {OUTPUTS}] = MatMul(x, w)\nreturn y", w=weights)
    silent = [{"x": np.zeros((ROWS, INPUTS), np.float32)}]
    for samples in (SAMPLES, silent):
        (integers,) = few_bit_weights(Roles(graph), samples, 4).values()
        assert not integers.values[:, 0].any()
        assert np.isfinite(integers.scale).all()


def test_the_quantiser_uses_them():
    quantised = quantise(PRODUCT, SAMPLES, Options(weight_bits=3, target_db=None))
    (weights,) = (array for array in quantised.graph.constants.values() if array.shape == WEIGHTS.shape)
    assert set(np.unique(weights)) <= set(range(-3, 4))


@pytest.mark.parametrize("bits", [1, 9])
def test_other_numbers_of_bits_are_refused(bits):
    with pytest.raises(GraphError, match=rf"^weight_bits = {bits} is outside 2\.\.8$"):
        quantise(PRODUCT, SAMPLES, Options(weight_bits=bits))
