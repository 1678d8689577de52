"""Float tensors that represent int8 tensors, with producers and readers through Relu and Clip."""

import re
from math import inf

import numpy as np
import pytest

from vdla.compiler.graph.conversions import Conversions, ProducingBounds, QuantisedTensor, check_scales
from vdla.compiler.graph.integers import Quantisation
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.parse import parse_graph

HEAD = """\
def f(x: float32[2], k: int8[2]):
    s: float32 = constant(0.5)
    t: float32 = constant(0.25)
    z: int8 = constant(-3)
    w: int8[2] = constant([1, 2])
"""


def conversions(*lines: str, gives: str) -> Conversions:
    body = "".join(f"    {line}\n" for line in lines)
    return Conversions(parse_graph(f"{HEAD}{body}    return {gives}\n"))


CHAIN = (
    "a: float32[2] = Neg(x)",
    "r: float32[2] = Relu(a)",
    "p: int8[2] = QuantizeLinear(a, s, z, axis=0)",
    "c: float32[2] = Clip(r, max=6.0, min=-1.0)",
    "q: int8[2] = QuantizeLinear(r, t, z, axis=0)",
    "d: float32[2] = Clip(c, max=4.0, min=1.0)",
    "o: int8[2] = QuantizeLinear(c, s, z, axis=0)",
    "e: int8[2] = QuantizeLinear(d, s, z, axis=0)",
    "g: int8[2] = QuantizeLinear(d, t, z, axis=0)",
)


def test_the_source_of_a_value_precedes_all_its_bounds():
    chain = conversions(*CHAIN, gives="p, q, o, e, g")
    assert [chain.source(name) for name in "xarcd"] == ["x", "a", "a", "a", "a"]
    assert chain.producing_bounds("a") == ProducingBounds("a", -inf, inf)
    assert chain.producing_bounds("r") == ProducingBounds("a", 0.0, inf)
    assert chain.producing_bounds("c") == ProducingBounds("a", 0.0, 6.0)
    assert chain.producing_bounds("d") == ProducingBounds("a", 1.0, 4.0)
    step = Quantisation(0.5, -3)
    assert chain.bounded("a", step) == step
    assert chain.bounded("d", step) == step.bounded(1.0, 4.0)


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ((0.0, 6.0), (-1.0, 4.0), (0.0, 4.0)),
        ((0.0, 1.0), (2.0, 3.0), (2.0, 2.0)),
        ((2.0, 3.0), (0.0, 1.0), (1.0, 1.0)),
        ((0.0, 9.0), (5.0, 3.0), (3.0, 3.0)),
    ],
)
def test_successive_bounds_are_applied_in_order(first, second, both):
    bounds = ProducingBounds("a").bounded(*first).bounded(*second)
    assert bounds == ProducingBounds("a", *both)
    for value in np.linspace(-3, 10, 27):
        expected = value
        for low, high in (first, second):
            expected = min(max(expected, low), high)
        assert min(max(value, bounds.low), bounds.high) == expected


def test_the_first_quantiser_of_a_value_is_its_first_readers():
    chain = conversions(*CHAIN, gives="p, q, o, e, g")
    firsts = {name: chain.bounded_readers(name).quantiser for name in "xarcd"}
    assert {name: node and node.result for name, node in firsts.items()} == {
        "x": None,
        **dict.fromkeys("arcd", "e"),
    }


@pytest.mark.parametrize(
    ("lines", "gives", "use"),
    [
        (("q: int8[2] = QuantizeLinear(x, s, z, axis=0)",), "q", ""),
        (
            ("q: int8[2] = QuantizeLinear(x, s, z, axis=0)", 'n: float32[2] = Neg(x, name="neg")'),
            "q, n",
            "x that Neg 'neg' reads as float32",
        ),
        (("r: float32[2] = Relu(x)",), "r", "r that leaves the network as float32"),
        (
            (
                "r: float32[2] = Relu(x)",
                'n: float32[2] = Neg(r, name="neg")',
                'm: float32[2] = Abs(x, name="abs")',
            ),
            "n, m",
            "r that Neg 'neg' reads as float32",
        ),
        (
            (
                'm: float32[2] = Abs(x, name="abs")',
                "r: float32[2] = Relu(x)",
                'n: float32[2] = Neg(r, name="neg")',
            ),
            "n, m",
            "x that Abs 'abs' reads as float32",
        ),
        (("r: float32[2] = Relu(x)", "q: int8[2] = QuantizeLinear(r, s, z, axis=0)"), "q", ""),
    ],
)
def test_the_first_float_reader_of_a_value_is_described(lines, gives, use):
    assert conversions(*lines, gives=gives).float_use("x") == use


def test_an_operand_is_the_tensor_that_is_dequantised():
    operands = conversions(
        "a: float32[2] = DequantizeLinear(k, t, z, axis=0)",
        "b: float32[2] = DequantizeLinear(w, s, z, axis=0)",
        "y: float32[2] = Add(a, b)",
        gives="y",
    )
    assert operands.operand("a") == QuantisedTensor("k", Quantisation(0.25, -3))
    assert [operands.is_dequantised(name) for name in ("a", "b", "y", "x", "")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert operands.dequantised_constants("a") is None
    assert operands.dequantised_constants("y") is None
    assert [array.tolist() for array in operands.dequantised_constants("b")] == [[1, 2], 0.5, -3]


def scaled(scale: str, of: str, op: str = "DequantizeLinear") -> str:
    kind, source = ("float32", "k") if op == "DequantizeLinear" else ("int8", "x")
    source = "w" if of == "a constant" else source
    count = "float32" if "[" not in scale else "float32[2]"
    zeros = "int8 = constant(0)" if "[" not in scale else "int8[2] = constant([0, 0])"
    return (
        f"{HEAD}    v: {count} = constant({scale})\n    o: {zeros}\n"
        f'    y: {kind}[2] = {op}({source}, v, o, axis=0, name="n")\n    return y\n'
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (scaled("0.0", "an activation"), "DequantizeLinear 'n' has the scale v = 0"),
        (scaled("-0.5", "a constant"), "DequantizeLinear 'n' has the scale v = -0.5"),
        (scaled("[1.0, -2.0]", "a constant"), "DequantizeLinear 'n' has the scale v = -2"),
        (scaled("[0.0, 1.0]", "an activation"), "DequantizeLinear 'n' has the scale v = 0"),
        (
            scaled("0.0", "an activation", "QuantizeLinear"),
            "QuantizeLinear 'n' has the scale v = 0, by which it divides",
        ),
        (scaled("-1.0", "an activation", "QuantizeLinear"), "QuantizeLinear 'n' has the scale v = -1"),
    ],
)
def test_invalid_scales_are_refused(text, said):
    message = f"graph f: {said}; scales are finite and greater than 0: quantise the network again"
    with pytest.raises(GraphError, match=f"^{re.escape(message)}$"):
        check_scales(parse_graph(text))


@pytest.mark.parametrize(
    "text",
    [scaled("0.0", "a constant"), scaled("[0.0, 1.0]", "a constant"), scaled("1e-30", "an activation")],
)
def test_pruned_channels_of_constants_may_have_the_scale_0(text):
    check_scales(parse_graph(text))
