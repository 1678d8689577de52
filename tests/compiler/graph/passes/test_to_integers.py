"""The text of lowered graphs, and what stays as it is."""

import numpy as np
import pytest

from tests.compiler.graph.passes.golden import check_text
from tests.compiler.graph.passes.qdq import QdqBuilder, float_operators
from vdla.compiler.graph.interpret import all_values, interpret
from vdla.compiler.graph.passes.to_integers import ToIntegers

TEXTS = {
    "products, with bounds, padding and averages": (
        """\
def f(x: float32[1, 1, 2, 2]):
    s: float32 = constant(0.5)
    p: int8 = constant(-3)
    a: int8[1, 1, 2, 2] = QuantizeLinear(x, s, p, axis=0)
    b: float32[1, 1, 2, 2] = DequantizeLinear(a, s, p, axis=0)
    w: int8[2, 1, 1, 2] = constant([[[[1, 2]]], [[[3, -4]]]])
    t: float32[2] = constant([0.25, 0.5])
    o: int8[2] = constant([0, 0])
    c: float32[2, 1, 1, 2] = DequantizeLinear(w, t, o, axis=0)
    k: float32[2] = constant([1.0, -2.0])
    d: float32[1, 2, 2, 2] = Conv(b, c, k, dilations=(1, 1), group=1, pads=(0, 1, 0, 0), strides=(1, 1))
    e: float32[1, 2, 2, 2] = Relu(d)
    u: float32 = constant(0.25)
    q: int8 = constant(-128)
    g: int8[1, 2, 2, 2] = QuantizeLinear(e, u, q, axis=0)
    h: float32[1, 2, 2, 2] = DequantizeLinear(g, u, q, axis=0)
    m: float32[1, 2, 1, 1] = GlobalAveragePool(h)
    y: int8[1, 2, 1, 1] = QuantizeLinear(m, u, q, axis=0)
    return y
""",
        """\
def f(x: float32[1, 1, 2, 2]):
    s: float32 = constant(0.5)
    p: int8 = constant(-3)
    a: int8[1, 1, 2, 2] = QuantizeLinear(x, s, p, axis=0)
    g_padded: int8[1, 1, 2, 3] = Pad(a, mode="constant", pads=(0, 0, 0, 1, 0, 0, 0, 0), value=-3)
    g_weights: int8[2, 1, 1, 2] = constant([[[[1, 2]]], [[[3, -4]]]])
    g_parameters: int64[4, 2] = constant([[17, -11], [32768, 32768], [32784, 32783], [32640, 32640]])
    g: int8[1, 2, 2, 2] = Int8Conv(g_padded, g_weights, g_parameters, border=0, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    y_weights: int8[2, 1, 2, 2] = constant([[[[1, 1], [1, 1]]], [[[1, 1], [1, 1]]]])
    y_parameters: int64[4, 2] = constant([[512, 512], [32768, 32768], [32785, 32785], [32640, 32640]])
    y: int8[1, 2, 1, 1] = Int8Conv(g, y_weights, y_parameters, border=0, dilations=(1, 1), group=2, pads=(0, 0, 0, 0), strides=(1, 1))
    return y
""",
    ),
    "sums, products of elements, and moves; a part that is read in float is still made": (
        """\
def f(x: float32[1, 2], z: float32[1, 2]):
    s: float32 = constant(0.5)
    p: int8 = constant(-3)
    a: int8[1, 2] = QuantizeLinear(x, s, p, axis=0)
    b: float32[1, 2] = DequantizeLinear(a, s, p, axis=0)
    u: float32 = constant(0.25)
    q: int8 = constant(5)
    c: int8[1, 2] = QuantizeLinear(z, u, q, axis=0)
    d: float32[1, 2] = DequantizeLinear(c, u, q, axis=0)
    e: float32[1, 2] = Add(b, d)
    g: int8[1, 2] = QuantizeLinear(e, s, p, axis=0)
    h: float32[1, 2] = DequantizeLinear(g, s, p, axis=0)
    i: float32[1, 2] = Mul(h, d)
    j: float32[1, 2] = Clip(i, max=6.0, min=0.0)
    k: int8[1, 2] = QuantizeLinear(j, s, p, axis=0)
    l: float32[1, 2] = DequantizeLinear(k, s, p, axis=0)
    m: float32[1, 4] = Concat(l, d, axis=1)
    n: int8[1, 4] = QuantizeLinear(m, s, p, axis=0)
    v: float32[1, 2]
    w: float32[1, 2]
    r: float32[1, 4] = DequantizeLinear(n, s, p, axis=0)
    v, w = Split(r, axis=1, split=(2, 2))
    y: int8[1, 2] = QuantizeLinear(w, s, p, axis=0)
    t: float32[1, 2] = Sigmoid(v)
    return y, t
""",
        """\
def f(x: float32[1, 2], z: float32[1, 2]):
    s: float32 = constant(0.5)
    p: int8 = constant(-3)
    a: int8[1, 2] = QuantizeLinear(x, s, p, axis=0)
    u: float32 = constant(0.25)
    q: int8 = constant(5)
    c: int8[1, 2] = QuantizeLinear(z, u, q, axis=0)
    g_parameters: int64[4, 1] = constant([[8192], [1], [64782], [32640]])
    g: int8[1, 2] = Int8Add(a, c, g_parameters, factors=(16384, 8192))
    k_parameters: int64[4, 1] = constant([[0], [32768], [64785], [2557]])
    k: int8[1, 2] = Int8Mul(g, c, k_parameters, zeros=(-3, 5))
    n_c_parameters: int64[4, 1] = constant([[-5], [32768], [64784], [32640]])
    n_c: int8[1, 2] = Int8Requantise(c, n_c_parameters)
    m_int8: int8[1, 4] = Concat(k, n_c, axis=1)
    n: int8[1, 4] = Identity(m_int8)
    r: float32[1, 4] = DequantizeLinear(n, s, p, axis=0)
    v: float32[1, 2] = Split(r, axis=1, split=(2, 2))
    v_int8: int8[1, 2]
    w_int8: int8[1, 2]
    v_int8, w_int8 = Split(n, axis=1, split=(2, 2))
    y: int8[1, 2] = Identity(w_int8)
    t: float32[1, 2] = Sigmoid(v)
    return y, t
""",
    ),
}


@pytest.mark.parametrize("title", TEXTS)
def test_the_text_before_and_after(title):
    check_text(ToIntegers(), *TEXTS[title])


def product(of: QdqBuilder, x: str, w: str, *bias: str, **more) -> str:
    return of.add("Gemm", x, w, *bias, **{"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0, **more})


def pooled(of: QdqBuilder, op: str, **more) -> str:
    shape = {
        "kernel_shape": (3, 2),
        "pads": (1, 0, 0, 1),
        "strides": (2, 1),
        "ceil_mode": 0,
        "dilations": (1, 1),
    }
    return of.add(op, of.quantised(2, 3, 6, 5), **{**shape, **more})


def convolved(of: QdqBuilder, x: tuple[int, ...], w: str) -> str:
    rank = len(x) - 2
    return of.add(
        "Conv", of.quantised(*x), w, dilations=(1,) * rank, group=1, pads=(0,) * 2 * rank, strides=(1,) * rank
    )


def spread(of: QdqBuilder, zero: int = 0, **more) -> str:
    x = of.pair(of.input(1, 4, 3, 3), zero=zero)
    shape = {
        "dilations": (1, 1),
        "group": 1,
        "output_padding": (0, 0),
        "pads": (0, 0, 0, 0),
        "strides": (2, 2),
    }
    return of.add("ConvTranspose", x, of.weights(4, 2, 2, 2, axis=1), **{**shape, **more})


UNFIT = {
    "bias that is no constant": lambda of: product(
        of, of.quantised(2, 3), of.weights(3, 4, axis=1), of.input(4)
    ),
    "bias of several rows": lambda of: product(
        of, of.quantised(3, 3), of.weights(3, 3, axis=1), of.constant(of.values[of.quantised(3, 3)])
    ),
    "bias of a column": lambda of: product(
        of, of.quantised(3, 3), of.weights(3, 3, axis=1), of.constant(of.values[of.quantised(3, 1)])
    ),
    "weights with a zero point": lambda of: product(of, of.quantised(2, 3), of.weights(3, 4, axis=1, zero=3)),
    "uint8 weights": lambda of: product(
        of, of.quantised(2, 3), of.weights(3, 4, axis=1, zero=128, dtype="uint8")
    ),
    "float weights": lambda of: product(of, of.quantised(2, 3), of.constant(of.values[of.quantised(3, 4)])),
    "weights that are no constants": lambda of: product(of, of.quantised(2, 3), of.quantised(3, 4)),
    "scales of rows": lambda of: product(of, of.quantised(2, 3), of.weights(3, 4, axis=0)),
    "scaled products": lambda of: product(of, of.quantised(2, 3), of.weights(3, 4, axis=1), alpha=0.5),
    "scaled bias": lambda of: product(
        of, of.quantised(2, 3), of.weights(3, 4, axis=1), of.bias(4, "float"), beta=0.5
    ),
    "a transposed left matrix": lambda of: product(
        of, of.quantised(3, 2), of.weights(3, 4, axis=1), transA=1
    ),
    "a left matrix in float": lambda of: product(of, of.input(2, 3), of.weights(3, 4, axis=1)),
    "a vector of weights": lambda of: of.add("MatMul", of.quantised(2, 3), of.weights(3, axis=-1)),
    "stacked weights": lambda of: of.add("MatMul", of.quantised(2, 2, 3), of.weights(2, 3, 2, axis=-1)),
    "a convolution of one dimension": lambda of: convolved(of, (1, 2, 9), of.weights(4, 2, 3, axis=0)),
    "a transposed convolution of zero point 3": lambda of: spread(of, zero=3),
    "a transposed convolution of zero point -128": lambda of: spread(of, zero=-128),
    "a transposed convolution in groups": lambda of: spread(of, group=2),
    "a transposed convolution with gaps": lambda of: spread(of, dilations=(1, 2)),
    "operands that broadcast": lambda of: of.add("Add", of.quantised(2, 3), of.quantised(3)),
    "a constant operand": lambda of: of.add("Mul", of.quantised(3), of.weights(3, axis=-1)),
    "scales too far apart to add": lambda of: of.add(
        "Add", of.pair(of.input(3), 900.0), of.pair(of.input(3), 0.01)
    ),
    "pooling that rounds up": lambda of: pooled(of, "MaxPool", ceil_mode=1),
    "pooling with gaps": lambda of: pooled(of, "MaxPool", dilations=(2, 1)),
    "averages with gaps": lambda of: pooled(of, "AveragePool", count_include_pad=1, dilations=(2, 1)),
    "averages that leave out padding": lambda of: pooled(of, "AveragePool", count_include_pad=0),
    "averages over lines": lambda of: of.add("GlobalAveragePool", of.quantised(1, 2, 9)),
    "another operator": lambda of: of.add("Sigmoid", of.quantised(2, 3)),
    "a sum too long for the accumulator": lambda of: product(
        of, of.quantised(1, 300_000), of.weights(300_000, 1, axis=1)
    ),
}


@pytest.mark.parametrize("title", UNFIT)
def test_what_cannot_be_lowered_stays(title):
    of = QdqBuilder(0)
    real = UNFIT[title](of)
    graph = of.finish(of.pair(real, 0.05))
    lowered = ToIntegers().run(graph)
    assert float_operators(lowered) == float_operators(graph)
    np.testing.assert_array_equal(
        interpret(lowered, of.feeds())[graph.outputs[0]], of.values[graph.outputs[0]]
    )


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan"), 1e-30])
def test_scales_that_make_no_ratio_stay(scale):
    of = QdqBuilder(0)
    graph = of.finish(of.pair(of.add("Relu", of.quantised(3)), scale))
    assert float_operators(ToIntegers().run(graph)) == ["Relu"]


@pytest.mark.parametrize("kind", ["scale of the output", "zero point of the input"])
def test_conversions_by_values_that_are_no_constants_stay(kind):
    of = QdqBuilder(0)
    scale, zero = of.constant(np.float32(0.1)), of.constant(np.int8(0))
    changing = of.input() if kind.startswith("scale") else of.add("Cast", of.input(), to="int8")
    before = (scale, changing) if kind.startswith("zero") else (scale, zero)
    after = (changing, zero) if kind.startswith("scale") else (scale, zero)
    x = of.add("DequantizeLinear", of.add("QuantizeLinear", of.input(5), *before, axis=0), *before, axis=0)
    graph = of.finish(of.add("QuantizeLinear", of.add("Relu", x), *after, axis=0))
    assert "Relu" in float_operators(ToIntegers().run(graph))


def test_a_bias_far_beyond_what_weights_reach_fits_the_accumulator():
    for seed in range(10):
        of = QdqBuilder(seed)
        values, zeros = (
            of.constant(of.rng.integers(-128, 128, (40, 3)).astype(np.int8)),
            of.constant(np.zeros(3, np.int8)),
        )
        scales = of.constant(np.array([1e-2, 1e-9, 1e-12], np.float32))
        w = of.add("DequantizeLinear", values, scales, zeros, axis=1)
        bias = of.constant(np.array([-1.0, 2.0, 3.0], np.float32))
        graph = of.finish(of.pair(product(of, of.quantised(6, 40), w, bias)))
        lowered = ToIntegers().run(graph)
        assert float_operators(lowered) == []
        quantised = graph.nodes[-1].inputs[0]
        found = all_values(lowered, of.feeds())[quantised]
        assert np.abs(found.astype(int) - of.values[quantised]).max() <= 1
