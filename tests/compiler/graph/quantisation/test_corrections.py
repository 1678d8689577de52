"""Channel equalisation and bias correction."""

import numpy as np
import pytest

from tests.compiler.graph.quantisation.graphs import residual, samples
from vdla.compiler.graph.interpret import all_values, interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.quantisation.corrections import with_corrected_biases, with_equalised_channels
from vdla.compiler.graph.quantisation.grids import Grid
from vdla.compiler.graph.quantisation.insert import with_grids
from vdla.compiler.graph.quantisation.roles import Roles


def test_an_outlying_channel_of_a_normalisation_shrinks_and_results_stay():
    graph, x = residual(), samples(8)
    changed = with_equalised_channels(Roles(graph), x[:2])
    sizes = [np.abs(all_values(each, x[0])["n"]).ravel() for each in (graph, changed)]
    assert sizes[1].max() / sizes[1].min() < sizes[0].max() / sizes[0].min() / 2
    for sample in x:
        np.testing.assert_allclose(interpret(changed, sample)["y"], interpret(graph, sample)["y"], rtol=1e-4)


ONE_ROW = """\
def f(x: float32[1, 4]):
    w: float32[4, 4] = constant([[1, 2, 0, 0], [0, 1, 3, 0], [0, 0, 1, 4], [5, 0, 0, 1]])
    g: float32[4] = constant([1, 1, 1, 50])
    n: float32[1, 4] = RMSNormalization(x, g, axis=-1, epsilon=1e-06)
    y: float32[1, 4] = MatMul(n, w)
    return y
"""


def test_single_rows_of_a_normalisation_are_measured_on_more_samples():
    graph, x = parse_graph(ONE_ROW), samples(64)
    whole, more, few = (with_equalised_channels(Roles(graph), x[:count]) for count in (64, 32, 2))
    assert whole == more != few
    assert whole.constants[whole.nodes[0].inputs[1]].tolist() != graph.constants["g"].tolist()
    for sample in x:
        np.testing.assert_allclose(interpret(whole, sample)["y"], interpret(graph, sample)["y"], rtol=1e-4)


def test_channels_without_readers_to_multiply_stay():
    graph = residual()
    assert with_equalised_channels(Roles(graph, {"m", "d"}), samples(1)) is graph


MIXED = """\
def f(x: float32[1, 3, 2, 2]):
    w: float32[2, 2] = constant([[1, 2], [3, 100]])
    m: float32[1, 3, 2, 2] = MatMul(x, w)
    v: float32[1, 3, 1, 1] = constant([[[[1]], [[2]], [[3]]]])
    y: float32[1, 1, 2, 2] = Conv(m, v, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    return y
"""


def test_columns_are_not_channels_of_a_convolution():
    graph = parse_graph(MIXED)
    assert with_equalised_channels(Roles(graph), [{"x": np.ones((1, 3, 2, 2), np.float32)}]) is graph


LINKS = {  # a tensor of one far channel between two operators: makers and readers of each kind
    "Gemm, as rows and as columns": """\
def f(x: float32[4, 3]):
    w: float32[2, 3] = constant([[1, 2, 1], [100, 300, 200]])
    c: float32[2] = constant([0.5, 50])
    m: float32[4, 2] = Gemm(x, w, c, alpha=1.0, beta=1.0, transA=0, transB=1)
    v: float32[2, 3] = constant([[10, 20, -7], [0.1, 0.3, 0.2]])
    y: float32[4, 3] = Gemm(m, v, alpha=1.0, beta=1.0, transA=0, transB=0)
    return y
""",
    "Gemm, as columns and as rows": """\
def f(x: float32[4, 3]):
    w: float32[3, 2] = constant([[1, 100], [2, 300], [1, 200]])
    m: float32[4, 2] = Gemm(x, w, alpha=1.0, beta=1.0, transA=0, transB=0)
    r: float32[4, 2] = Relu(m)
    v: float32[3, 2] = constant([[10, 0.1], [20, 0.3], [-7, 0.2]])
    y: float32[4, 3] = Gemm(r, v, alpha=1.0, beta=1.0, transA=0, transB=1)
    return y
""",
    "MatMul with a bias behind it": """\
def f(x: float32[4, 3]):
    w: float32[3, 2] = constant([[1, 100], [2, 300], [1, 200]])
    m: float32[4, 2] = MatMul(x, w)
    c: float32[2] = constant([0.5, 50])
    b: float32[4, 2] = Add(c, m)
    v: float32[2, 3] = constant([[10, 20, -7], [0.1, 0.3, 0.2]])
    y: float32[4, 3] = MatMul(b, v)
    return y
""",
    "ConvTranspose and Conv": """\
def f(x: float32[1, 3, 2, 2]):
    w: float32[3, 2, 1, 1] = constant([[[[1]], [[100]]], [[[2]], [[300]]], [[[1]], [[200]]]])
    c: float32[2] = constant([0.5, 50])
    m: float32[1, 2, 2, 2] = ConvTranspose(x, w, c, dilations=(1, 1), group=1, output_padding=(0, 0), pads=(0, 0, 0, 0), strides=(1, 1))
    v: float32[3, 2, 1, 1] = constant([[[[10]], [[0.1]]], [[[20]], [[0.3]]], [[[-7]], [[0.2]]]])
    y: float32[1, 3, 2, 2] = Conv(m, v, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    return y
""",
    "Conv, and two that read it": """\
def f(x: float32[1, 3, 2, 2]):
    w: float32[2, 3, 1, 1] = constant([[[[1]], [[2]], [[1]]], [[[100]], [[300]], [[200]]]])
    m: float32[1, 2, 2, 2] = Conv(x, w, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    v: float32[1, 2, 1, 2] = constant([[[[10, -20]], [[0.1, 0.3]]]])
    u: float32[2, 1, 1, 1] = constant([[[[10]]], [[[0.2]]]])
    y: float32[1, 1, 2, 1] = Conv(m, v, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    z: float32[1, 2, 2, 2] = Conv(m, u, dilations=(1, 1), group=2, pads=(0, 0, 0, 0), strides=(1, 1))
    return y, z
""",
}


@pytest.mark.parametrize("title", LINKS)
def test_channels_of_every_kind_are_equalised_and_results_stay(title):
    graph = parse_graph(LINKS[title])
    shape, rng = graph.inputs["x"].shape, np.random.default_rng(0)
    x = [{"x": rng.normal(size=shape).astype(np.float32)} for _ in range(3)]
    changed = with_equalised_channels(Roles(graph), x)
    axis = 1 if len(shape) == 4 else -1
    others = tuple(place for place in range(len(shape)) if place != axis % len(shape))
    value = next(node.inputs[0] for node in reversed(graph.nodes))
    sizes = [np.abs(all_values(each, x[0])[value]).max(others) for each in (graph, changed)]
    assert sizes[0][1] / sizes[0][0] > 4 * sizes[1][1] / sizes[1][0]
    assert np.sqrt(sizes[1].prod()) == pytest.approx(np.sqrt(sizes[0].prod()), rel=1e-3)
    for sample in x:
        before, after = interpret(graph, sample), interpret(changed, sample)
        for name, wanted in before.items():
            np.testing.assert_allclose(after[name], wanted, rtol=1e-4, atol=1e-2)


LEFT = {
    "another number than 0 as a bound": (
        "r: float32[4, 2] = Relu(m)",
        "r: float32[4, 2] = Clip(m, max=6.0, min=0.0)",
    ),
    "a reader that does not multiply": ("return y", "z: float32[4, 2] = Neg(r)\n    return y, z"),
    "a tensor that goes out": ("return y", "return y, r"),
}


@pytest.mark.parametrize("title", LEFT)
def test_channels_with_other_readers_stay(title):
    before, after = LEFT[title]
    graph = parse_graph(LINKS["Gemm, as columns and as rows"].replace(before, after))
    assert with_equalised_channels(Roles(graph), [{"x": np.ones((4, 3), np.float32)}]) is graph


def test_channels_without_finite_samples_stay():
    graph = parse_graph(LINKS["Gemm, as rows and as columns"])
    same = with_equalised_channels(Roles(graph), [{"x": np.full((4, 3), np.inf, np.float32)}])
    x = {"x": np.ones((4, 3), np.float32)}
    np.testing.assert_array_equal(interpret(same, x)["y"], interpret(graph, x)["y"])


SLID = "dilations=(1, 1), pads=(0, 0, 0, 0), strides=(1, 1)"
SEVERAL = f"""\
def f(x: float32[1, 1, 4, 4]):
    w: float32[2, 1, 1, 1] = constant([[[[1]]], [[[100]]]])
    m: float32[1, 2, 4, 4] = Conv(x, w, group=1, {SLID})
    v: float32[4, 1, 1, 1] = constant([[[[10]]], [[[20]]], [[[0.1]]], [[[0.3]]]])
    y: float32[1, 4, 4, 4] = Conv(m, v, group=2, {SLID})
    return y
"""


def test_a_depthwise_convolution_may_make_several_outputs_of_each_channel():
    graph = parse_graph(SEVERAL)
    x = [{"x": np.random.default_rng(seed).normal(size=(1, 1, 4, 4)).astype(np.float32)} for seed in (0, 1)]
    changed = with_equalised_channels(Roles(graph), x)
    sizes = [np.abs(all_values(each, x[0])["m"]).max((0, 2, 3)) for each in (graph, changed)]
    assert sizes[0][1] / sizes[0][0] > 4 * sizes[1][1] / sizes[1][0]
    np.testing.assert_allclose(interpret(changed, x[0])["y"], interpret(graph, x[0])["y"], rtol=1e-4)


THREE = """\
def f(x: float32[4, 1]):
    w: float32[1, 3] = constant([[{weights}]])
    m: float32[4, 3] = MatMul(x, w)
    v: float32[3, 2] = constant([[10, 20], [10, 20], [10, 20]])
    y: float32[4, 2] = MatMul(m, v)
    return y
"""


def factors_of(weights: str) -> np.ndarray:
    """Return the factors by which the readers multiply three channels, which are made with `weights`."""
    graph = parse_graph(THREE.format(weights=weights))
    x = {"x": np.linspace(-1, 2, 4, dtype=np.float32).reshape(4, 1)}
    changed = with_equalised_channels(Roles(graph), [x])
    first, second = (changed.constants[node.inputs[1]] for node in changed.nodes)
    np.testing.assert_allclose(first * second[:, 0], graph.constants["w"] * 10, rtol=1e-5)
    return second[:, 0] / 10


def test_factors_are_bounded_and_those_of_channels_of_zeros_are_1():
    np.testing.assert_allclose(factors_of("1e-6, 1, 1e6"), [1 / 1024, 1, 1024], rtol=1e-5)
    np.testing.assert_allclose(factors_of("0, 0.1, 10"), [1, 10**-0.75, 10**0.75], rtol=1e-5)


def test_channels_that_are_nearly_alike_stay():
    np.testing.assert_array_equal(factors_of("1, 1.1, 0.9"), [1, 1, 1])


# Bias correction


def test_a_mean_error_is_subtracted_from_the_bias():
    roles, data = Roles(residual()), samples(16)
    grids = {name: Grid(np.float32(0.5)) for name in roles.leaders.values()}
    grids["n"] = Grid(np.float32(0.5), 120)  # clips what is above 3.5: a mean error

    def mean_error(graph) -> float:
        quantised = with_grids(Roles(graph), grids)
        pairs = [(all_values(quantised, x)["a"], all_values(residual(), x)["a"]) for x in data]
        return float(np.abs(np.mean([result - wanted for result, wanted in pairs], 0)).max())

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
