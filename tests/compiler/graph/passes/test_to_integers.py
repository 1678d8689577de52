"""The text of lowered graphs, and what stays as it is."""

import re

import numpy as np
import pytest

from tests.compiler.graph.passes.golden import check_text
from tests.compiler.graph.passes.qdq import QdqBuilder
from vdla.compiler.graph.nodes import GraphError
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
    a: int8[1, 1, 2, 2] = QuantizeLinear(x, s, p, axis=0, reason="QuantizeLinear with input x that enters the network as float32; the accelerator takes int8 tensors")
    g_weights: int8[2, 1, 1, 2] = constant([[[[1, 2]]], [[[3, -4]]]])
    g_parameters: int64[4, 2] = constant([[17, -11], [32768, 32768], [32784, 32783], [32640, 32640]])
    g: int8[1, 2, 2, 2] = Int8Conv(a, g_weights, g_parameters, border=-3, dilations=(1, 1), group=1, pads=(0, 1, 0, 0), strides=(1, 1))
    y_parameters: int64[4, 1] = constant([[512], [32768], [32785], [32640]])
    y: int8[1, 2, 1, 1] = Int8AveragePool(g, y_parameters, border=0, kernel_shape=(2, 2), pads=(0, 0, 0, 0), strides=(1, 1))
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
    a: int8[1, 2] = QuantizeLinear(x, s, p, axis=0, reason="QuantizeLinear with input x that enters the network as float32; the accelerator takes int8 tensors")
    u: float32 = constant(0.25)
    q: int8 = constant(5)
    c: int8[1, 2] = QuantizeLinear(z, u, q, axis=0, reason="QuantizeLinear with input z that enters the network as float32; the accelerator takes int8 tensors")
    g_parameters: int64[4, 1] = constant([[8192], [1], [64782], [32640]])
    g: int8[1, 2] = Int8Add(a, c, g_parameters, factors=(16384, 8192))
    k_parameters: int64[4, 1] = constant([[0], [32768], [64785], [2557]])
    k: int8[1, 2] = Int8Mul(g, c, k_parameters, zeros=(-3, 5))
    n_c_parameters: int64[4, 1] = constant([[-5], [32768], [64784], [32640]])
    n_c: int8[1, 2] = Int8Requantise(c, n_c_parameters)
    m_int8: int8[1, 4] = Concat(k, n_c, axis=1)
    n: int8[1, 4] = Identity(m_int8)
    r: float32[1, 4] = DequantizeLinear(n, s, p, axis=0, reason="DequantizeLinear with result r that Split 'v' reads as float32; the accelerator takes int8 tensors")
    v: float32[1, 2] = Split(r, axis=1, split=(2, 2), reason="Split with result v that Sigmoid 't' reads as float32, not quantised; it needs int8 neighbours: quantise them (QuantizeLinear and DequantizeLinear, or --calibrate)")
    v_int8: int8[1, 2]
    w_int8: int8[1, 2]
    v_int8, w_int8 = Split(n, axis=1, split=(2, 2))
    y: int8[1, 2] = Identity(w_int8)
    t: float32[1, 2] = Sigmoid(v, reason="Sigmoid with input v not quantised: Split 'v' computes it as float32; it needs int8 neighbours: quantise them (QuantizeLinear and DequantizeLinear, or --calibrate)")
    return y, t
""",
    ),
}


@pytest.mark.parametrize("title", TEXTS)
def test_the_text_before_and_after(title):
    check_text(ToIntegers(), *TEXTS[title])


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_a_scale_that_means_nothing_is_refused(scale):
    of = QdqBuilder(0)
    graph = of.finish(of.pair(of.add("Relu", of.quantised(3)), scale))
    message = (
        f"graph f: QuantizeLinear 'quantizelinear_3_0' has the scale c3 = {scale:g}"
        f"{'' if scale else ', by which it divides'}; scales are finite and greater than 0: quantise the "
        "network again"
    )
    with pytest.raises(GraphError, match=f"^{re.escape(message)}$"):
        ToIntegers().run(graph)


def test_weights_of_a_scale_that_is_no_number_are_refused():
    of = QdqBuilder(0)
    constants = map(of.constant, (np.zeros((3, 4), np.int8), np.float32("nan"), np.int8(0)))
    w = of.add("DequantizeLinear", *constants, axis=0)
    graph = of.finish(of.pair(of.add("MatMul", of.quantised(2, 3), w), 0.1))
    with pytest.raises(GraphError, match=r"DequantizeLinear 'dequantizelinear_0_0' has the scale c1 = nan"):
        ToIntegers().run(graph)
